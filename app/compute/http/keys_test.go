package computehttp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	c := openTES(t, nil)
	old := c.finish(c.order(client.ComputeOrder{}).ID, compute.Ending{Exit: 1, Cause: compute.CauseExit})
	second := c.finish(c.order(client.ComputeOrder{}).ID, compute.Ending{Exit: 1, Cause: compute.CauseExit})
	json := func(path, with string, other bool, key string) *http.Request {
		body := map[bool]string{true: `"note":"other","name":"other"`, false: `"note":"n"`}[other] + with
		if key != "" {
			body += fmt.Sprintf(`,"key":%q`, key)
		}
		return c.Request(http.MethodPost, path, "{"+body+"}")
	}
	task := func(path string) servertest.Keyed {
		return func(other bool, key string) *http.Request {
			if key != "" {
				return nil // the specification has no such field
			}
			return c.Request(http.MethodPost, path, fmt.Sprintf(`{"name":"%t","executors":[{"image":"ubuntu","command":["true"]}]}`, other))
		}
	}
	routes := computehttp.Part(c.Server, computehttp.Options{}).Routes
	servertest.CheckKeys(t, c.Harness, routes, map[string]servertest.Keyed{
		"POST /api/v1/compute/jobs": func(other bool, key string) *http.Request {
			return json("/api/v1/compute/jobs", `,"service":"wide","command":["true"]`, other, key)
		},
		"POST /compute": func(other bool, key string) *http.Request {
			parts := []part{{"service", "", "wide"}, {"command", "", fmt.Sprint("echo ", other)}}
			if key != "" {
				parts = append(parts, part{"key", "", key})
			}
			return c.pageForm(parts...)
		},
		"POST /api/v1/compute/jobs/{id}/clone": func(other bool, key string) *http.Request {
			return json("/api/v1/compute/jobs/"+string(old.ID)+"/clone", "", other, key)
		},
		"POST /api/v1/compute/jobs/{id}/retry": func(other bool, key string) *http.Request {
			path := "/api/v1/compute/jobs/" + string(old.ID) + "/retry"
			if other { // a retry changes nothing: another one is that of another job
				path = "/api/v1/compute/jobs/" + string(second.ID) + "/retry"
			}
			return c.Request(http.MethodPost, path, fmt.Sprintf(`{"key":%q}`, key))
		},
		"POST /ga4gh/tes/v1/tasks": task("/ga4gh/tes/v1/tasks"),
		"POST /v1/tasks":           task("/v1/tasks"),
	})
}

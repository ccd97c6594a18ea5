package computehttp_test

import (
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestVersionsOfEveryRoute: see [servertest.CheckVersions].
func TestVersionsOfEveryRoute(t *testing.T) {
	c := openCompute(t, nil)
	change := func(method, more string, ended bool) servertest.Versioned {
		return func() (string, func() *http.Request) {
			id := c.order(api.ComputeOrder{}).ID
			if c.runs(id); ended {
				c.finish(id, compute.Ending{})
			}
			read := "/api/v1/compute/jobs/" + string(id)
			return read, func() *http.Request { return c.Request(method, read+more, "") }
		}
	}
	servertest.CheckVersions(t, c.Harness, computehttp.Part(c.Server, computehttp.Options{}).Routes,
		map[string]servertest.Versioned{
			"DELETE /api/v1/compute/jobs/{id}":      change(http.MethodDelete, "", false),
			"POST /api/v1/compute/jobs/{id}/cancel": change(http.MethodPost, "/cancel", false),
			"POST /api/v1/compute/jobs/{id}/clean":  change(http.MethodPost, "/clean", true),
		})
}

package flowhttp_test

import (
	"testing"

	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed lists, independently of the routes, which roles may use what is below a path: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/api/v1/flows": "uoa",
	"/flows/":       "uoa",
	"/jobs/":        "uoa",
}

// reasonIn lists, independently of the routes, in which type each route that needs a reason reads it; nil: in the
// query.
var reasonIn = map[string]any{
	"POST /api/v1/flows/{id}/mark-reverted": client.FlowMark{},
	"POST /api/v1/flows/{id}/signal":        client.FlowSignal{},
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn, func(w *servertest.Harness) server.Part {
		return flowhttp.Part(w.Server, nil)
	})
}

// TestFilters: see [servertest.CheckFilters].
func TestFilters(t *testing.T) {
	w := openFlows(t, nil)
	j := w.submit(client.FlowOrder{File: waits})
	w.until(j.ID, waiting)
	servertest.CheckFilters(t, w.Harness, flowhttp.Part(w.Server, nil).Routes, map[string]string{
		"GET /api/v1/flows/{id}": "/api/v1/flows/" + string(j.ID),
	}, nil)
}

// TestAbsent: see [servertest.CheckAbsent].
func TestAbsent(t *testing.T) {
	absent := func(w *servertest.Harness) server.Part { return flowhttp.Part(w.Server, nil) }
	servertest.CheckAbsent(t, absent, openFlows(t, nil).Harness, map[string]string{"/": "module flow"})
}

package customhttp_test

import (
	"testing"

	"github.com/stagepost/stagepost/api"
	customhttp "github.com/stagepost/stagepost/app/custom/http"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed lists the roles that may use what is below a path.
var allowed = map[string]string{"POST /api/v1/lifecycles": "a", "DELETE /api/v1/lifecycles": "a",
	"GET /api/v1/lifecycles": "wa"}

// reasonIn lists the type in which each route that needs a reason reads it.
var reasonIn = map[string]any{"POST /api/v1/lifecycles": api.NewLifecycle{}, "DELETE /api/v1/lifecycles/{name}": nil}

// TestFilters: see [servertest.CheckFilters].
func TestFilters(t *testing.T) {
	part := func(w *servertest.Harness) server.Part { return customhttp.Part(w.Server, nil) }
	w := servertest.Open(t, nil, nil, part)
	servertest.CheckFilters(t, w, part(w).Routes, nil, nil)
}

func TestRoutes(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn,
		func(w *servertest.Harness) server.Part { return customhttp.Part(w.Server, nil) })
}

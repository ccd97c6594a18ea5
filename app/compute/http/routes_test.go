package computehttp_test

import (
	"testing"

	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed lists, independently of the routes, which roles may use what is below a path: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/api/v1/compute/jobs":                      "uoa",
	"/api/v1/compute/jobs/{id}/clean":           "ua",
	"/api/v1/compute/jobs/{id}/files/{path...}": "ua",
	"/api/v1/compute/jobs/{id}/results":         "ua",
	"/api/v1/compute/jobs/{id}/partial":         "ua",
	"/compute/jobs/{id}/clean":                  "ua",
	"/api/v1/compute/services":                  "uoa",
	"/api/v1/compute/usage":                     "uoa",
	"/api/v1/compute/uploads":                   "uoa",
	"/api/v1/compute/agents":                    "oa",
	"/api/v1/compute/tunnel":                    "wa",
	"/ga4gh/tes/v1/":                            "uoa",
	"/v1/":                                      "uoa",
	"/compute":                                  "uoa",
}

// reasonIn lists, independently of the routes, in which type each route that needs a reason reads it; nil: in the
// query.
var reasonIn = map[string]any{
	"DELETE /api/v1/compute/jobs/{id}":          nil,
	"POST /api/v1/compute/jobs/{id}/cancel":     client.Act{},
	"POST /api/v1/compute/jobs/{id}/clean":      client.Act{},
	"POST /api/v1/compute/jobs/{id}/retry":      client.ComputeRepeat{},
	"POST /api/v1/compute/jobs/{id}/clone":      client.ComputeRepeat{},
	"POST /api/v1/compute/agents/{name}/drain":  client.Act{},
	"POST /api/v1/compute/agents/{name}/resume": client.Act{},
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn, func(w *servertest.Harness) server.Part {
		return computehttp.Part(w.Server, computehttp.Options{})
	})
}

// TestAbsent: see [servertest.CheckAbsent].
func TestAbsent(t *testing.T) {
	absent := func(w *servertest.Harness) server.Part { return computehttp.Part(w.Server, computehttp.Options{}) }
	named := map[string]string{"/": "setting compute.local or compute.services"}
	servertest.CheckAbsent(t, absent, openTES(t, nil).Harness, named)
}

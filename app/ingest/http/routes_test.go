package ingesthttp_test

import (
	"testing"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed lists, independently of the routes, which roles may use what is below a path: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/api/v1/orphans":                "oa",
	"POST /api/v1/orphans":           "a",
	"/api/v1/storage":                "oa",
	"POST /api/v1/storage":           "a",
	"/api/v1/hooks":                  "oa",
	"/api/v1/ingest/submissions":     "uoa",
	"/api/v1/ingest/batches/":        "uoa",
	"/batches/":                      "uoa",
	"/shared/":                       "*",
	"/profiles":                      "uoa",
	"/hooks":                         "oa",
	"/profiles/":                     "oa",
	"/api/v1/ingest/jobs/":           "uoa",
	"/api/v1/ingest/objects":         "uoa",
	"/api/v1/ingest/profiles":        "uoa",
	"/api/v1/ingest/profiles/schema": "*",
	"/api/v1/ingest/profiles/{id}":   "oa",
	"/api/v1/ingest/profiles/reload": "oa",
	"/api/v1/access":                 "uoa",
	"/api/v1/access/":                "*",
	"/submitobject":                  "uoa",
	"/updateobject":                  "uoa",
	"/addobject":                     "uoa",
	"/submit":                        "uoa",
	"/update":                        "uoa",
	"/add":                           "uoa",
	"/submitobject/":                 "uoa",
	"/updateobject/":                 "uoa",
	"/addobject/":                    "uoa",
	"/submit/":                       "uoa",
	"/update/":                       "uoa",
	"/add/":                          "uoa",
	"/object/":                       "uoa",
}

// reasonIn lists, independently of the routes, in which type each route that needs a reason reads it; nil: in the
// query.
var reasonIn = map[string]any{
	"POST /api/v1/storage":                client.Adoption{},
	"POST /api/v1/orphans":                client.FixOrphans{},
	"POST /api/v1/ingest/profiles/reload": client.ReloadProfiles{},
	"POST /api/v1/hooks/replay":           client.ReplayHooks{},
	"POST /api/v1/hooks/ping":             client.PingHooks{},

	"POST /api/v1/ingest/batches/{id}/shares":           client.ShareOrder{},
	"DELETE /api/v1/ingest/batches/{id}/shares/{share}": nil,
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn, part)
}

// TestAbsent: see [servertest.CheckAbsent].
func TestAbsent(t *testing.T) {
	absent := func(w *servertest.Harness) server.Part { return ingesthttp.Part(w.Server, ingesthttp.Options{}) }
	named := map[string]string{"/": "module ingest", "/api/v1/ingest/profiles/schema": "-"}
	servertest.CheckAbsent(t, absent, open(t, nil, nil).Harness, named)
}

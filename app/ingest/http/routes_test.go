package ingesthttp_test

import (
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed says by hand which roles may use what lies below a path: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/api/orphans":                "oa",
	"/api/storage":                "oa",
	"POST /api/storage":           "a",
	"/api/fixity":                 "oa",
	"/api/hooks":                  "oa",
	"/api/ingest/submissions":     "uoa",
	"/api/ingest/batches/":        "uoa",
	"/batches/":                   "uoa",
	"/api/ingest/jobs/":           "uoa",
	"/api/ingest/objects":         "uoa",
	"/api/ingest/profiles":        "uoa",
	"/api/ingest/profiles/schema": "*",
	"/api/ingest/profiles/{id}":   "oa",
	"/api/ingest/profiles/reload": "oa",
	"/api/access":                 "uoa",
	"/api/access/":                "*",
}

// reasonIn says by hand in which type each route that needs a reason reads it; nil: in the query.
var reasonIn = map[string]any{
	"POST /api/storage":                client.Adoption{},
	"POST /api/fixity":                 client.CheckFixity{},
	"POST /api/orphans":                client.FixOrphans{},
	"POST /api/ingest/profiles/reload": client.ReloadProfiles{},
	"POST /api/hooks/replay":           client.ReplayHooks{},
	"POST /api/hooks/ping":             client.PingHooks{},
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn, part)
}

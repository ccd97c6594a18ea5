package ingesthttp_test

import (
	"testing"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestPagesOfEveryList: see [servertest.CheckPages].
func TestPagesOfEveryList(t *testing.T) {
	w := open(t, func(o *options) { o.Hooks, o.Details = newPigeons(), &view{} }, nil)
	byApplication := servertest.Paged{Why: "the application makes the pages, which its own tests go through"}
	routes := ingesthttp.Part(w.Server, ingesthttp.Options{}).Routes
	servertest.CheckPages(t, w.Harness, routes, map[string]servertest.Paged{
		"GET /hooks":                         {Why: "it passes the pages of the API on, which are tested here"},
		"GET /api/v1/hooks":                  {Path: "/api/v1/hooks", List: "hooks"},
		"GET /api/v1/ingest/jobs/{id}/files": byApplication,
		"GET /api/v1/ingest/objects":         byApplication,
	})
	servertest.CheckFilters(t, w.Harness, routes, map[string]string{
		"GET /api/v1/ingest/jobs/{id}/files": "/api/v1/ingest/jobs/ing_1/files",
	}, nil)
}

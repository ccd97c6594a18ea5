package archivehttp_test

import (
	"fmt"
	"net/http"
	"testing"

	archivehttp "github.com/stagepost/stagepost/app/archive/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed lists, independently of the routes, which roles may use what is below a path: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/api/v1/archive/":                       "oa",
	"/archive":                               "uoa",
	"/archive/{source}":                      "oa",
	"/archive/hooks":                         "oa",
	"/api/v1/archive/events/":                "*",
	"/api/v1/archive/archives":               "uoa",
	"/api/v1/archive/archives/{id}/content/": "ua",
	"/api/v1/archive/archives/{id}/holds":    "oa",
	"/api/v1/archive/archives/{id}/deletion": "oa",
	"/api/v1/archive/people/erase":           "a",
	"/api/v1/archive/pdf/":                   "wa",
	"/jobs/{id}/copies":                      "uoa",
}

// reasonIn lists, independently of the routes, in which type each route that needs a reason reads it; nil: in the
// query.
var reasonIn = map[string]any{
	"POST /api/v1/archive/archives/{id}/holds":          client.HoldArchive{},
	"DELETE /api/v1/archive/archives/{id}/holds/{name}": nil,
	"POST /api/v1/archive/archives/{id}/deletion":       client.DeleteArchive{},
	"POST /api/v1/archive/deletions/{request}":          client.DecideDeletion{},
	"POST /api/v1/archive/hooks/replay":                 client.ReplayHooks{},
	"POST /api/v1/archive/hooks/ping":                   client.PingArchiveHooks{},
	"POST /api/v1/archive/people":                       client.FindPeople{},
	"POST /api/v1/archive/people/data":                  client.NamePerson{},
	"POST /api/v1/archive/people/erase":                 client.ErasePerson{},
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn, part(t))
}

func absent(w *servertest.Harness) server.Part { return archivehttp.Part(w.Server, nil) }

// TestAbsent: see [servertest.CheckAbsent].
func TestAbsent(t *testing.T) {
	servertest.CheckAbsent(t, absent, open(t).Harness, map[string]string{"/": "setting archive.config"})
}

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	h := open(t)
	servertest.CheckKeys(t, h.Harness, archivehttp.Part(h.Server, nil).Routes, map[string]servertest.Keyed{
		"POST /api/v1/archive/jobs": func(other bool, key string) *http.Request {
			course := map[bool]string{true: "notes", false: "maps"}[other]
			return h.Request(http.MethodPost, "/api/v1/archive/jobs",
				fmt.Sprintf(`{"source":"disk","course":%q,"key":%q}`, course, key))
		},
		"POST /api/v1/archive/schedules/{schedule}/runs": func(other bool, key string) *http.Request {
			return h.Request(http.MethodPost, "/api/v1/archive/schedules/nightly/runs",
				fmt.Sprintf(`{"dry_run":%t,"key":%q}`, other, key))
		},
	})
}

// TestPagesAndFilters: see [servertest.CheckPages] and [servertest.CheckFilters].
func TestPagesAndFilters(t *testing.T) {
	h := open(t)
	var order client.ArchiveOrder
	order.Course = "maps"
	id := h.archive(order).ID
	for range 2 {
		h.archive(order)
	}
	routes := archivehttp.Part(h.Server, nil).Routes
	files := "/api/v1/archive/archives/" + string(id) + "/artifacts"
	servertest.CheckPages(t, h.Harness, routes, map[string]servertest.Paged{
		"GET /archive/hooks":                          {Why: "it passes the pages of the API on, which are tested here"},
		"GET /jobs/{id}/copies":                       {Why: "see TestManyFiles"},
		"GET /api/v1/archive/archives":                {Path: "/api/v1/archive/archives", List: "archives"},
		"GET /api/v1/archive/hooks":                   {Path: "/api/v1/archive/hooks", List: "hooks"},
		"GET /api/v1/archive/archives/{id}/artifacts": {Path: files, List: "artifacts"},
	})
	servertest.CheckFilters(t, h.Harness, routes, map[string]string{
		"GET /api/v1/archive/archives/{id}/artifacts": files,
	}, nil)
}

package bulkhttp

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web"
)

// routes lists the routes of bulks.
func (s *Handlers) routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/bulk", Who: server.Operator,
			Doc: "Does one thing to all jobs that match: filters, event, note, expect (their number), confirm, " +
				"priority; with dry=true only a preview. Operators who are limited to groups act on jobs of one group.",
			Handle: s.startBulk, Preview: bulkPreview, Grouped: true,
			IO: openapi.IO{In: api.Bulk{}, Out: api.Job{},
				Status: http.StatusCreated, Also: map[int]any{200: []any{api.BulkPreview{}, api.Job{}}},
				Query: openapi.Query("dry")}},
		{Method: http.MethodGet, Pattern: "/api/v1/bulk/{id}",
			Who: server.Operator, Doc: "Result of a bulk: jobs done, refused with reasons, changed concurrently.",
			Handle: s.bulkResult, Grouped: true,
			IO: openapi.IO{Out: api.BulkResult{}}},
		web.WithinGroups(web.PageRoute("/bulk", server.Operator,
			"A page that previews what an event does to all jobs of a query, with a form that does it.",
			openapi.Query(append([]string{"event"}, api.BulkFilters()...)...), s.pages.Show("bulk.html", s.page))),
		web.WithinGroups(web.FormRoute("/bulk", server.Operator, "Starts a bulk as the form of the page asks.",
			s.pages.Post(s.start))),
	}
}

// bulkPreview reports whether a request is a preview only.
func bulkPreview(q url.Values, _ map[string]json.RawMessage) bool { return q.Get("dry") == "true" }

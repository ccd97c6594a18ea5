package bulkhttp

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/server"
)

// routes lists the routes of bulks.
func (s *Handlers) routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/bulk", Who: server.Operator,
			Doc: "Does one thing to all jobs that match: filters, event, note, expect (their number), confirm, " +
				"priority; with dry=true only a preview.", Handle: s.startBulk, Preview: bulkPreview},
		{Method: http.MethodGet, Pattern: "/api/v1/bulk/{id}",
			Who: server.Operator, Doc: "Result of a bulk: jobs done, refused with reasons, changed concurrently.",
			Handle: s.bulkResult},
	}
}

// bulkPreview reports whether a request is a preview only.
func bulkPreview(q url.Values, _ map[string]json.RawMessage) bool { return q.Get("dry") == "true" }

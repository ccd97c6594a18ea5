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
		{Method: http.MethodPost, Pattern: "/api/v1/bulk", Who: server.Operator, Doc: "Does one thing to all jobs that match: filters, event, note, expect (their number), confirm, priority; with dry=true only tells what it would meet.", Handle: s.startBulk, Preview: bulkPreview},
		{Method: http.MethodGet, Pattern: "/api/v1/bulk/{id}", Who: server.Operator, Doc: "What a bulk did: done, refused and why, changed meanwhile.", Handle: s.bulkResult},
	}
}

// bulkPreview tells whether a request only shows what it would meet.
func bulkPreview(q url.Values, _ map[string]json.RawMessage) bool { return q.Get("dry") == "true" }

package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// reasonless are the routes that change something and take no reason, or need none, each with why.
var reasonless = map[string]string{
	"POST /api/worker/claim":  "workers act there, not people",
	"POST /api/worker/renew":  "workers act there, not people",
	"POST /api/worker/report": "workers act there, not people",

	"POST /api/ingest/submissions": newWork,
	"POST /api/flows":              newWork,
	"POST /api/compute/jobs":       newWork,
	"POST /ga4gh/tes/v1/tasks":     newWork,
	"POST /v1/tasks":               newWork,

	"POST /api/access": "it makes a copy of what is stored, and changes nothing of it",

	"POST /api/compute/uploads":            partOfOrder,
	"POST /api/compute/uploads/{upload}":   partOfOrder,
	"PATCH /api/compute/uploads/{upload}":  partOfOrder,
	"DELETE /api/compute/uploads/{upload}": partOfOrder,
	"POST /ga4gh/tes/v1/tasks/{task}":      noField,
	"POST /v1/tasks/{task}":                noField,
	"POST /api/admin/verify":               "it only reads",
}

// Why routes take no reason.
const (
	newWork     = "new work is no action on that of others; submissions, flows and orders may have a note"
	partOfOrder = "it is a part of an order to come"
	noField     = "GA4GH TES has no field for a reason"
)

// NeedsReason tells whether staff must give a reason on a route where reasons are required. If not, and the route changes something, why not.
func (r *Route) NeedsReason() (needed bool, whyNot string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false, ""
	}
	whyNot = reasonless[r.Method+" "+r.Pattern]
	return whyNot == "", whyNot
}

// previews tell whether a request to a route that changes something only looks.
var previews = map[string]func(url.Values, map[string]json.RawMessage) bool{
	"POST /api/bulk": func(q url.Values, _ map[string]json.RawMessage) bool { return q.Get("dry") == "true" },
	"POST /api/admin/fsck": func(_ url.Values, body map[string]json.RawMessage) bool {
		return string(member(body, "repair")) != "true"
	},
}

// reasoned refuses a request of staff that changes something and has no reason, where reasons are required. Without tokens everybody is staff but who
// acts as owner. What a reason is called, and whether the route knows it, is judged by the handler: it refuses what it does not know.
func (s *Server) reasoned(route *Route, r *http.Request) error {
	if needed, _ := route.NeedsReason(); !s.ReasonsRequired || !needed || IsUser(r.Context()) {
		return nil
	}
	query := r.URL.Query()
	fields := map[string]json.RawMessage{}
	if r.Method == http.MethodDelete { // the body of a DELETE is not read
		for name := range query {
			fields[name], _ = json.Marshal(query.Get(name)) // a string can be marshalled
		}
	} else {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return bodyError(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		if len(bytes.TrimSpace(text)) > 0 && json.Unmarshal(text, &fields) != nil {
			return nil // no object: the handler says so
		}
	}
	if preview := previews[route.Method+" "+route.Pattern]; preview != nil && preview(query, fields) {
		return nil
	}
	if textOf(member(fields, "note")) != "" || textOf(member(fields, "why")) != "" {
		return nil
	}
	if _, known := identityOf(r.Context()); !known && textOf(member(fields, "as")) == "owner" {
		return nil
	}
	return job.Errorf(job.Invalid, "reason", "", "this server wants a reason for what staff does (its setting is reasons: required): give one with --note WHY, in requests the field %s",
		map[bool]string{true: "why", false: "note"}[route.Pattern == "/api/holds"])
}

// member gives a member of a JSON object as the decoder finds it: without regard to case. Repeated ones are refused by the handler.
func member(fields map[string]json.RawMessage, name string) json.RawMessage {
	for has, value := range fields {
		if strings.EqualFold(has, name) {
			return value
		}
	}
	return nil
}

// textOf gives a string of a JSON body without blanks around it; empty for everything else.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

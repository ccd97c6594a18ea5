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

// NeedsReason reports whether staff must give a reason on a route where reasons are required. If not, and the route
// changes something, why not.
func (r *Route) NeedsReason() (needed bool, whyNot string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false, ""
	}
	return r.NoReason == "", r.NoReason
}

// fsckPreview reports whether a check repairs nothing.
func fsckPreview(_ url.Values, body map[string]json.RawMessage) bool {
	return string(Member(body, "repair")) != "true"
}

// reasoned refuses a request of staff that changes something and has no reason, where reasons are required. Without
// tokens every caller is staff unless it acts as owner. How the reason is named, and whether the route
// has it, is checked by the handler: it refuses unknown fields.
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
			return BodyError(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		if len(bytes.TrimSpace(text)) > 0 && json.Unmarshal(text, &fields) != nil {
			return nil // no object: the handler refuses it
		}
	}
	if route.Preview != nil && route.Preview(query, fields) {
		return nil
	}
	if textOf(Member(fields, "note")) != "" || textOf(Member(fields, "why")) != "" {
		return nil
	}
	if _, known := Who(r.Context()); !known && textOf(Member(fields, "as")) == "owner" {
		return nil
	}
	return job.Errorf(job.Invalid, "reason", "",
		"this server requires a reason for what staff does (its setting is reasons: required): give one with "+
			"--note WHY, in requests the field %s",
		map[bool]string{true: "why", false: "note"}[route.Pattern == "/api/v1/holds"])
}

// Member returns a member of a JSON object as the decoder finds it: without regard to case. Repeated ones are refused
// by the handler.
func Member(fields map[string]json.RawMessage, name string) json.RawMessage {
	for has, value := range fields {
		if strings.EqualFold(has, name) {
			return value
		}
	}
	return nil
}

// textOf returns a string of a JSON body without blanks around it; empty for everything else.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

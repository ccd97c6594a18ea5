package server

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server/openapi"
)

//go:embed openapi/page.html
var apiPage string

var apiTemplate = template.Must(template.New("api").Parse(apiPage))

// Describe returns the description of routes.
func Describe(routes []Route) *huma.OpenAPI {
	var all []openapi.Operation
	for i := range routes {
		r := &routes[i]
		o := openapi.Operation{Method: r.Method, Path: r.Pattern, Doc: r.Doc, Role: r.roles(), IO: r.IO}
		if !forPrograms(r.Pattern) {
			o.Faults = slices.Concat(o.Faults, openapi.HTML) // for browsers
		}
		all = append(all, o)
	}
	return openapi.Describe(all)
}

// roles names for the description who may use the route.
func (r *Route) roles() string {
	if r.Right == "" {
		return string(r.Who)
	}
	return string(r.Who) + " (" + string(r.Right) + ")"
}

// openAPI answers with the description of all routes.
func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	return Reply(w, json.RawMessage(s.description()))
}

// apiDocs answers with the description as a page.
func (s *Server) apiDocs(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	return ReplyPage(w, http.StatusOK, apiTemplate, "api", openapi.OutlineOf(Describe(s.all)))
}

// health answers 200 when the store answers within two seconds, storage accepts writes and nothing has stopped, else
// 503.
func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	p := s.Store.Properties()
	h := api.Health{Status: "ok", Version: s.Version, Store: p.Name, Durable: p.Durable,
		Engine: s.Engine.Status().Worker, Kinds: []string{}}
	for _, k := range s.Engine.Kinds() {
		h.Kinds = append(h.Kinds, string(k))
	}
	h.Warnings = s.clockWarnings()
	if s.Warn != nil {
		h.Warnings = append(h.Warnings, s.Warn()...)
	}
	for _, p := range s.parts {
		if p.Health != nil {
			p.Health(r.Context(), &h)
		}
	}
	if s.Identities != nil && s.Identities.Fault() != nil { // what is wrong with the file is not for anyone
		h.Warnings = append(h.Warnings,
			"a file of tokens or users cannot be read or has mistakes: nothing in it is accepted (stagepost admin "+
				"token list FILE and stagepost admin user list FILE show the reason)")
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	_, err := s.Store.Holds(ctx)
	if err == nil && s.Alive != nil {
		err = s.Alive()
	}
	if err == nil && s.Storage != nil {
		err = s.Storage.Writable(ctx)
	}
	if err != nil {
		h.Status = err.Error()
		return ReplyAs(w, http.StatusServiceUnavailable, h)
	}
	return Reply(w, h)
}

// index is a page for those who open the server's address.
func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	if ForPeople(r) {
		for i := range s.parts {
			if home := s.parts[i].Pages.Home; home != nil {
				return home(w, r)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Stagepost %s: the HTTP API\n\n", s.Version)
	for _, r := range s.all {
		fmt.Fprintf(&b, "%-6s %s\n       %s (%s)\n", r.Method, strings.TrimSuffix(r.Pattern, "{$}"), r.Doc, r.roles())
	}
	b.WriteString("\nThe command line is easier: stagepost list, stagepost show ID, stagepost why ID.\n")
	return ReplyText(w, b.String())
}

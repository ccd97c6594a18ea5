package server

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

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
		all = append(all, openapi.Operation{Method: r.Method, Path: r.Pattern, Doc: r.Doc, Role: string(r.Who),
			IO: r.IO})
	}
	return openapi.Describe(all)
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

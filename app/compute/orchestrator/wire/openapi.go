package wire

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
)

// description is the API in OpenAPI's terms, with the paths and schemas that the original's has: /terminate is not
// among them.
//
//go:embed openapi.json
var description []byte

//go:embed swagger.html
var swaggerPage string

func openAPI(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, jsonMedia, description)
}

func seeSwagger(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/swagger/")
	answerEmpty(w, http.StatusSeeOther)
}

func (u *users) swagger(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	answer(w, http.StatusOK, "text/html; charset=utf-8", u.page)
}

// describe makes the page for people from the document, so that it needs no script and nothing from elsewhere.
func describe(document []byte) []byte {
	var doc struct {
		Info struct{ Title, Version, Description string }

		Paths map[string]map[string]struct {
			Summary    string
			Parameters []struct{ Name, Description string }
			Responses  map[string]struct{ Description string }
		}
		Components struct{ Schemas map[string]json.RawMessage }
		Schemas    map[string]string `json:"-"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		panic("wire: openapi.json is broken: " + err.Error()) // it is part of the program
	}
	doc.Schemas = map[string]string{}
	for name, raw := range doc.Components.Schemas {
		var b bytes.Buffer
		json.Indent(&b, raw, "", "  ")
		doc.Schemas[name] = b.String()
	}
	var page bytes.Buffer
	if err := template.Must(template.New("swagger").Parse(swaggerPage)).Execute(&page, doc); err != nil {
		panic("wire: swagger.html is broken: " + err.Error())
	}
	return page.Bytes()
}

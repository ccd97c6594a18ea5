package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestDescription: the server describes each of its operations, for programs and for people, without the internet.
func TestDescription(t *testing.T) {
	h := servertest.Open(t, nil, nil)
	_, text := h.Ask(h.Request(http.MethodGet, "/api/v1/openapi.json", ""))
	answer, page := h.Ask(h.Request(http.MethodGet, "/api/v1/docs", ""))
	servertest.CheckHeaders(t, answer)
	for _, r := range h.Server.All() {
		path := strings.NewReplacer("{$}", "", "...}", "}").Replace(r.Pattern)
		if !strings.Contains(text, `"`+path+`":{`) || !strings.Contains(page, r.Method+" "+path+"</h3>") {
			t.Errorf("%s %s is not described", r.Method, r.Pattern)
		}
	}
	for _, outside := range []string{"<script", "http://", "https://", "//cdn"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q: it must load without the internet", outside)
		}
	}
	for _, of := range []string{`"JobBlocker"`, `"application/problem+json"`, `"x-events":{"h`, `"openapi":"3.1.0"`} {
		if !strings.Contains(text, of) {
			t.Errorf("the description has no %s", of)
		}
	}
}

// TestDescriptionForGenerators: generators find the server, the license, the contact, an id of its own for each
// operation, a description of each group and of each scheme of authentication, and examples that are valid.
func TestDescriptionForGenerators(t *testing.T) {
	h := servertest.Open(t, nil, nil)
	_, text := h.Ask(h.Request(http.MethodGet, "/api/v1/openapi.json", ""))
	var d struct {
		Info struct {
			Contact struct{ URL string }
			License struct{ Identifier string }
		}
		Servers []struct{ URL string }
		Tags    []struct{ Name string }
		Paths   map[string]map[string]struct {
			OperationID string
			Tags        []string
			Security    []map[string][]string
			Responses   map[string]struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
		Components struct {
			SecuritySchemes map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Servers) != 1 || d.Servers[0].URL != "/" || d.Info.License.Identifier != "Apache-2.0" ||
		!strings.HasPrefix(d.Info.Contact.URL, "https://") {
		t.Errorf("got %+v, %+v", d.Servers, d.Info)
	}
	tags, ids := map[string]bool{}, map[string]string{}
	for _, tag := range d.Tags {
		tags[tag.Name] = true
	}
	contract := servertest.ContractOf(h.Server.All())
	for path, methods := range d.Paths {
		for method, o := range methods {
			route := method + " " + path
			if before := ids[o.OperationID]; before != "" || o.OperationID == "" {
				t.Errorf("%s and %s have the id %q", before, route, o.OperationID)
			}
			ids[o.OperationID] = route
			if len(o.Tags) != 1 || !tags[o.Tags[0]] {
				t.Errorf("%s: the list of tags lacks %v", route, o.Tags)
			}
			for _, all := range o.Security {
				for name := range all {
					if d.Components.SecuritySchemes[name].Description == "" {
						t.Errorf("%s: the scheme %s is not described", route, name)
					}
				}
			}
			example := o.Responses["default"].Content["application/problem+json"].Example
			r := h.Request(http.MethodGet, "/api/v1/counts", "")
			answer := &http.Response{StatusCode: http.StatusNotFound,
				Header: http.Header{"Content-Type": {"application/problem+json"}}}
			if err := contract.Check(r, answer, example); err != nil || len(example) == 0 {
				t.Fatalf("%s: the example of a problem: %s: %v", route, example, err)
			}
		}
	}
}

// TestIdsOfOperations: two operations with the same id are a fault of the program.
func TestIdsOfOperations(t *testing.T) {
	defer func() {
		if fault := recover(); fault == nil || !strings.Contains(fmt.Sprint(fault), "getX") {
			t.Errorf("got %v", fault)
		}
	}()
	openapi.Describe([]openapi.Operation{{Method: http.MethodGet, Path: "/api/v1/x", Role: "anyone"},
		{Method: http.MethodGet, Path: "/x", Role: "anyone"}})
}

// TestNamesOfSchemas: a body whose type has no name is a fault of the program.
func TestNamesOfSchemas(t *testing.T) {
	describe := func(out any) (fault any) {
		defer func() { fault = recover() }()
		openapi.Describe([]openapi.Operation{{Method: http.MethodGet, Path: "/api/v1/x", Role: "anyone",
			IO: openapi.IO{Out: out}}})
		return nil
	}
	for _, c := range []struct {
		out any
		ok  bool
	}{{api.Counts{}, true}, {[]api.Counts{}, true}, {struct{}{}, false}, {new(struct{ A int }), false}} {
		if fault := describe(c.out); (fault == nil) != c.ok {
			t.Errorf("%T: %v", c.out, fault)
		}
	}
}

// TestRoutesDeclareTheirBodies: a route has a type or a media type for what it answers, or a status without a body.
func TestRoutesDeclareTheirBodies(t *testing.T) {
	for _, r := range server.Routes() {
		if r.IO.Out == nil && r.IO.Media == nil && r.IO.Events == nil && r.IO.Status == 0 {
			t.Errorf("%s %s does not declare its answer", r.Method, r.Pattern)
		}
	}
}

// TestContract is the control of all tests that check answers: it refuses another status, media type, and body.
func TestContract(t *testing.T) {
	routes := []server.Route{{Method: http.MethodGet, Pattern: "/api/v1/counts", Who: server.Operator, Doc: "Counts.",
		IO: openapi.IO{Out: api.Counts{}}}}
	c := servertest.ContractOf(routes)
	for _, one := range []struct {
		status      int
		media, text string
		ok          bool
	}{
		{200, "application/json", `{"counts":[]}`, true},
		{200, "application/json", `{"counts":1}`, false},
		{201, "application/json", `{"counts":[]}`, false},
		{200, "text/plain", `{"counts":[]}`, false},
		{404, "application/json", `{}`, false},
		{404, "application/problem+json", `{}`, false},
		{404, "application/problem+json", `{"type":"t","title":"x","status":404,"kind":"not found"}`, true},
		{404, "application/problem+json", `{"type":"t","title":"x","status":404,"kind":"not found","more":1}`, false},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://localhost/api/v1/counts", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer := &http.Response{StatusCode: one.status, Header: http.Header{"Content-Type": {one.media}}}
		if err := c.Check(r, answer, []byte(one.text)); (err == nil) != one.ok {
			t.Errorf("%d %s %s: %v", one.status, one.media, one.text, err)
		}
	}
	r, err := http.NewRequest(http.MethodGet, "http://localhost/api/v1/jobs/let_1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	err = servertest.ContractOf(server.Routes()).Check(r, answer, []byte(`{}`))
	if err == nil || !strings.Contains(err.Error(), "ETag") {
		t.Errorf("a job without its ETag: %v", err)
	}
	stream, err := http.NewRequest(http.MethodGet, "http://localhost/api/v1/jobs/let_1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	const entry = `{"job":"let_1","prev":"","seq":1,"at":"2026-01-02T03:04:05Z","event":"create",` +
		`"to":"Posted","by":["owner"],"epoch":0,"hash":"x"}`
	for _, one := range []struct {
		name, data string
		ok         bool
	}{{"history", entry, true}, {"history", `{"seq":"1"}`, false}, {"news", entry, false}} {
		err := servertest.ContractOf(server.Routes()).CheckMessage(stream, one.name, []byte(one.data))
		if (err == nil) != one.ok {
			t.Errorf("the message %s %s: %v", one.name, one.data, err)
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server"
)

// byHand are operations that no method of the client has, with the reason.
var byHand = map[string]string{
	"GET /api/v1/openapi.json": "for generators", "GET /api/v1/docs": "a page",
	"GET /api/v1/session":                      "for pages",
	"GET /api/v1/admin/sessions":               "for the page /sessions",
	"DELETE /api/v1/admin/sessions/{key}":      "for the page /sessions",
	"GET /api/v1/jobs/{id}/children":           "Jobs with the filter parent is the same",
	"POST /api/v1/jobs/{id}/{event}":           "Do is the same",
	"GET /api/v1/compute/jobs/{id}/events":     "Watch is the same",
	"DELETE /api/v1/compute/jobs/{id}":         "CancelCompute is the same",
	"GET /api/v1/compute/tunnel":               "agents use it",
	"POST /api/v1/enrolment":                   "package credential sends it",
	"POST /api/v1/enrolment/renewal":           "package credential sends it",
	"POST /api/v1/archive/events/{receiver}":   "learning platforms call it, as a webhook",
	"GET /api/v1/compute/uploads/{upload}":     "with HEAD, for UploadCompute after a broken connection",
	"OPTIONS /api/v1/compute/uploads":          "for clients of tus",
	"OPTIONS /api/v1/compute/uploads/{upload}": "for clients of tus",
	"POST /api/v1/compute/uploads/{upload}":    "for clients of tus",
	"DELETE /api/v1/compute/uploads/{upload}":  "for clients of tus",
}

// ofMerritt are the endpoints of Merritt.
var ofMerritt = regexp.MustCompile(`^/(((submit|add|update)(object)?)(/\{scheme\}/.*)?|object/(ingest|update))$`)

// TestClientMethodsAreOperations compares the methods of the client, which the commands use, with the operations: each
// request of a method has an operation, and each operation a method or a reason.
func TestClientMethodsAreOperations(t *testing.T) {
	mux := http.NewServeMux()
	var mu sync.Mutex
	called := map[string]bool{}
	for _, r := range newSettings().Routes() {
		pattern := r.Method + " " + r.Pattern
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			mu.Lock()
			called[pattern] = true
			mu.Unlock()
			if pattern == "POST /api/v1/compute/uploads" {
				w.Header().Set("Location", "/api/v1/compute/uploads/x")
				w.WriteHeader(http.StatusCreated)
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"not found","status":404}`)
		})
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			t.Errorf("%s %s has no operation", r.Method, r.URL.Path)
		}
		mux.ServeHTTP(w, r)
	}))
	defer web.Close()
	c, err := client.New(web.URL, client.Options{Patience: -1, Outage: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(c)
	for i := range v.NumMethod() {
		if name := v.Type().Method(i).Name; name != "Close" && name != "Base" {
			callMethod(t, v.Method(i))
		}
	}
	for _, on := range []bool{true, false} {
		_, _ = c.DrainComputeAgent(t.Context(), "x", on, client.Act{})
	}
	for _, r := range newSettings().Routes() {
		pattern := r.Method + " " + r.Pattern
		switch why, listed := byHand[pattern]; {
		case strings.HasPrefix(r.Pattern, "/ga4gh/") || strings.HasPrefix(r.Pattern, "/v1/"): // clients of GA4GH TES
		case !strings.HasPrefix(r.Pattern, "/api/") && !called[pattern]: // a page, and what only pages use
		case ofMerritt.MatchString(r.Pattern): // clients of Merritt; Submit is the same
		case !called[pattern] && !listed:
			t.Errorf("no method of the client has %s: add one, or the reason to byHand", pattern)
		case called[pattern] && listed:
			t.Errorf("%s is listed as %q and has a method", pattern, why)
		}
	}
}

// callMethod calls a method of the client with arguments that are enough for a request.
func callMethod(t *testing.T, m reflect.Value) {
	args := make([]reflect.Value, m.Type().NumIn())
	for i := range args {
		of := m.Type().In(i)
		switch {
		case of == reflect.TypeFor[context.Context]():
			args[i] = reflect.ValueOf(t.Context())
		case of == reflect.TypeFor[io.Reader]():
			args[i] = reflect.ValueOf(strings.NewReader("x"))
		case of == reflect.TypeFor[*client.ComputeSource]():
			args[i] = reflect.ValueOf(&client.ComputeSource{Name: "x", Size: 1, Content: strings.NewReader("x")})
		case of.Kind() == reflect.Pointer:
			args[i] = reflect.New(of.Elem())
		case of.Kind() == reflect.String:
			args[i] = reflect.ValueOf("x").Convert(of)
		default:
			args[i] = reflect.Zero(of)
		}
	}
	m.Call(args)
}

// TestEveryRouteDeclaresItsAnswer: what an operation answers stands in the description.
func TestEveryRouteDeclaresItsAnswer(t *testing.T) {
	for _, r := range newSettings().Routes() {
		io := &r.IO
		if strings.Contains(r.Pattern, "/uploads/") {
			continue // headers only
		}
		if io.Out == nil && io.Media == nil && io.Events == nil && io.Status == 0 {
			t.Errorf("%s %s does not declare what it answers", r.Method, r.Pattern)
		}
	}
	server.Describe(newSettings().Routes()) // it panics if two operations have one name
}

// repeatable are the POST operations that need no idempotency key, each with the reason.
var repeatable = map[string]string{
	"/api/v1/admin/clock":                  "it sets a state",
	"/api/v1/admin/fsck":                   "it finds nothing to repair again",
	"/api/v1/admin/verify":                 "it reads",
	"/api/v1/archive/deletions/{request}":  "a decision is made once",
	"/api/v1/archive/events/{receiver}":    "the event has an id",
	"/api/v1/archive/people":               "it reads",
	"/api/v1/archive/people/data":          "it reads",
	"/api/v1/archive/people/erase":         "it removes",
	"/api/v1/archive/plan":                 "it reads",
	"/api/v1/compute/agents/{name}/drain":  "it sets a state",
	"/api/v1/compute/agents/{name}/resume": "it sets a state",
	"/api/v1/compute/jobs/{id}/cancel":     "it sets a state",
	"/api/v1/compute/jobs/{id}/clean":      "it removes",
	"/api/v1/compute/uploads":              "tus has no keys; one without an order is removed",
	"/api/v1/compute/uploads/{upload}":     "its offset states what is there already",
	"/api/v1/enrolment":                    "a token is valid once",
	"/api/v1/enrolment/renewal":            "certificates expire",
	"/api/v1/fixity":                       "a check in progress continues",
	"/api/v1/flows/{id}/mark-reverted":     "it sets a state",
	"/api/v1/ingest/profiles/reload":       "it reads files again",
	"/api/v1/jobs/{id}/events/{event}":     "the lifecycle and the version decide",
	"/api/v1/jobs/{id}/tasks/retry":        "the state and the version decide",
	"/api/v1/jobs/{id}/{event}":            "the lifecycle and the version decide",
	"/api/v1/lifecycles":                   "it replaces what has the name",
	"/api/v1/storage":                      "a location is given once",
	"/api/v1/worker/claim":                 "leases end by themselves",
	"/api/v1/worker/job":                   "it reads",
	"/api/v1/worker/renew":                 "it sets a time",
	"/api/v1/worker/report":                "the epoch and the version decide",
	"/api/v1/worker/update":                "the epoch and the version decide",
	"/api/v1/workers/{name}/drain":         "it sets a state",
	"/api/v1/workers/{name}/resume":        "it sets a state",
	"/ga4gh/tes/v1/tasks/{task}":           "it sets a state",
	"/v1/tasks/{task}":                     "it sets a state",
}

// TestRepeatedRequests: an operation that would do something twice takes an idempotency key: that of a job, or one
// under which the server keeps the answer. The others have a reason.
func TestRepeatedRequests(t *testing.T) {
	for _, r := range newSettings().Routes() {
		program := strings.HasPrefix(r.Pattern, "/api/") || strings.HasPrefix(r.Pattern, "/ga4gh/") ||
			strings.HasPrefix(r.Pattern, "/v1/") || ofMerritt.MatchString(r.Pattern)
		if r.Method != http.MethodPost || !program {
			continue
		}
		text, err := json.Marshal(server.Describe([]server.Route{r}))
		if err != nil {
			t.Fatal(err)
		}
		takesKey := strings.Contains(string(text), `"name":"Idempotency-Key"`)
		if why, listed := repeatable[r.Pattern]; takesKey == listed {
			t.Errorf("POST %s takes a key: %t, and has the reason %q why it needs none", r.Pattern, takesKey, why)
		}
	}
}

package server_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

var discard = slog.New(slog.DiscardHandler)

// want are the headers that stand on every answer.
var want = map[string]string{
	"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}

func checkHeaders(t *testing.T, answer *http.Response) {
	t.Helper()
	for name, value := range want {
		if got := answer.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	policy := answer.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("Content-Security-Policy %q lacks %s", policy, part)
		}
	}
	if answer.Header.Get("Content-Type") == "" {
		t.Error("Content-Type is missing")
	}
}

// TestEveryRoute goes through the table: each route answers, with the headers, to a request that is right, to one for a job that does not
// exist, to a strange parameter, to a body that is garbage, from another origin and under another name.
func TestEveryRoute(t *testing.T) {
	w := open(t, nil, nil)
	w.server.Close() // event streams end at once
	for _, r := range server.Routes() {
		t.Run(r.Method+" "+r.Pattern, func(t *testing.T) {
			w := *w
			w.t = t
			id := w.post(engine.Order{}).ID
			if r.Doc == "" || !strings.HasSuffix(r.Doc, ".") || r.Who == "" {
				t.Errorf("it needs a sentence and a role: %q, %q", r.Doc, r.Who)
			}
			at := func(id job.ID) string {
				return strings.NewReplacer("{id}", string(id), "{event}", "hold", "{name}", "test.letter", "{$}", "").Replace(r.Pattern)
			}
			answer, text := w.ask(w.request(r.Method, at(id), ""))
			checkHeaders(t, answer)
			if answer.StatusCode >= 500 {
				t.Errorf("got %s: %s", answer.Status, text)
			}
			writes := r.Method != http.MethodGet && r.Method != http.MethodOptions
			if strings.Contains(r.Pattern, "{id}") && !strings.Contains(r.Pattern, "/ingest/") {
				body := ""
				if strings.HasSuffix(r.Pattern, "/priority") {
					body = `{"priority":1}`
				}
				w.problem(w.request(r.Method, at("let_nobody"), body), http.StatusNotFound, job.NotFound)
			}
			if r.Pattern != "/{$}" && r.Pattern != "/healthz" && !strings.Contains(r.Pattern, "/worker/") {
				w.problem(w.request(r.Method, at(id)+"?nonsense=1", ""), http.StatusBadRequest, job.Invalid)
			}
			if writes && r.Method != http.MethodDelete {
				garbage := w.request(r.Method, at(id), `{"no such field": 1}`)
				if answer, text := w.ask(garbage); answer.StatusCode < 400 || answer.StatusCode >= 500 {
					t.Errorf("garbage: got %s: %s", answer.Status, text)
				} else {
					checkHeaders(t, answer)
				}
			}
			foreign := w.request(r.Method, at(id), "")
			foreign.Header.Set("Origin", "https://evil.example")
			foreign.Header.Set("Sec-Fetch-Site", "cross-site")
			if writes {
				w.problem(foreign, http.StatusForbidden, job.Refused)
			}
			rebound := w.request(r.Method, at(id), "")
			rebound.Host = "evil.example"
			w.problem(rebound, http.StatusMisdirectedRequest, job.Refused)
		})
	}
}

func TestHosts(t *testing.T) {
	w := open(t, func(o *server.Options) { o.Hosts = []string{"archive.example"} }, nil)
	for host, ok := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:7433": true, "archive.example": true, "localhost.": true,
		"evil.example": false, "127.0.0.1.evil.example": false, "10.0.0.1": false, "0.0.0.0": false, "[::]": false, "localhost.evil.example": false,
		"2130706433": false, "[::ffff:10.0.0.1]": false,
	} {
		r := w.request(http.MethodGet, "/healthz", "")
		r.Host = host
		answer, _ := w.ask(r)
		if got := answer.StatusCode == http.StatusOK; got != ok {
			t.Errorf("%s: got %s, want it let in: %v", host, answer.Status, ok)
		}
	}
}

func TestNoRoute(t *testing.T) {
	w := open(t, nil, nil)
	w.problem(w.request(http.MethodGet, "/api/nothing", ""), http.StatusNotFound, job.NotFound)
	w.problem(w.request(http.MethodGet, "/debug/pprof/", ""), http.StatusNotFound, job.NotFound)
	w.problem(w.request(http.MethodPut, "/api/jobs", `{}`), http.StatusMethodNotAllowed, job.Invalid)
	r := w.request(http.MethodDelete, "/api/counts", "")
	answer, _ := w.ask(r)
	if got := answer.Header.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow is %q", got)
	}
	checkHeaders(t, answer)
}

// TestProblems holds each kind of refusal against its status and its members.
func TestProblems(t *testing.T) {
	w := open(t, nil, nil)
	j := w.post(engine.Order{})
	path := "/api/jobs/" + string(j.ID)
	p := w.problem(w.request(http.MethodPost, path+"/release", `{}`), http.StatusConflict, job.Refused)
	if p.State != "Posted" || p.Event != "release" || p.By != "operator" || p.Rule == "" || len(p.Can) != 1 || p.Can[0] != "hold" || p.Job != j.ID {
		t.Errorf("got %+v", p)
	}
	p = w.problem(w.request(http.MethodPost, path+"/events/hold", `{"as":"owner"}`), http.StatusConflict, job.Refused)
	if p.By != "owner" || len(p.Can) != 0 {
		t.Errorf("got %+v", p)
	}
	w.problem(w.request(http.MethodPost, path+"/hold", `{"version":99}`), http.StatusConflict, job.Conflict)
	w.problem(w.request(http.MethodPost, path+"/hold", `{"as":"engine"}`), http.StatusBadRequest, job.Invalid)
	w.problem(w.request(http.MethodPut, path+"/priority", `{"priority":100}`), http.StatusBadRequest, job.Invalid)
	w.problem(w.request(http.MethodPut, "/api/holds", `{"why":"x"}`), http.StatusBadRequest, job.Invalid)
	w.problem(w.request(http.MethodPut, "/api/holds", `{"group":"x"}`), http.StatusBadRequest, job.Invalid)
	w.problem(w.request(http.MethodDelete, "/api/holds?group=x", ""), http.StatusNotFound, job.NotFound)
	w.problem(w.request(http.MethodGet, "/api/jobs?limit=1001", ""), http.StatusBadRequest, job.Invalid)
	w.problem(w.request(http.MethodGet, "/api/jobs?after=garbage", ""), http.StatusBadRequest, job.Invalid)
	w.problem(w.request(http.MethodGet, path+"/why?at=yesterday", ""), http.StatusBadRequest, job.Invalid)

	if _, err := w.client.Do(t.Context(), j.ID, "hold", client.Act{Note: "x"}); err != nil {
		t.Fatal(err)
	}
	p = w.problem(w.request(http.MethodPost, path+"/delete", `{}`), http.StatusConflict, job.Refused)
	if len(p.Can) != 2 || p.State != "Held" { // a rule of the application refused: the moves are told all the same
		t.Errorf("got %+v", p)
	}
	got, err := w.client.Do(t.Context(), j.ID, "delete", client.Act{Confirm: true})
	if err != nil || !got.Gone {
		t.Errorf("got %+v, %v", got.Position, err)
	}
}

// TestErrorsComeBack holds the client to it: kinds and legal moves survive the wire.
func TestErrorsComeBack(t *testing.T) {
	w := open(t, nil, nil)
	j := w.post(engine.Order{})
	_, err := w.client.Do(t.Context(), j.ID, "retry", client.Act{As: "owner"})
	p := client.ProblemOf(err)
	if job.KindOf(err) != job.Refused || p == nil || p.State != "Posted" {
		t.Errorf("got %v", err)
	}
	if want := string(j.ID) + ": cannot retry while Posted: the lifecycle has no such arrow (can: nothing)"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if _, err := w.client.Job(t.Context(), "let_nobody"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestPanicIsAProblem(t *testing.T) {
	w := open(t, func(o *server.Options) {
		o.Alive = func() error { panic("a defect") }
	}, nil)
	p := w.problem(w.request(http.MethodGet, "/healthz", ""), http.StatusInternalServerError, job.Internal)
	if strings.Contains(p.Detail, "defect") {
		t.Errorf("the caller learns %q", p.Detail)
	}
	answer, _ := w.ask(w.request(http.MethodGet, "/", ""))
	checkHeaders(t, answer)
}

package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/web"
)

// allowed lists the roles for each path prefix: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/mine": "uoa", "/jobs": "uoa", "/search": "uoa", "/queues": "oa", "/theme": "*", "/jobs/{id}/reorder": "oa",
	"/holds": "oa", "/locks": "oa", "/workers": "oa", "/outbox": "oa", "/fixity": "oa", "/audit": "oa",
	"/tokens":     "uoa",
	"/lifecycles": "uoa",
}

func part(w *servertest.Harness) server.Part { return web.Part(w.Server) }

func TestEveryRoute(t *testing.T) { servertest.CheckPart(t, allowed, nil, part) }

// browser sends a request as browsers do.
func browser(w *servertest.Harness, r *http.Request) (*http.Response, string) {
	r.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	return w.Ask(r)
}

// sent is a form that a page sends.
func sent(w *servertest.Harness, path string, fields ...string) *http.Request {
	q := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		q.Add(fields[i], fields[i+1])
	}
	r := w.Request(http.MethodPost, path, q.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e"

// TestPagesEscape opens every page with jobs whose every text is hostile.
func TestPagesEscape(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	text := json.RawMessage(`{"evil":` + `"<script>spec()</script>"` + `}`)
	id := w.Post(engine.Order{Owner: hostile[:50], Group: "evil", Spec: text}).ID
	if _, err := w.Client.Hold(t.Context(), api.Hold{Scope: job.Scope{Group: "evil"}, Who: "eve",
		Why: "<script>x()</script>"}); err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, r := range web.Part(w.Server).Routes {
		if r.Method != http.MethodGet || strings.HasSuffix(r.Pattern, ".txt") {
			continue
		}
		pages++
		path := strings.NewReplacer("{id}", string(id), "{name}", "test.letter").Replace(r.Pattern)
		if r.Pattern == "/search" {
			path += "?name=" + url.QueryEscape(hostile)
		}
		answer, page := browser(w, w.Request(http.MethodGet, path, ""))
		if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: got %s", path, answer.Header.Get("Content-Type"))
		}
		if csp := answer.Header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") ||
			!strings.Contains(csp, "script-src 'self'") || !strings.Contains(csp, "form-action 'self'") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		for _, never := range []string{"<script>", "<img", " style=", "<style", "\u202e", "javascript:"} {
			if strings.Contains(page, never) {
				t.Errorf("%s has %q", path, never)
			}
		}
		for _, want := range []string{`<html lang="en"`, `<main id="main"`, `href="#main"`, "<h1>", "</html>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
	}
	if pages < 15 {
		t.Errorf("only %d pages", pages)
	}
	if _, page := browser(w, w.Request(http.MethodGet, "/jobs/"+string(id), "")); !strings.Contains(page,
		"&lt;script&gt;spec()") || !strings.Contains(page, "&lt;script&gt;x()") {
		t.Error("the control: the page does not show the hostile texts")
	}
}

// TestForms sends each form of a job and of holds, follows the redirect, and finds the effect.
func TestForms(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	id := string(w.Post(engine.Order{}).ID)
	for _, c := range []struct {
		path   string
		fields []string
		to     string
		want   string // in the page that follows
	}{
		{"/jobs/" + id + "/events/hold", []string{"note", "wait  for\r\nthe disk", "version", ""}, "/jobs/" + id,
			"wait for the disk"},
		{"/jobs/" + id + "/events/release", []string{"note", ""}, "/jobs/" + id, "Done: release"},
		{"/jobs/" + id + "/reorder", []string{"priority", "7", "note", "soon"}, "/jobs/" + id, "priority 7"},
		{"/holds", []string{"group", "maps", "why", "the disk is full", "kind", "", "state", "", "owner", "", "tag", "",
			"job", "", "until", ""}, "/holds", "the disk is full"},
		{"/holds/release", []string{"group", "maps", "why", "it is free"}, "/holds", "There are no holds."},
		{"/theme", []string{"theme", "dark", "back", "/jobs"}, "/jobs", `data-theme="dark"`},
		{"/theme", []string{"theme", "light", "back", "//evil.example/"}, "/", `data-theme="light"`},
	} {
		answer, text := browser(w, sent(w, c.path, c.fields...))
		if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != c.to {
			t.Fatalf("%s: got %s to %q: %s", c.path, answer.Status, answer.Header.Get("Location"), text)
		}
		r := w.Request(http.MethodGet, c.to, "")
		for _, cookie := range answer.Cookies() {
			r.AddCookie(cookie)
		}
		if _, page := browser(w, r); !strings.Contains(page, c.want) {
			t.Errorf("%s: the page lacks %q: %s", c.path, c.want, page)
		}
	}
}

// TestRefusedForms: a form that the API refuses, one with an unknown field, and one in another encoding change nothing,
// and the page that answers states why.
func TestRefusedForms(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	j := w.Post(engine.Order{})
	path := "/jobs/" + string(j.ID) + "/events/hold"
	garbled := sent(w, path, "note", "x")
	garbled.Header.Set("Content-Type", "text/plain")
	for _, c := range []struct {
		r      *http.Request
		status int
		want   string
	}{
		{sent(w, "/jobs/"+string(j.ID)+"/events/release", "note", "x"), http.StatusConflict, "cannot be released"},
		{sent(w, path, "version", "99"), http.StatusConflict, "Open the page again"},
		{sent(w, path, "version", "x"), http.StatusBadRequest, "version must be a number"},
		{sent(w, path, "nonsense", "x"), http.StatusBadRequest, "the form has no field"},
		{sent(w, path, "note", "a", "note", "b"), http.StatusBadRequest, "note was sent 2 times"},
		{garbled, http.StatusUnsupportedMediaType, "must be a form"},
		{sent(w, "/holds", "why", "x", "until", "soon"), http.StatusBadRequest, "until must be a time"},
		{sent(w, "/outbox/replay", "note", "x"), http.StatusBadRequest, "no message is selected"},
	} {
		answer, page := browser(w, c.r)
		if answer.StatusCode != c.status || !strings.Contains(page, c.want) || !strings.Contains(page, "Go back") {
			t.Errorf("%s: got %s, want %d with %q: %s", c.r.URL, answer.Status, c.status, c.want, page)
		}
	}
	if now, err := w.Client.Job(t.Context(), j.ID); err != nil || now.Version != j.Version {
		t.Errorf("the job changed: %+v, %v", now.Position, err)
	}
}

// TestUsersPages: a user sees its own jobs alone, and no entry of the navigation that it may not open. The operator is
// the control.
func TestUsersPages(t *testing.T) {
	g := servertest.Guard(t, part)
	g.Post(engine.Order{Owner: "ann", Group: "herbarium"})
	foreign := g.Post(engine.Order{Owner: "bob", Group: "secretmaps"}).ID
	for role, sees := range map[identity.Role]bool{identity.Depositor: false, identity.Operator: true} {
		for _, path := range []string{"/jobs", "/mine", "/jobs?group=secretmaps"} {
			answer, page := browser(g.Harness, g.With(g.Tokens[role], http.MethodGet, path, ""))
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("%s as %s: got %s", path, role, answer.Status)
			}
			if strings.Contains(page, string(foreign)) != sees {
				t.Errorf("%s as %s: the foreign job is shown: %v", path, role, !sees)
			}
			if strings.Contains(page, `href="/holds"`) != sees {
				t.Errorf("%s as %s: a link to the holds is shown: %v", path, role, !sees)
			}
		}
		answer, _ := browser(g.Harness, g.With(g.Tokens[role], http.MethodGet, "/jobs/"+string(foreign), ""))
		if (answer.StatusCode == http.StatusOK) != sees {
			t.Errorf("the foreign job as %s: got %s", role, answer.Status)
		}
		home, _ := browser(g.Harness, g.With(g.Tokens[role], http.MethodGet, "/", ""))
		if (home.Header.Get("Location") == "") != sees {
			t.Errorf("GET / as %s leads to %q", role, home.Header.Get("Location"))
		}
	}
	if answer, page := browser(g.Harness, g.With("", http.MethodGet, "/", "")); answer.StatusCode !=
		http.StatusUnauthorized || strings.Contains(page, "herbarium") {
		t.Errorf("GET / without a token: got %s", answer.Status)
	}
}

// TestHome: browsers get the overview, programs the index.
func TestHome(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	if _, page := browser(w, w.Request(http.MethodGet, "/", "")); !strings.Contains(page, "<h1>Overview</h1>") {
		t.Errorf("a browser gets %s", page)
	}
	if answer, _ := w.Ask(w.Request(http.MethodGet, "/", "")); !strings.HasPrefix(answer.Header.Get("Content-Type"),
		"text/plain") {
		t.Errorf("a program gets %s", answer.Header.Get("Content-Type"))
	}
}

// TestTimeTravel shows a job as it was after an earlier entry.
func TestTimeTravel(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	id := string(w.Post(engine.Order{}).ID)
	browser(w, sent(w, "/jobs/"+id+"/events/hold", "note", "x"))
	_, now := browser(w, w.Request(http.MethodGet, "/jobs/"+id, ""))
	_, then := browser(w, w.Request(http.MethodGet, "/jobs/"+id+"?entry=1", ""))
	if !strings.Contains(now, `current"`) ||
		!strings.Contains(now, `<span class="badge held">Held</span> <span>since`) {
		t.Errorf("now: %s", now)
	}
	if !strings.Contains(then, "This is how it was after entry 1") || strings.Contains(then, "What you can do") ||
		!strings.Contains(then, `<span class="badge waiting">Posted</span> <span>since`) {
		t.Errorf("then: %s", then)
	}
}

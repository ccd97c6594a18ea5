package web_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
	"github.com/stagepost/stagepost/web"
)

// allowed lists the roles for each path prefix: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/mine": "uoa", "/jobs": "uoa", "/search": "uoa", "/queues": "oa", "/theme": "*", "/jobs/{id}/reorder": "oa",
	"/holds": "oa", "/locks": "oa", "/workers": "oa", "/outbox": "oa", "/fixity": "oa", "/audit": "oa",
	"/lifecycles": "uoa",
}

func part(w *servertest.Harness) server.Part { return web.Part(w.Server) }

func TestEveryRoute(t *testing.T) { servertest.CheckPart(t, allowed, nil, part) }

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e"

// posts matches the beginning of a form of a page.
var posts = regexp.MustCompile(`<form method="post" action="([^"]+)"`)

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
		answer, page := w.AskPage(w.Request(http.MethodGet, path, ""))
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
		for _, of := range posts.FindAllStringSubmatch(page, -1) { // a form leads to a route
			r := w.Request(http.MethodPost, of[1], "no form")
			r.Header.Set("Content-Type", "text/plain")
			if answer, text := w.Ask(r); answer.StatusCode != http.StatusUnsupportedMediaType {
				t.Errorf("%s posts to %s: %s %s", path, of[1], answer.Status, text)
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
	if _, page := w.AskPage(w.Request(http.MethodGet, "/jobs/"+string(id), "")); !strings.Contains(page,
		"&lt;script&gt;spec()") || !strings.Contains(page, "&lt;script&gt;x()") {
		t.Error("the control: the page does not show the hostile texts")
	}
}

// TestLogOfAJob: the page about a job shows the last lines of its log and those with a text, and follows it. The text
// of a line is hostile.
func TestLogOfAJob(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	id := w.Post(engine.Order{}).ID
	path := "/jobs/" + string(id)
	claimed, err := w.Client.Claim(t.Context(), api.Claim{Worker: "clerk", N: 1,
		From: []job.KindState{{Kind: "test.letter", State: "Posted"}}})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("got %v, %v", claimed, err)
	}
	report := api.Report{Job: id, Epoch: claimed[0].Epoch}
	for n := range int64(700) {
		report.Log = append(report.Log, api.LogEntry{N: n + 1, Text: fmt.Sprintf("line-%d.", n)})
	}
	report.Log[3].Text += hostile
	report.Log[690].Text += hostile
	if _, err := w.Client.Update(t.Context(), api.Reports{Worker: "clerk", Reports: []api.Report{report}}); err != nil {
		t.Fatal(err)
	}
	if answer, _ := w.AskPage(w.Form(path+"/reorder", "priority", "7")); answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %s", answer.Status) // so that entry 1 is the past
	}
	for _, c := range []struct {
		path string
		has  []int // lines
		not  []int
	}{
		{path, []int{680, 690, 699}, []int{3, 679}},
		{path + "?text=SCRIPT", []int{3, 690}, []int{680, 699}},
		{path + "?text=line-7", []int{7, 70, 71, 79}, []int{1, 699}},
		{path + "?text=line-1", []int{180, 199}, []int{1, 179, 699}},
		{path + "/log", []int{0, 499}, []int{500}},
		{path + "/log?tail=2", []int{698, 699}, []int{0, 697}},
		{path + "/log?tail=1&text=script", []int{690}, []int{3, 699}},
		{path + "/log?text=script", []int{3, 690}, []int{0, 699}},
		{path + "?entry=1", nil, []int{3, 690, 699}},
	} {
		_, page := w.AskPage(w.Request(http.MethodGet, c.path, ""))
		shows := func(n int) bool { return strings.Contains(page, fmt.Sprintf("line-%d.", n)) }
		for _, n := range c.has {
			if !shows(n) {
				t.Errorf("%s lacks line %d", c.path, n)
			}
		}
		for _, n := range c.not {
			if shows(n) {
				t.Errorf("%s has line %d", c.path, n)
			}
		}
		if strings.Contains(page, "<script>") || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") {
			t.Errorf("%s runs what a line contains", c.path)
		}
		if strings.Contains(page, "&amp;offset=") == strings.Contains(c.path, "entry") {
			t.Errorf("%s: the stream does not follow its log, or a page of the past does", c.path)
		}
	}
}

// TestWithinGroups: who is limited to groups gets the pages about jobs of these groups, and the form that the API
// permits. The control is an operator without groups.
func TestWithinGroups(t *testing.T) {
	secrets := map[string]token.Secret{}
	g := servertest.GuardWith(t, func(g *servertest.Guarded, _ *server.Options) {
		for _, e := range []token.Entry{{Role: identity.Operator, Owner: "maps", Groups: "maps,plans"},
			{Role: identity.Depositor, Owner: "cleo", Groups: "maps"}} {
			secret, err := token.New(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			secrets[e.Owner], e.Hash = secret, secret.Hash()
			if err := token.Add(g.File, e); err != nil {
				t.Fatal(err)
			}
		}
	}, part)
	mine := g.Post(engine.Order{Owner: "cleo", Group: "maps"}).ID
	plan := g.Post(engine.Order{Owner: "ann", Group: "plans"}).ID
	foreign := g.Post(engine.Order{Owner: "cleo", Group: "photos"}).ID
	ownMap := g.Post(engine.Order{Owner: "maps", Group: "maps"}).ID
	ownPlan := g.Post(engine.Order{Owner: "maps", Group: "plans"}).ID
	for _, c := range []struct {
		who, path string
		sees      []job.ID
		not       []job.ID
	}{
		{"cleo", "/jobs", []job.ID{mine}, []job.ID{plan, foreign}},
		{"cleo", "/mine", []job.ID{mine}, []job.ID{plan, foreign}},
		{"maps", "/jobs", []job.ID{mine}, []job.ID{plan, foreign}}, // the first of its groups
		{"maps", "/jobs?group=plans", []job.ID{plan}, []job.ID{mine, foreign}},
		{"maps", "/mine", []job.ID{ownMap, ownPlan}, []job.ID{mine, plan, foreign}},
	} {
		_, page := g.Harness.AskPage(g.With(secrets[c.who].Reveal(), http.MethodGet, c.path, ""))
		for _, id := range c.sees {
			if !strings.Contains(page, string(id)) {
				t.Errorf("%s, %s: it lacks %s: %s", c.who, c.path, id, page)
			}
		}
		for _, id := range c.not {
			if strings.Contains(page, string(id)) {
				t.Errorf("%s, %s: it has %s", c.who, c.path, id)
			}
		}
		if !strings.Contains(page, `href="/jobs"`) || strings.Contains(page, `href="/holds"`) {
			t.Errorf("%s, %s: its navigation is that of others", c.who, c.path)
		}
	}
	for who, c := range map[string]struct {
		secret  string
		own     int // status of the form of a job in maps, and of one in photos
		foreign int
		offered bool
		home    string
	}{
		"operator of maps":  {secrets["maps"].Reveal(), http.StatusSeeOther, http.StatusNotFound, true, "/jobs"},
		"depositor of maps": {secrets["cleo"].Reveal(), http.StatusForbidden, http.StatusForbidden, false, "/mine"},
		"operator":          {g.Tokens[identity.Operator], http.StatusSeeOther, http.StatusSeeOther, true, ""},
	} {
		_, page := g.Harness.AskPage(g.With(c.secret, http.MethodGet, "/jobs/"+string(mine), ""))
		if strings.Contains(page, "/reorder") != c.offered {
			t.Errorf("%s: the form is offered: %v", who, !c.offered)
		}
		for id, want := range map[job.ID]int{mine: c.own, foreign: c.foreign} {
			r := g.Harness.Form("/jobs/"+string(id)+"/reorder", "priority", "7", "note", "x")
			r.Header.Set("Authorization", "Bearer "+c.secret)
			if answer, text := g.Harness.AskPage(r); answer.StatusCode != want {
				t.Errorf("%s, %s: got %s, want %d: %s", who, id, answer.Status, want, text)
			}
		}
		home, _ := g.Harness.AskPage(g.With(c.secret, http.MethodGet, "/", ""))
		if home.Header.Get("Location") != c.home {
			t.Errorf("%s: GET / leads to %q", who, home.Header.Get("Location"))
		}
	}
}

// TestRetryTask: the page about a job has a button for each task that may be tried again now, and no other; the form
// has the task tried again. A depositor gets none.
func TestRetryTask(t *testing.T) {
	g := servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) {
		o.Lives = []*lifecycle.Table{archive.TaskLife}
	}, part)
	id := g.Post(engine.Order{Owner: "ann"}).ID
	workers, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(g.Tokens[identity.Admin])})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := workers.Claim(t.Context(), api.Claim{Worker: "clerk", N: 1,
		From: []job.KindState{{Kind: "test.letter", State: "Posted"}}})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("got %v, %v", claimed, err)
	}
	report := api.Report{Job: id, Epoch: claimed[0].Epoch, Tasks: []job.Task{
		{Name: "seal", Kind: archive.TaskKind, State: "Failed", Message: "no wax"}, {Name: hostile, Kind: "test.part",
			State: "Failed"}, {Name: "fold", Kind: "test.part", State: "Finished"}}}
	if _, err := workers.Update(t.Context(), api.Reports{Worker: "clerk",
		Reports: []api.Report{report}}); err != nil {
		t.Fatal(err)
	}
	path := "/jobs/" + string(id)
	button := regexp.MustCompile(`name="task" value="([^"]*)"`)
	for role, want := range map[identity.Role]int{identity.Operator: 2, identity.Depositor: 0, identity.Auditor: 0} {
		_, page := g.Harness.AskPage(g.With(g.Tokens[role], http.MethodGet, path, ""))
		if got := button.FindAllString(page, -1); len(got) != want || !strings.Contains(page, "no wax") ||
			strings.Count(page, `<span class="badge bad">Failed`) != 1 ||
			strings.Contains(page, "<script>") {
			t.Errorf("%s: got %q, want %d buttons", role, got, want)
		}
	}
	retry := func(role identity.Role, task string) (*http.Response, string) {
		r := g.Harness.Form(path+"/tasks/retry", "task", task, "note", "wax came")
		r.Header.Set("Authorization", "Bearer "+g.Tokens[role])
		return g.Harness.AskPage(r)
	}
	if answer, page := retry(identity.Depositor, "seal"); answer.StatusCode != http.StatusConflict {
		t.Errorf("a depositor: got %s %s", answer.Status, page)
	}
	if answer, page := retry(identity.Operator, "seal"); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("got %s %s", answer.Status, page)
	}
	if answer, _ := retry(identity.Operator, "seal"); answer.StatusCode != http.StatusConflict {
		t.Errorf("a task that is not Failed: got %s", answer.Status)
	}
	if answer, _ := retry(identity.Operator, "stamp"); answer.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown task: got %s", answer.Status)
	}
	tasks, err := g.Store().Tasks(t.Context(), id)
	if err != nil || len(tasks) != 3 || tasks[2].Name != "seal" || tasks[2].State != "Created" {
		t.Errorf("got %+v, %v", tasks, err)
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
		answer, text := w.AskPage(w.Form(c.path, c.fields...))
		if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != c.to {
			t.Fatalf("%s: got %s to %q: %s", c.path, answer.Status, answer.Header.Get("Location"), text)
		}
		r := w.Request(http.MethodGet, c.to, "")
		for _, cookie := range answer.Cookies() {
			r.AddCookie(cookie)
		}
		if _, page := w.AskPage(r); !strings.Contains(page, c.want) {
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
	garbled := w.Form(path, "note", "x")
	garbled.Header.Set("Content-Type", "text/plain")
	for _, c := range []struct {
		r      *http.Request
		status int
		want   string
	}{
		{w.Form("/jobs/"+string(j.ID)+"/events/release", "note", "x"), http.StatusConflict, "cannot be released"},
		{w.Form(path, "version", "99"), http.StatusConflict, "Open the page again"},
		{w.Form(path, "version", "x"), http.StatusBadRequest, "version must be a number"},
		{w.Form(path, "nonsense", "x"), http.StatusBadRequest, "the form has no field"},
		{w.Form(path, "note", "a", "note", "b"), http.StatusBadRequest, "note was sent 2 times"},
		{garbled, http.StatusUnsupportedMediaType, "must be a form"},
		{w.Form("/holds", "why", "x", "until", "soon"), http.StatusBadRequest, "until must be a time"},
		{w.Form("/outbox/replay", "note", "x"), http.StatusBadRequest, "no message is selected"},
	} {
		answer, page := w.AskPage(c.r)
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
			answer, page := g.Harness.AskPage(g.With(g.Tokens[role], http.MethodGet, path, ""))
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("%s as %s: got %s", path, role, answer.Status)
			}
			if strings.Contains(page, string(foreign)) != (sees && path != "/mine") {
				t.Errorf("%s as %s: the foreign job is shown: %v", path, role, !sees)
			}
			if strings.Contains(page, `href="/holds"`) != sees {
				t.Errorf("%s as %s: a link to the holds is shown: %v", path, role, !sees)
			}
		}
		answer, _ := g.Harness.AskPage(g.With(g.Tokens[role], http.MethodGet, "/jobs/"+string(foreign), ""))
		if (answer.StatusCode == http.StatusOK) != sees {
			t.Errorf("the foreign job as %s: got %s", role, answer.Status)
		}
		home, _ := g.Harness.AskPage(g.With(g.Tokens[role], http.MethodGet, "/", ""))
		if (home.Header.Get("Location") == "") != sees {
			t.Errorf("GET / as %s leads to %q", role, home.Header.Get("Location"))
		}
	}
	if answer, page := g.Harness.AskPage(g.With("", http.MethodGet, "/", "")); answer.StatusCode !=
		http.StatusUnauthorized || strings.Contains(page, "herbarium") {
		t.Errorf("GET / without a token: got %s", answer.Status)
	}
}

// TestWhoMayDelete: the page about a job of another user offers to an admin to delete it, and to an operator the rest.
func TestWhoMayDelete(t *testing.T) {
	g := servertest.Guard(t, part)
	id := string(g.Post(engine.Order{Owner: "ann"}).ID)
	if answer, text := g.Ask(g.With(g.Tokens[identity.Operator], http.MethodPost, "/api/v1/jobs/"+id+"/hold",
		`{"note":"n"}`)); answer.StatusCode != http.StatusOK {
		t.Fatal(text)
	}
	for role, may := range map[identity.Role]bool{identity.Operator: false, identity.Admin: true} {
		_, page := g.Harness.AskPage(g.With(g.Tokens[role], http.MethodGet, "/jobs/"+id, ""))
		if strings.Contains(page, "/events/delete") != may || strings.Contains(page, "stagepost delete") != may ||
			!strings.Contains(page, "/events/release") {
			t.Errorf("%s is offered to delete: %t: %s", role, !may, page)
		}
	}
}

// TestHome: browsers get the overview, programs the index.
func TestHome(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	if _, page := w.AskPage(w.Request(http.MethodGet, "/", "")); !strings.Contains(page, "<h1>Overview</h1>") {
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
	w.AskPage(w.Form("/jobs/"+id+"/events/hold", "note", "x"))
	_, now := w.AskPage(w.Request(http.MethodGet, "/jobs/"+id, ""))
	_, then := w.AskPage(w.Request(http.MethodGet, "/jobs/"+id+"?entry=1", ""))
	if !strings.Contains(now, `current"`) ||
		!strings.Contains(now, `<span class="badge held">Held</span> <span>since`) {
		t.Errorf("now: %s", now)
	}
	if !strings.Contains(then, "This is how it was after entry 1") || strings.Contains(then, "What you can do") ||
		!strings.Contains(then, `<span class="badge waiting">Posted</span> <span>since`) ||
		!strings.Contains(then, "it was the first in the queue") || strings.Contains(now, "in the queue") {
		t.Errorf("then: %s", then)
	}
	if !strings.Contains(now, "<span>priority ") || strings.Contains(then, "<span>priority ") ||
		!strings.Contains(then, "What is not recorded of an earlier time") {
		t.Errorf("the priority of today, and what is not recorded: %s", then)
	}
	stays := func(page string) int {
		_, page, _ = strings.Cut(page, `id="timeline"`)
		page, _, _ = strings.Cut(page, "</svg>")
		return strings.Count(page, "<rect")
	}
	if stays(now) != 2 || stays(then) != 1 || strings.Count(then, `aria-label="The job after entry`) != 2 {
		t.Errorf("the timeline of then, and all rows of the history: %d, %d stays, %s", stays(now), stays(then), then)
	}
}

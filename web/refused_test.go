package web_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// TestRefusedBeforeAPage: a browser gets a page about what is refused before a handler is reached, with what can be
// done and a link; programs and the API get the problem.
func TestRefusedBeforeAPage(t *testing.T) {
	p := openPress(t, nil)
	foreign := "/jobs/" + string(p.order("test.bag", "bob"))
	get := func(path string) *http.Request { return p.Request(http.MethodGet, path, "") }
	foreignOrigin := p.Form("/holds", "why", "x")
	foreignOrigin.Header.Set("Origin", "https://evil.example")
	for _, c := range []struct {
		name   string
		r      *http.Request
		status int
		has    []string
	}{
		{"a page of operators", as("ann", get("/audit")), 403,
			[]string{"not for the role depositor", "Ask those who run", `<a class="button" href="/"`, `href="/mine"`}},
		{"a form of operators", as("ann", p.Form("/holds", "why", "x")), 403, []string{"Nothing was changed",
			`<a class="button" href="/holds"`}},
		{"a job of another", as("ann", get(foreign)), 404, []string{"there is no such job", "search for it"}},
		{"an unknown job", as("oscar", get("/jobs/let_none")), 404, []string{"search for it", `href="/holds"`}},
		{"an unknown address", as("ann", get("/nope")), 404, []string{"/nope", `<a class="button" href="/"`}},
		{"an unknown parameter", as("ann", get("/mine?foo=1")), 400, []string{"there is no parameter"}},
		{"another method", as("oscar", p.Form("/audit", "x", "y")), 405, []string{"not for POST",
			`<a class="button" href="/"`}},
		{"another origin", as("oscar", foreignOrigin), 403, []string{"another origin"}},
		{"a form after the end of the session", p.Form(foreign+"/events/hold", "note", "x"), 401,
			[]string{"You are not signed in", "Nothing was changed", "Sign in again",
				`href="/sign-in?next=` + strings.ReplaceAll(foreign, "/", "%2F") + `">Sign in</a>`}},
		{"a form without a job", p.Form("/holds/release", "why", "x"), 401,
			[]string{`href="/sign-in?next=%2Fholds">Sign in</a>`}},
	} {
		answer, page := p.AskPage(c.r)
		if answer.StatusCode != c.status || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: got %s, %s: %s", c.name, answer.Status, answer.Header.Get("Content-Type"), page)
			continue
		}
		for _, want := range c.has {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q: %s", c.name, want, page)
			}
		}
	}
	token := get("/audit")
	token.Header.Set("Authorization", "Bearer "+p.tokens["ann"])
	for name, r := range map[string]*http.Request{"the API": as("ann", get("/api/v1/audit")), "a token": token,
		"an unknown operation": as("ann", get("/api/v1/nope"))} {
		answer, text := p.AskPage(r)
		if answer.StatusCode < 400 || answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %s %s", name, answer.Status, text)
		}
	}
	answer, text := p.Ask(as("ann", get("/audit")))
	if answer.StatusCode != 403 || answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a program: got %s %s", answer.Status, text)
	}
}

// TestRefusedFormKeepsTexts: the page about a refused form has what was entered. It can be sent again where that can
// help and nothing must be confirmed; of a form that is too large a part is shown.
func TestRefusedFormKeepsTexts(t *testing.T) {
	p := openPress(t, nil)
	id := string(p.order("test.letter", "ann"))
	events := "/jobs/" + id + "/events/"
	const text, shown = "they moved <the shelf>\nof \"maps\"", "they moved &lt;the shelf&gt;\nof &#34;maps&#34;</textarea>"
	for _, c := range []struct {
		name         string
		r            *http.Request
		status       int
		shows, again bool
	}{
		{"a mistake", p.Form(events+"hold", "version", "x", "note", text), 400, true, true},
		{"another field", p.Form("/holds/release", "group", "maps", "why", text, "nonsense", "x"), 400, true, true},
		{"an event that is not possible", p.Form(events+"finish", "note", text), 409, true, false},
		{"a confirmation", p.Form(events+"hold", "version", "x", "note", text, "confirm", "yes"), 400, true, false},
		{"no text", p.Form(events+"hold", "version", "x", "note", ""), 400, false, false},
		{"too large", p.Form(events+"hold", "note", text, "value", strings.Repeat("x", 200<<10)), 400, true, false},
	} {
		answer, page := p.AskPage(as("oscar", c.r))
		again := strings.Contains(page, `<form class="fields" method="post" action="`+c.r.URL.Path+`">`)
		if answer.StatusCode != c.status || strings.Contains(page, shown) != c.shows || again != c.again ||
			again && !strings.Contains(page, `<input type="hidden" name="`) || strings.Contains(page, "<the shelf>") {
			t.Errorf("%s: got %s: %s", c.name, answer.Status, page)
		}
	}
}

// TestRefusedFormKeepsTextsBeforeItsHandler: so it is with a form that is refused without having been read: of someone
// who is not signed in any more, of one who sends too many, and of one that is too large. It is never sent again by
// itself, nor where no browser states that a page of this server sent it, and a password is not shown.
func TestRefusedFormKeepsTextsBeforeItsHandler(t *testing.T) {
	const text, shown = "they moved <the shelf>", "they moved &lt;the shelf&gt;</textarea>"
	p := openPress(t, func(o *server.Options) { o.MaxBody, o.RateIdentity = 300<<10, 1 })
	fromPage := func(r *http.Request) *http.Request {
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		return r
	}
	files := func() *http.Request {
		r := p.Request(http.MethodPost, "/holds", "--b\r\nContent-Disposition: form-data; name=note\r\n\r\n"+text+
			"\r\n--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\nsecret file\r\n--b--\r\n")
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		return r
	}
	check := func(name string, r *http.Request, status int, shows, again bool) string {
		t.Helper()
		answer, page := p.AskPage(r)
		if answer.StatusCode != status || strings.Contains(page, shown) != shows ||
			strings.Contains(page, `<form class="fields" method="post" action="/holds"`) != again ||
			strings.Contains(page, "secret") || strings.Contains(page, "<the shelf>") {
			t.Errorf("%s: got %s: %s", name, answer.Status, page)
		}
		return page
	}
	page := check("signed out", fromPage(p.Form("/holds", "group", "maps", "why", text)), 401, true, true)
	for _, want := range []string{`<input type="hidden" name="group" value="maps">`, "Then send the form here again",
		`target="_blank" rel="noopener" href="/sign-in?next=%2Fholds">Sign in</a>`} {
		if !strings.Contains(page, want) {
			t.Errorf("signed out: the page lacks %q: %s", want, page)
		}
	}
	check("signed out, from anywhere", p.Form("/holds", "group", "maps", "why", text), 401, true, false)
	check("a password", fromPage(p.Form("/holds", "why", text, "password", "secret")), 401, false, false)
	check("nothing entered", fromPage(p.Form("/holds", "group", "maps")), 401, false, false)
	page = check("signed out, with files", fromPage(files()), 401, true, true)
	if !strings.Contains(page, `enctype="multipart/form-data"`) || !strings.Contains(page, "name=\"fill_in\"") {
		t.Errorf("a form with files is sent without them: %s", page)
	}
	foreign := p.Form("/holds", "why", text)
	foreign.Header.Set("Origin", "https://evil.example")
	check("another origin", foreign, 403, false, false)
	large := p.Form("/holds", "group", "maps", "note", text, "why", strings.Repeat("x", 400<<10))
	check("too large", as("oscar", large), 413, true, false)
	for range 100 {
		answer, _ := p.AskPage(as("oscar", p.Request(http.MethodGet, "/lifecycles", "")))
		if answer.StatusCode == http.StatusTooManyRequests {
			check("too many", as("oscar", p.Form("/holds", "why", text)), 429, true, true)
			return
		}
	}
	t.Error("no request was refused")
}

// TestRefusedRate: a browser that sends too many requests gets a page with the time to wait.
func TestRefusedRate(t *testing.T) {
	p := openPress(t, func(o *server.Options) { o.RateIdentity = 1 })
	for range 100 {
		answer, page := p.AskPage(as("ann", p.Request(http.MethodGet, "/lifecycles", "")))
		if answer.StatusCode == http.StatusOK {
			continue
		}
		if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" ||
			!strings.Contains(page, "Try it again in "+answer.Header.Get("Retry-After")+" s.") ||
			!strings.Contains(page, "</html>") {
			t.Errorf("got %s: %s", answer.Status, page)
		}
		return
	}
	t.Error("no request was refused")
}

// TestSignedOutWithoutSignIn: a server without a page to sign in states so.
func TestSignedOutWithoutSignIn(t *testing.T) {
	p := openPress(t, func(o *server.Options) { o.SignIn = false })
	answer, page := p.AskPage(p.Request(http.MethodGet, "/mine", ""))
	if answer.StatusCode != http.StatusUnauthorized || !strings.Contains(page, "no page to sign in") ||
		!strings.Contains(answer.Header.Get("WWW-Authenticate"), "Bearer") {
		t.Errorf("got %s: %s", answer.Status, page)
	}
}

// TestStartPageSignedOut: the start page leads a browser without a session to the sign-in, as other pages do.
func TestStartPageSignedOut(t *testing.T) {
	p := openPress(t, nil)
	for path, want := range map[string]string{"/": "/sign-in?next=%2F", "/jobs/abc": "/sign-in?next=%2Fjobs%2Fabc"} {
		answer, _ := p.AskPage(p.Request(http.MethodGet, path, ""))
		if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != want {
			t.Errorf("%s: got %s to %q", path, answer.Status, answer.Header.Get("Location"))
		}
	}
}

// TestSearchAsPagesShow: what pages show of a job finds it: its id with blanks, and the name of its kind with its
// number. A number alone finds the jobs of all kinds. What is not found stays in the field.
func TestSearchAsPagesShow(t *testing.T) {
	w := office(t)
	id := w.order(t, "A letter", "maps", "ann")
	j, err := w.Client.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	number := strconv.FormatInt(j.Number, 10)
	for _, name := range []string{" " + string(id) + "\t", "letter " + number, "Letter " + number,
		"test.letter " + number, "test.letter/" + number, number} {
		answer, page := w.AskPage(w.Request(http.MethodGet, "/search?"+url.Values{"name": {name}}.Encode(), ""))
		if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/jobs/"+string(id) {
			t.Errorf("%q: got %s: %s", name, answer.Status, page)
		}
	}
	answer, page := w.AskPage(w.Request(http.MethodGet, "/search?name=letter+77777", ""))
	if answer.StatusCode != http.StatusNotFound || !strings.Contains(page, `value="letter 77777"`) {
		t.Errorf("what is not found: got %s: %s", answer.Status, page)
	}
}

// TestSearchWords: a search opens the only job with the words, and lists several. A depositor finds own jobs only.
func TestSearchWords(t *testing.T) {
	w := office(t)
	one := w.Post(engine.Order{Owner: "ann", Words: []string{"Cartes de Cr\u00e8te"}}).ID
	w.Post(engine.Order{Owner: "bob", Words: []string{"Cartes"}})
	for name, want := range map[string]string{
		"cr\u00e9te": "/jobs/" + string(one), "CARTES cret": "/jobs/" + string(one), "cartes": "/jobs?words=cartes",
		" cart ": "/jobs?words=cart", "cartes x": "",
	} {
		answer, page := w.AskPage(w.Request(http.MethodGet, "/search?"+url.Values{"name": {name}}.Encode(), ""))
		if answer.Header.Get("Location") != want || (want == "") != (answer.StatusCode == http.StatusNotFound) {
			t.Errorf("%q: got %s, %q: %s", name, answer.Status, answer.Header.Get("Location"), page)
		}
	}
	answer, page := w.AskPage(w.Request(http.MethodGet, "/jobs?words=cartes+cr", ""))
	if answer.StatusCode != http.StatusOK || !strings.Contains(page, `name="words" value="cartes cr"`) ||
		strings.Count(page, `href="/jobs/let_`) == 0 || !strings.Contains(page, `words=cartes&#43;cr">Act on all of them`) {
		t.Errorf("the list: %s %s", answer.Status, page)
	}
	p := openPress(t, nil)
	for _, owner := range []string{"ann", "bob"} {
		_, err := p.Submit(t.Context(), engine.Order{Kind: "test.bag", Owner: owner, Words: []string{"Seeds " + owner}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{"seeds ann": http.StatusSeeOther, "seeds bob": http.StatusNotFound} {
		of := "/search?" + url.Values{"name": {name}}.Encode()
		answer, page := p.AskPage(as("ann", p.Request(http.MethodGet, of, "")))
		if answer.StatusCode != want {
			t.Errorf("%q of ann: got %s: %s", name, answer.Status, page)
		}
	}
}

// wordless is a store without an index of words.
type wordless struct{ job.Store }

func (w wordless) Properties() job.Properties {
	p := w.Store.Properties()
	p.Words = false
	return p
}

func (w wordless) List(ctx context.Context, q job.Query) (job.Page, error) {
	if len(q.Words) > 0 {
		return job.Page{}, job.Errorf(job.Refused, "list", "", "this store has no words")
	}
	return w.Store.List(ctx, q)
}

// TestSearchWithoutWords: where the store has no words, the list has no field for them and a search does not ask.
// TestSearchWords is the control.
func TestSearchWithoutWords(t *testing.T) {
	e, err := engine.New(wordless{mem.New()}, []engine.Work{{Life: enginetest.Letter, Prefix: "let", Outside: true}},
		engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := servertest.Serve(t, server.Options{Engine: e, Version: "test"}, part)
	w.Run()
	w.Post(engine.Order{Words: []string{"Cartes"}})
	for path, want := range map[string]int{"/jobs": http.StatusOK, "/search?name=cartes": http.StatusNotFound} {
		answer, page := w.AskPage(w.Request(http.MethodGet, path, ""))
		if answer.StatusCode != want || strings.Contains(page, `name="words"`) {
			t.Errorf("%s: got %s: %s", path, answer.Status, page)
		}
	}
}

// TestSearchNumberOfSeveral: a number that jobs of several kinds have lists them, without parts of other jobs.
func TestSearchNumberOfSeveral(t *testing.T) {
	p := openPress(t, nil)
	bag, note, part := p.order("test.bag", "ann"), p.order("test.note", "ann"), p.order("test.letter", "ann")
	answer, page := p.AskPage(as("oscar", p.Request(http.MethodGet, "/search?name=1", "")))
	for id, want := range map[job.ID]bool{bag: true, note: true, part: false} {
		if strings.Contains(page, "/jobs/"+string(id)) != want {
			t.Errorf("%s is listed: %v: %s %s", id, !want, answer.Status, page)
		}
	}
}

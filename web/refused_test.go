package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/server"
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

package signin_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/server/token"
)

// TestSession follows a session from its beginning to its end: what its cookie is, what it may do, and that a browser
// without one is sent to the page of sign-in.
func TestSession(t *testing.T) {
	h := open(t, nil)
	c := h.signIn("ann")
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || len(c.Value) < 43 {
		t.Errorf("the cookie is %+v", c)
	}
	for path, want := range map[string]int{"/api/v1/jobs": 200, "/api/v1/counts": 403} {
		if got := h.status(http.MethodGet, path, c); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	if got := h.status(http.MethodGet, "/api/v1/jobs", nil); got != http.StatusUnauthorized {
		t.Errorf("without a session: got %d", got)
	}
	r := h.Request(http.MethodGet, "/api/v1/jobs?limit=5", "")
	r.Header.Set("Accept", "text/html")
	answer, _ := h.Ask(r)
	if want := "/sign-in?next=%2Fapi%2Fv1%2Fjobs%3Flimit%3D5"; answer.StatusCode != http.StatusSeeOther ||
		answer.Header.Get("Location") != want {
		t.Errorf("a browser: got %s to %s", answer.Status, answer.Header.Get("Location"))
	}
	if answer := h.post(server.SignOutPath, c, nil); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("sign-out: got %s", answer.Status)
	}
	if got := h.status(http.MethodGet, "/api/v1/jobs", c); got != http.StatusUnauthorized {
		t.Errorf("after the sign-out: got %d", got)
	}
	if in, out := h.audited("sign-in"), h.audited("sign-out"); len(in) != 1 || in[0].Actor != "ann" ||
		in[0].Object != "password" || in[0].Address != "127.0.0.1" || len(out) != 1 {
		t.Errorf("audited: %+v, %+v", in, out)
	}
}

// TestSessionEnds: a session ends by its age, without use, with its account, password or token, and when an admin ends
// it; the control is that it is valid before. Requests that a browser sends from other origins change nothing.
func TestSessionEnds(t *testing.T) {
	for what, end := range map[string]func(h *harness){
		"idle": func(h *harness) { h.clock.Add(2 * time.Hour) },
		"long": func(h *harness) {
			for range 24 {
				h.clock.Add(time.Hour)
				h.status(http.MethodGet, "/api/v1/jobs", h.cookie(t))
			}
		},
		"disabled": func(h *harness) { h.changeUser(t, func(u *account.User) error { u.Disabled = true; return nil }) },
		"password": func(h *harness) {
			h.changeUser(t, func(u *account.User) error { return u.SetPassword(password + "!") })
		},
		"file": func(h *harness) {
			for _, name := range h.files(t) {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			h.clock.Add(time.Second)
		},
		"admin": func(h *harness) {
			path := "/api/v1/admin/sessions/" + filepath.Base(h.files(t)[0])
			if got := h.status(http.MethodDelete, path, h.cookie(t)); got != http.StatusForbidden {
				t.Errorf("a depositor ends a session: got %d", got)
			}
			if got := h.status(http.MethodDelete, path, h.signIn("ada")); got != http.StatusOK {
				t.Errorf("got %d", got)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := open(t, nil)
			h.last = h.signIn("ann")
			h.clock.Add(time.Hour)
			if got := h.status(http.MethodGet, "/api/v1/jobs", h.last); got != http.StatusOK {
				t.Fatalf("before: got %d", got)
			}
			end(h)
			if got := h.status(http.MethodGet, "/api/v1/jobs", h.last); got != http.StatusUnauthorized {
				t.Errorf("after: got %d", got)
			}
		})
	}
}

// TestPagesDoNotProlong: what a page requests by itself does not prolong a session, and is answered while it lasts; the
// control is what its reader requests.
func TestPagesDoNotProlong(t *testing.T) {
	for _, c := range []struct {
		query, name, value string
		want               int // an hour after the session would have ended
	}{
		{"", server.RefreshHeader, "1", http.StatusUnauthorized},
		{"", "Accept", "text/event-stream", http.StatusUnauthorized},
		{"?refresh=again", "Accept", "text/html", http.StatusUnauthorized},
		{"?refresh=off", "Accept", "text/html", http.StatusOK},
		{"", "Accept", "text/html", http.StatusOK},
	} {
		h := open(t, nil)
		cookie := h.signIn("ann")
		for range 3 {
			h.clock.Add(30 * time.Minute)
			r := recorded(t, "127.0.0.1", http.Header{c.name: {c.value}})
			r.URL.RawQuery = strings.TrimPrefix(c.query, "?")
			r.AddCookie(cookie)
			if who, err := h.app.Identify(r); err != nil || who.Name != "ann" {
				t.Fatalf("%+v: got %s, %v", c, who.Name, err)
			}
		}
		h.clock.Add(90 * time.Minute)
		if got := h.status(http.MethodGet, "/api/v1/jobs", cookie); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// TestRoleIsLive: a changed role counts for sessions that are open.
func TestRoleIsLive(t *testing.T) {
	h := open(t, nil)
	h.last = h.signIn("ann")
	who, err := h.app.Identify(recorded(t, "127.0.0.1", http.Header{"Cookie": {h.last.Name + "=" + h.last.Value}}))
	if err != nil || !h.app.Valid(&who) {
		t.Fatalf("control: %+v is not valid, %v", who, err)
	}
	h.changeUser(t, func(u *account.User) error { u.Role = identity.Operator; return nil })
	if got := h.status(http.MethodGet, "/api/v1/counts", h.last); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
	if h.app.Valid(&who) {
		t.Error("what runs with the earlier role goes on")
	}
}

// TestRotation: a sign-in never keeps the id of a session, neither a planted one nor that of another user.
func TestRotation(t *testing.T) {
	h := open(t, nil)
	first := h.signIn("ann")
	answer := h.post(server.SignInPath, first, url.Values{"name": {"oscar"}, "password": {password}})
	second := cookieOf(t, answer)
	if second.Value == first.Value {
		t.Error("the id is the same")
	}
	if got := h.status(http.MethodGet, "/api/v1/jobs", first); got != http.StatusUnauthorized {
		t.Errorf("the first session: got %d", got)
	}
	for _, name := range h.files(t) {
		text, err := os.ReadFile(name)
		if err != nil || strings.Contains(string(text)+name, second.Value) {
			t.Errorf("%s has the cookie: %v", name, err)
		}
	}
}

// TestWrongPasswords are refused alike for users that exist and do not, audited, and limited.
func TestWrongPasswords(t *testing.T) {
	h := open(t, nil)
	try := func(name, with string) int {
		return h.post(server.SignInPath, nil, url.Values{"name": {name}, "password": {with}}).StatusCode
	}
	for _, name := range []string{"ann", "nemo", "", "a\nb", strings.Repeat("x", 300)} {
		if got := try(name, "wrong password"); got != http.StatusForbidden {
			t.Errorf("%q: got %d", name, got)
		}
	}
	if failed := h.audited("sign-in-failed"); len(failed) != 5 || failed[0].Actor != "ann" ||
		failed[3].Actor != "unknown" {
		t.Errorf("audited: %+v", failed)
	}
	got := 0
	for range 12 {
		got = try("ann", "wrong password")
	}
	if got != http.StatusTooManyRequests {
		t.Errorf("the last of 13 attempts: got %d", got)
	}
	if got := try("ann", password); got != http.StatusTooManyRequests {
		t.Errorf("the right password while there are too many: got %d", got)
	}
	h.clock.Add(time.Minute)
	if got := try("ann", password); got != http.StatusSeeOther {
		t.Errorf("later: got %d", got)
	}
}

// TestUsersFault: while the file of users is broken, sign-in is unavailable, and sessions of passwords are refused.
func TestUsersFault(t *testing.T) {
	h := open(t, nil)
	c := h.signIn("ann")
	if err := os.WriteFile(h.users, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(2 * time.Second)
	form := url.Values{"name": {"ann"}, "password": {password}}
	got := h.post(server.SignInPath, nil, form).StatusCode
	if got != http.StatusServiceUnavailable || h.app.Fault() == nil {
		t.Errorf("got %d, fault %v", got, h.app.Fault())
	}
	if got := h.status(http.MethodGet, "/api/v1/jobs", c); got != http.StatusUnauthorized {
		t.Errorf("the session: got %d", got)
	}
}

// TestSignInByToken begins a session that ends with its token. A worker's token begins none.
func TestSignInByToken(t *testing.T) {
	h := open(t, nil)
	for secret, want := range map[string]int{"stp_x": 403, h.worker: 403, h.robot: 303} {
		answer := h.post(server.SignInPath, nil, url.Values{"token": {secret}})
		if answer.StatusCode != want {
			t.Errorf("got %s, want %d", answer.Status, want)
		}
		if want == http.StatusSeeOther {
			h.last = cookieOf(t, answer)
		}
	}
	if got := h.status(http.MethodGet, "/api/v1/counts", h.last); got != http.StatusOK {
		t.Errorf("the session of an operator's token: got %d", got)
	}
	text, err := os.ReadFile(h.tokens)
	if err != nil {
		t.Fatal(err)
	}
	lowered := bytes.ReplaceAll(text, []byte(" operator "), []byte(" depositor "))
	if bytes.Equal(text, lowered) {
		t.Fatalf("the tokens are %s", text)
	}
	h.write(lowered)
	h.awaitStatus(http.StatusForbidden, "after the role of its token was lowered")
	h.write(text)
	h.awaitStatus(http.StatusOK, "after it was raised again")
	if _, err := token.Revoke(h.tokens, hashOf(t, h.robot), time.Now(), "olga"); err != nil {
		t.Fatal(err)
	}
	h.awaitStatus(http.StatusUnauthorized, "after its token was revoked")
}

// write replaces the file of tokens.
func (h *harness) write(text []byte) {
	h.T.Helper()
	next := h.tokens + ".next"
	if err := errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, h.tokens)); err != nil {
		h.T.Fatal(err)
	}
}

// awaitStatus asks with the last cookie until the file of tokens, which is read again within a second, gives an answer.
func (h *harness) awaitStatus(want int, what string) {
	h.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		got := h.status(http.MethodGet, "/api/v1/counts", h.last)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			h.T.Fatalf("%s: got %d", what, got)
		}
	}
}

func hashOf(t *testing.T, secret string) string { return hashKey(t, secret).String() }

func hashKey(t *testing.T, secret string) identity.Key {
	t.Helper()
	s, err := token.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	return s.Hash()
}

// TestFirstAdmin: the link makes one admin, once and within its hour, and none where there is one.
func TestFirstAdmin(t *testing.T) {
	h := open(t, nil)
	if _, ok := h.app.FirstAdmin("secret"); ok {
		t.Fatal("there is an admin")
	}
	h.last = nil
	h.user = "ada"
	h.changeUser(t, func(u *account.User) error { u.Disabled = true; return nil })
	path, ok := h.app.FirstAdmin("secret")
	if !ok {
		t.Fatal("there is no admin, and no link")
	}
	form := url.Values{"name": {"root"}, "password": {password}}
	if got := h.post(path+"x", nil, form).StatusCode; got != http.StatusNotFound {
		t.Errorf("a wrong link: got %d", got)
	}
	if got := h.post(path, nil, url.Values{"name": {"root"}, "password": {"short"}}).StatusCode; got != 400 {
		t.Errorf("a short password: got %d", got)
	}
	answer := h.post(path, nil, form)
	if got := answer.StatusCode; got != http.StatusSeeOther {
		t.Errorf("got %d", got)
	}
	if got := h.status(http.MethodGet, "/api/v1/admin/sessions", cookieOf(t, answer)); got != http.StatusOK {
		t.Errorf("the admin, at once: got %d", got)
	}
	h.clock.Add(2 * time.Second)
	if got := h.post(path, nil, url.Values{"name": {"eve"}, "password": {password}}).StatusCode; got != 404 {
		t.Errorf("the link again: got %d", got)
	}
	if got := h.status(http.MethodGet, "/api/v1/admin/sessions", h.signIn("root")); got != http.StatusOK {
		t.Errorf("the first admin: got %d", got)
	}
	late := open(t, nil)
	late.user = "ada"
	late.changeUser(t, func(u *account.User) error { u.Disabled = true; return nil })
	path, _ = late.app.FirstAdmin("secret")
	late.clock.Add(time.Hour)
	if got := late.post(path, nil, form).StatusCode; got != http.StatusNotFound {
		t.Errorf("after an hour: got %d", got)
	}
}

// TestNameIsKept: after a refused password the page has the name that was typed.
func TestNameIsKept(t *testing.T) {
	h := open(t, nil)
	h.user = "ada"
	h.changeUser(t, func(u *account.User) error { u.Disabled = true; return nil })
	path, _ := h.app.FirstAdmin("secret")
	for _, to := range []string{server.SignInPath, path} {
		r := h.Request(http.MethodPost, to, url.Values{"name": {`Ann "A"`}, "password": {"short"}}.Encode())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if answer, text := h.Ask(r); answer.StatusCode < 400 || !strings.Contains(text, ` value="Ann &#34;A&#34;"`) ||
			strings.Contains(text, "short") {
			t.Errorf("%s: got %s %s", to, answer.Status, text)
		}
	}
}

// TestNext: whatever a link names as the page after the sign-in, the browser stays on this server.
func TestNext(t *testing.T) {
	h := open(t, nil)
	for _, next := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example",
		"/\t/evil.example", "javascript:alert(1)", "", "evil", "/\r\nX: y"} {
		answer := h.post(server.SignInPath, nil, url.Values{"name": {"ann"}, "password": {password}, "next": {next}})
		if got := answer.Header.Get("Location"); got != "/" {
			t.Errorf("%q: got %q", next, got)
		}
	}
}

// TestForgedRequests: a page of another origin can neither sign a browser in nor out, nor act with its session.
func TestForgedRequests(t *testing.T) {
	h := open(t, nil)
	c := h.signIn("oscar")
	for _, path := range []string{server.SignInPath, server.SignOutPath, "/api/v1/jobs"} {
		r := h.Request(http.MethodPost, path, "")
		r.AddCookie(c)
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		h.Problem(r, http.StatusForbidden, job.Refused)
	}
	if got := h.status(http.MethodGet, "/api/v1/jobs", c); got != http.StatusOK {
		t.Errorf("the session: got %d", got)
	}
}

// TestSecureCookie: over TLS the cookie has the prefix __Host-, and a cookie without it is no session.
func TestSecureCookie(t *testing.T) {
	h := open(t, func(o *signin.Options) { o.TLS = true })
	c := h.signIn("ann")
	if c.Name != "__Host-stagepost" || !c.Secure {
		t.Errorf("got %+v", c)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{}
	r.AddCookie(&http.Cookie{Name: "stagepost", Value: c.Value})
	if _, err := h.app.Identify(r); err == nil {
		t.Error("a cookie without the prefix is a session")
	}
	r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	if who, err := h.app.Identify(r); err != nil || who.Name != "ann" || who.Way != identity.BySession {
		t.Errorf("got %+v, %v", who, err)
	}
}

// TestProxy: the fields of a trusted proxy name a person, those of other clients are ignored.
func TestProxy(t *testing.T) {
	rules, err := signin.ReadRules("admin=cn=it,ou=groups; operator:maps,photos=curators; depositor=*")
	if err != nil {
		t.Fatal(err)
	}
	p := &signin.Proxy{User: "X-Remote-User", Display: "X-Name", Groups: "X-Groups", Rules: rules,
		From: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, Secret: "shared"}
	field := func(user, groups, secret string) http.Header {
		return http.Header{"X-Remote-User": {user}, "X-Name": {"Ann A."}, "X-Groups": {groups},
			signin.ProxySecretHeader: {secret}}
	}
	for _, c := range []struct {
		from   string
		header http.Header
		want   string // role with its scope; empty: no identity
	}{
		{"10.1.2.3", field("ann", "", "shared"), "depositor"},
		{"10.1.2.3", field("ann", "staff;curators", "shared"), "operator:maps,photos"},
		{"10.1.2.3", field("ann", "x; cn=it,ou=groups", "shared"), "admin"},
		{"10.1.2.3", field("ann", `a\;cn=it,ou=groups`, "shared"), "depositor"}, // one group, as Shibboleth writes it
		{"10.1.2.3", field("ann", `a\;b;cn=it,ou=groups`, "shared"), "admin"},
		{"10.1.2.3", field("(null)", "", "shared"), ""}, // as Apache writes a variable that is not set
		{"10.2.2.3", field("ann", "", "shared"), ""},
		{"10.1.2.3", field("ann", "", "wrong"), ""},
		{"10.1.2.3", field("", "", "shared"), ""},
		{"10.1.2.3", field("a b", "", "shared"), ""},
		{"10.1.2.3", field("unknown", "", "shared"), ""},
		{"10.1.2.3", field("Jose\u0301", "", "shared"), ""},
		{"10.1.2.3", http.Header{"X-Remote-User": {"ann", "eve"}, signin.ProxySecretHeader: {"shared"}}, ""},
		{"127.0.0.1", http.Header{"X-Remote-User": {"ann"}}, ""},
	} {
		who, err := p.Identify(recorded(t, c.from, c.header))
		got := ""
		if err == nil {
			got = identity.WriteScope(who.Role, who.Groups, "")
		}
		if got != c.want || err == nil && (who.Name != "ann" || !p.Valid(&who)) {
			t.Errorf("%s %v: got %q, %v, want %q", c.from, c.header, got, err, c.want)
		}
	}
	nameless := field("ann", "", "shared")
	nameless.Set("X-Name", "(null)")
	if who, err := p.Identify(recorded(t, "10.1.2.3", nameless)); err != nil || who.Display != "" {
		t.Errorf("a name that is not set: got %q, %v", who.Display, err)
	}
	p.Rules = rules[:2]
	if _, err := p.Identify(recorded(t, "10.1.2.3", field("ann", "", "shared"))); err == nil {
		t.Error("a person without a role is admitted")
	}
	for _, wrong := range []signin.Proxy{{User: "X", Rules: rules}, {Secret: "s", Rules: rules},
		{User: "X", Secret: "s"}} {
		if wrong.Validate() == nil {
			t.Errorf("%+v was accepted", wrong.User)
		}
	}
}

// TestProxyNamesPeople: each person behind the proxy sees its own jobs.
func TestProxyNamesPeople(t *testing.T) {
	rules, _ := signin.ReadRules("depositor=*")
	h := open(t, nil, &signin.Proxy{User: "X-Remote-User", Secret: "shared", Rules: rules})
	as := func(user, path string) int {
		r := h.Request(http.MethodGet, path, "")
		r.Header.Set("X-Remote-User", user)
		r.Header.Set(signin.ProxySecretHeader, "shared")
		answer, _ := h.Ask(r)
		return answer.StatusCode
	}
	path := "/api/v1/jobs/" + string(h.letterOf("ann"))
	if own, foreign := as("ann", path), as("bob", path); own != http.StatusOK || foreign != http.StatusNotFound {
		t.Errorf("got %d for the owner and %d for another person", own, foreign)
	}
}

// TestLimitedPageKeepsTheName: a browser that is limited gets the page of sign-in with the name and the time to wait,
// and never with the password. Programs get the problem.
func TestLimitedPageKeepsTheName(t *testing.T) {
	h := open(t, nil)
	form := url.Values{"name": {"oscar"}, "password": {"a wrong one"}, "next": {"/jobs"}}
	for range 10 {
		h.post(server.SignInPath, nil, form)
	}
	r := h.Request(http.MethodPost, server.SignInPath, form.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, page := h.AskPage(r)
	for _, want := range []string{`value="oscar"`, `value="/jobs"`, "too many attempts", "in " +
		answer.Header.Get("Retry-After") + " s"} {
		if answer.StatusCode != http.StatusTooManyRequests || !strings.Contains(page, want) ||
			strings.Contains(page, "a wrong one") {
			t.Errorf("got %s without %q: %s", answer.Status, want, page)
		}
	}
	if answer := h.post(server.SignInPath, nil, form); answer.StatusCode != http.StatusTooManyRequests ||
		answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a program: got %s", answer.Status)
	}
}

package signin_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/signin"
)

// browser keeps cookies as a browser does, and has several tabs.
type browser struct {
	*harness
	p    *provider
	kept map[string]*http.Cookie
}

func (b *browser) get(path string) (*http.Response, string) {
	b.T.Helper()
	r := b.Request(http.MethodGet, path, "")
	for _, c := range b.kept {
		r.AddCookie(c)
	}
	answer, text := b.Ask(r)
	for _, c := range answer.Cookies() {
		if b.kept[c.Name] = c; c.MaxAge < 0 {
			delete(b.kept, c.Name)
		}
	}
	return answer, text
}

// begin begins a sign-in in a tab and returns the callback.
func (b *browser) begin(next string) (callback string) {
	b.T.Helper()
	answer, text := b.get("/sign-in/oidc?next=" + url.QueryEscape(next))
	if answer.StatusCode != http.StatusSeeOther {
		b.T.Fatalf("got %s %s", answer.Status, text)
	}
	code, asked := b.p.authorize(answer.Header.Get("Location"))
	return signin.CallbackPath + "?" + url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode()
}

// finish follows a callback and checks where the browser is sent.
func (b *browser) finish(callback, want string) {
	b.T.Helper()
	answer, text := b.get(callback)
	if got := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || got != want {
		b.T.Errorf("got %s to %q, want %q: %s", answer.Status, got, want, text)
	}
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	h, p := openOIDC(t)
	return &browser{h, p, map[string]*http.Cookie{}}
}

// TestTwoTabs: sign-ins that two tabs begin do not disturb each other, in whatever order they end, and neither does a
// callback that was not begun here.
func TestTwoTabs(t *testing.T) {
	b := openBrowser(t)
	first, second := b.begin("/jobs"), b.begin("/holds")
	if answer, _ := b.get(signin.CallbackPath + "?code=x&state=forged"); answer.StatusCode != http.StatusForbidden ||
		len(answer.Cookies()) != 0 {
		t.Errorf("a forged callback: got %s, cookies %v", answer.Status, answer.Cookies())
	}
	b.finish(first, "/jobs")
	b.finish(second, "/holds")
	if len(b.kept) != 1 {
		t.Errorf("the browser has %v, want the session alone", b.kept)
	}
}

// TestPendingAreBounded: the sign-ins that one browser has begun are few and short, and the latest ones count.
func TestPendingAreBounded(t *testing.T) {
	b := openBrowser(t)
	var begun []string
	for i := range 8 {
		begun = append(begun, b.begin("/"+strconv.Itoa(i)))
		b.clock.Add(time.Second)
	}
	if len(b.kept) != 5 {
		t.Errorf("the browser has %d cookies, want 5", len(b.kept))
	}
	if answer, _ := b.get(begun[2]); answer.StatusCode != http.StatusForbidden {
		t.Errorf("the oldest but one: got %s", answer.Status)
	}
	b.finish(begun[3], "/3")
	b.finish(begun[7], "/7")
	long := b.begin("/" + strings.Repeat("&", 300))
	for _, c := range b.kept {
		if len(c.Value) > 1200 || c.MaxAge <= 0 {
			t.Errorf("%s has %d bytes and is kept for %d s", c.Name, len(c.Value), c.MaxAge)
		}
	}
	b.finish(long, "/")
}

// TestFailureKeepsNext: after a callback that fails the page of sign-in still leads to the page that was requested.
func TestFailureKeepsNext(t *testing.T) {
	for what, after := range map[string]func(b *browser){
		"&error=access_denied":      func(*browser) {},
		"&iss=https://evil.example": func(*browser) {},
		"&late=":                    func(b *browser) { b.clock.Add(11 * time.Minute) },
		"&roles=": func(b *browser) {
			b.p.claims = func(c map[string]any) { c["groups"] = "none" }
		},
	} {
		b := openBrowser(t)
		callback := b.begin("/jobs?state=Held")
		after(b)
		answer, text := b.get(callback + what)
		if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, `?next=%2fjobs%3fstate%3dHeld"`) {
			t.Errorf("%s: got %s %s", what, answer.Status, text)
		}
	}
}

// TestSuccessesAreNotLimited: sign-ins that succeed, however many from one address, exhaust no limit. They reset none
// either: guesses between them are limited as without them.
func TestSuccessesAreNotLimited(t *testing.T) {
	b := openBrowser(t)
	post := func(form url.Values) int { return b.post(server.SignInPath, nil, form).StatusCode }
	for i := range 16 { // of three ways
		b.finish(b.begin("/jobs"), "/jobs")
		for _, form := range []url.Values{{"token": {b.robot}}, {"name": {"ann"}, "password": {password}}} {
			if got := post(form); got != http.StatusSeeOther {
				t.Fatalf("round %d: got %d", i, got)
			}
		}
	}
	for _, c := range []struct {
		guess func(i int) url.Values
		want  int // attempts until they are limited
	}{
		{func(int) url.Values { return url.Values{"name": {"oscar"}, "password": {"a wrong one"}} }, 10},
		{func(i int) url.Values {
			return url.Values{"name": {"x" + strconv.Itoa(i)}, "password": {"a wrong one"}}
		}, 30},
		{func(int) url.Values { return url.Values{"token": {"stp_x"}} }, 10},
	} {
		b.clock.Add(time.Hour)
		own := func() bool { return post(url.Values{"token": {b.robot}}) == http.StatusSeeOther }
		n := 0
		for n < 50 && post(c.guess(n)) == http.StatusForbidden {
			if n++; n < c.want && !own() {
				t.Errorf("%v: the own sign-in after %d guesses is refused", c.guess(0), n)
			}
		}
		if n != c.want {
			t.Errorf("%v: %d guesses were possible, want %d", c.guess(0), n, c.want)
		}
	}
	b.clock.Add(time.Hour)
	for i := range 30 {
		if answer, _ := b.get(b.begin("/jobs") + "&error=access_denied"); answer.StatusCode != http.StatusForbidden {
			t.Fatalf("failure %d at the provider: got %s", i, answer.Status)
		}
	}
	if answer, _ := b.get("/sign-in/oidc?next=/"); answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("after 30 failures: got %s", answer.Status)
	}
}

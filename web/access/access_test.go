package access_test

import (
	"crypto/rand"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/server/token"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/access"
)

// pages are those of every server and those about access.
var pages = []servertest.PartOf{
	func(w *servertest.Harness) server.Part { return web.Part(w.Server) },
	func(w *servertest.Harness) server.Part { return access.Part(w.Server) },
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, map[string]string{"/tokens": "uoa", "/sessions": "a"}, nil,
		func(w *servertest.Harness) server.Part { return access.Part(w.Server) })
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

// TestTokens: a person sees its own tokens with their last use, and no other. Admins and auditors, who are the control,
// see all. No page has the text of a token.
func TestTokens(t *testing.T) {
	g := servertest.Guard(t, append(slices.Clip(pages), func(w *servertest.Harness) server.Part {
		tokens, _ := w.Server.Identities.(*token.Tokens)
		tokens.Note(token.NewUses(filepath.Join(t.TempDir(), token.UsesName)))
		app, err := signin.Open(signin.Options{Dir: t.TempDir(), Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		return signin.Part(w.Server, app)
	})...)
	short := func(secret string) string {
		s, err := token.Parse(secret)
		if err != nil {
			t.Fatal(err)
		}
		return s.Hash().String()[:16]
	}
	for role, secret := range g.Tokens {
		answer, page := g.AskPage(g.With(secret, http.MethodGet, "/tokens", ""))
		if may := role != identity.Worker; (answer.StatusCode == http.StatusOK) != may {
			t.Errorf("%s: got %s", role, answer.Status)
			continue
		} else if !may {
			continue
		}
		if !strings.Contains(page, short(secret)) || !strings.Contains(page, "<time") {
			t.Errorf("%s: the page lacks its own token and its last use: %s", role, page)
		}
		if all := role == identity.Admin || role == identity.Auditor; strings.Contains(page, short(g.Bob)) != all ||
			strings.Contains(page, "<bdi>bob</bdi>") != all {
			t.Errorf("%s: it sees the token of another: %v", role, !all)
		}
		if strings.Contains(page, token.Prefix) {
			t.Errorf("%s: the page has a token", role)
		}
	}
	if answer, page := g.AskPage(g.With("", http.MethodGet, "/tokens", "")); answer.StatusCode !=
		http.StatusUnauthorized || strings.Contains(page, short(g.Bob)) {
		t.Errorf("without a token: got %s", answer.Status)
	}
}

// TestRevokeForm: a person revokes its own token by the form of the page, and an admin that of another. An auditor, who
// changes nothing, has no form; a form that names the token of another is refused.
func TestRevokeForm(t *testing.T) {
	g := servertest.Guard(t, append(slices.Clip(pages), func(w *servertest.Harness) server.Part {
		tokens, _ := w.Server.Identities.(*token.Tokens)
		app, err := signin.Open(signin.Options{Dir: t.TempDir(), Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		return signin.Part(w.Server, app)
	})...)
	hash := func(secret string) string {
		s, err := token.Parse(secret)
		if err != nil {
			t.Fatal(err)
		}
		return s.Hash().String()
	}
	ann, admin := g.Tokens[identity.Depositor], g.Tokens[identity.Admin]
	for role, forms := range map[identity.Role]int{identity.Depositor: 1, identity.Operator: 1, identity.Auditor: 0,
		identity.Admin: len(g.Tokens) + 1} {
		_, page := g.AskPage(g.With(g.Tokens[role], http.MethodGet, "/tokens", ""))
		if got := strings.Count(page, `action="/tokens/revoke"`); got != forms {
			t.Errorf("%s: %d forms, want %d", role, got, forms)
		}
	}
	revoke := func(by, of string) int {
		r := g.Form("/tokens/revoke", "note", "leaked", "hash", hash(of))
		r.Header.Set("Authorization", "Bearer "+by)
		answer, _ := g.AskPage(r)
		return answer.StatusCode
	}
	if got := revoke(ann, g.Bob); got != http.StatusNotFound {
		t.Errorf("the token of another: got %d", got)
	}
	for _, c := range [][2]string{{admin, g.Bob}, {ann, ann}} {
		if got := revoke(c[0], c[1]); got != http.StatusSeeOther {
			t.Errorf("got %d", got)
		}
		if answer, _ := g.Ask(g.With(c[1], http.MethodGet, "/api/v1/session/tokens", "")); answer.StatusCode !=
			http.StatusUnauthorized {
			t.Errorf("the revoked token: got %s", answer.Status)
		}
	}
	if answer, _ := g.Ask(g.With(admin, http.MethodGet, "/api/v1/session/tokens", "")); answer.StatusCode !=
		http.StatusOK {
		t.Errorf("control: the token of the admin: got %s", answer.Status)
	}
}

// TestSessionsPage: an admin sees the sessions with a form that ends each. A session that was ended by the form is
// refused; that of the admin, which is the control, is not.
func TestSessionsPage(t *testing.T) {
	w := signInByToken(t, nil)
	cookies := map[string]*http.Cookie{}
	for owner, secret := range w.secrets {
		answer, _ := w.Ask(w.Form(server.SignInPath, "token", secret, "next", "/mine"))
		if len(answer.Cookies()) == 0 {
			t.Fatalf("%s does not sign in: %s", owner, answer.Status)
		}
		cookies[owner] = answer.Cookies()[0]
	}
	as := func(owner string, r *http.Request) (int, string) {
		r.AddCookie(cookies[owner])
		answer, text := w.AskPage(r)
		return answer.StatusCode, text
	}
	if status, _ := as("ben", w.Request(http.MethodGet, "/sessions", "")); status != http.StatusForbidden {
		t.Errorf("an operator: got %d", status)
	}
	_, page := as("ada", w.Request(http.MethodGet, "/sessions", ""))
	key := regexp.MustCompile(`(?s)<bdi>ben</bdi>.*?name="key" value="([0-9a-f]{64})"`).FindStringSubmatch(page)
	if strings.Count(page, `action="/sessions/end"`) != 3 || key == nil {
		t.Fatalf("the page: %s", page)
	}
	if status, _ := as("ann", w.Form("/sessions/end", "key", key[1])); status != http.StatusForbidden {
		t.Errorf("a depositor ends a session: got %d", status)
	}
	if status, _ := as("ada", w.Form("/sessions/end", "key", key[1], "note", "lost")); status !=
		http.StatusSeeOther {
		t.Errorf("got %d", status)
	}
	for owner, want := range map[string]int{"ben": http.StatusSeeOther, "ada": http.StatusOK} {
		if status, _ := as(owner, w.Request(http.MethodGet, "/mine", "")); status != want {
			t.Errorf("%s afterwards: got %d, want %d", owner, status, want)
		}
	}
}

// TestBrowserTokens runs scripts/browser/tokens.mjs against a server to which people sign in with tokens. Comments are
// hostile.
func TestBrowserTokens(t *testing.T) {
	const comment = hostile
	w := signInByToken(t, map[string]string{"ann": comment, "ben": comment, "ada": comment})
	w.Browser(t, "tokens.mjs", map[string]any{"secrets": w.secrets, "digits": w.digits, "hostile": comment})
}

// TestScreenshots takes the screenshots of docs/ that need a sign-in.
func TestScreenshots(t *testing.T) {
	w := signInByToken(t, map[string]string{"ann": "scripts of the map library", "ben": "nightly check of the queues",
		"ada": "laptop of Ada"})
	w.ShotsAs(t, "", "web-sign-in=/sign-in")
	w.ShotsAs(t, w.secrets["ada"], "web-tokens=/tokens", "web-sessions=/sessions")
}

// tokenServer is a server to which people sign in with tokens: ann, a depositor, ben, an operator, and ada, an admin.
type tokenServer struct {
	*servertest.Harness
	secrets, digits map[string]string // by owner
}

// signInByToken starts one. comments are those of the tokens, by owner.
func signInByToken(t *testing.T, comments map[string]string) tokenServer {
	t.Helper()
	dir := t.TempDir()
	file, all := filepath.Join(dir, "tokens"), tokenServer{secrets: map[string]string{}, digits: map[string]string{}}
	for owner, role := range map[string]identity.Role{"ann": identity.Depositor, "ben": identity.Operator,
		"ada": identity.Admin} {
		s, err := token.New(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		e := token.Entry{Hash: s.Hash(), Role: role, Owner: owner, Comment: comments[owner]}
		if owner == "ann" {
			e.Expires = time.Now().Add(24 * time.Hour)
		}
		if err := token.Add(file, e); err != nil {
			t.Fatal(err)
		}
		all.secrets[owner], all.digits[owner] = s.Reveal(), s.Hash().String()[:16]
	}
	tokens, err := token.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	tokens.Note(token.NewUses(filepath.Join(dir, token.UsesName)))
	app, err := signin.Open(signin.Options{Dir: filepath.Join(dir, "sessions"), Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	all.Harness = servertest.Open(t, func(o *server.Options) {
		o.Identities, o.SignIn = identity.Sources{tokens, app}, true
	}, nil, append(slices.Clip(pages), func(w *servertest.Harness) server.Part {
		return signin.Part(w.Server, app)
	})...)
	return all
}

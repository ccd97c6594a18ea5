package web_test

import (
	"crypto/rand"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/server/token"
)

// TestTokens: a person sees its own tokens with their last use, and no other. Admins and auditors, who are the control,
// see all. No page has the text of a token.
func TestTokens(t *testing.T) {
	g := servertest.Guard(t, part, func(w *servertest.Harness) server.Part {
		tokens, _ := w.Server.Identities.(*token.Tokens)
		tokens.Note(token.NewUses(filepath.Join(t.TempDir(), token.UsesName)))
		app, err := signin.Open(signin.Options{Dir: t.TempDir(), Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		return signin.Part(w.Server, app)
	})
	short := func(secret string) string {
		s, err := token.Parse(secret)
		if err != nil {
			t.Fatal(err)
		}
		return s.Hash().String()[:16]
	}
	for role, secret := range g.Tokens {
		answer, page := browser(g.Harness, g.With(secret, http.MethodGet, "/tokens", ""))
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
	if answer, page := browser(g.Harness, g.With("", http.MethodGet, "/tokens", "")); answer.StatusCode !=
		http.StatusUnauthorized || strings.Contains(page, short(g.Bob)) {
		t.Errorf("without a token: got %s", answer.Status)
	}
}

// TestBrowserTokens runs scripts/browser/tokens.mjs against a server to which people sign in with tokens. Comments are
// hostile.
func TestBrowserTokens(t *testing.T) {
	dir := t.TempDir()
	file, comment := filepath.Join(dir, "tokens"), strings.TrimRight(hostile, "\u202e")
	secrets, digits := map[string]string{}, map[string]string{}
	for owner, role := range map[string]identity.Role{"ann": identity.Depositor, "ben": identity.Operator,
		"ada": identity.Admin} {
		s, err := token.New(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		e := token.Entry{Hash: s.Hash(), Role: role, Owner: owner, Comment: comment}
		if owner == "ann" {
			e.Expires = time.Now().Add(24 * time.Hour)
		}
		if err := token.Add(file, e); err != nil {
			t.Fatal(err)
		}
		secrets[owner], digits[owner] = s.Reveal(), s.Hash().String()[:16]
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
	w := servertest.Open(t, func(o *server.Options) {
		o.Identities, o.SignIn = identity.Sources{tokens, app}, true
	}, nil, part, func(w *servertest.Harness) server.Part { return signin.Part(w.Server, app) })
	w.Browser(t, "tokens.mjs", map[string]any{"secrets": secrets, "digits": digits, "hostile": comment})
}

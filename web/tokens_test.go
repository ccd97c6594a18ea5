package web_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

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

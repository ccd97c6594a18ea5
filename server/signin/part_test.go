package signin_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/server/token"
)

// allowed has who may use the routes of sign-in.
var allowed = map[string]string{"/sign-in": "*", "/sign-out": "*", "/api/v1/session": "*",
	"/api/v1/session/tokens": "uoa", "/api/v1/admin/": "a"}

func TestRoutes(t *testing.T) {
	app, err := signin.Open(signin.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	part := func(w *servertest.Harness) server.Part { return signin.Part(w.Server, app) }
	servertest.CheckPart(t, allowed, map[string]any{"DELETE /api/v1/admin/sessions/{key}": nil,
		"DELETE /api/v1/admin/tokens/{hash}": nil, "DELETE /api/v1/session/tokens/{hash}": nil}, part)
}

// TestTokensAreListed: an admin sees the tokens with their last use, and no text of one.
func TestTokensAreListed(t *testing.T) {
	h := open(t, nil)
	uses := token.NewUses(filepath.Join(t.TempDir(), token.UsesName))
	h.noted.Note(uses)
	admin := h.addToken(t, "root", identity.Admin)
	list := func() (all api.Tokens) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); { // the file is read within a second
			r := h.Request(http.MethodGet, "/api/v1/admin/tokens", "")
			r.Header.Set("Authorization", "Bearer "+admin)
			answer, text := h.Ask(r)
			if answer.StatusCode == http.StatusUnauthorized {
				continue
			}
			if err := json.Unmarshal([]byte(text), &all); err != nil || strings.Contains(text, token.Prefix) {
				t.Fatalf("%v: %s", err, text)
			}
			return all
		}
		t.Fatal("the token is not accepted")
		return all
	}
	used := map[string]bool{}
	for _, one := range list().Tokens {
		used[one.Owner] = !one.Used.IsZero()
	}
	if len(used) != 3 || !used["root"] || used["robot"] || used["node"] {
		t.Errorf("got %v, want root's used alone", used)
	}
}

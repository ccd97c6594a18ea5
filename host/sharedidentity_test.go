package host

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// TestSharedIdentity: a session that begins at one server counts at the other one, and ends at both with its token,
// within moments. Control: another session and its token remain.
func TestSharedIdentity(t *testing.T) {
	store, shared := newDatabase(t), t.TempDir()
	tokens := filepath.Join(shared, "tokens")
	revoked, kept := newToken(t, tokens), newToken(t, tokens)
	var servers []*Server
	for range 2 {
		s := NewSettings()
		s.Data, s.Listen, s.Store, s.Shared, s.Tokens = t.TempDir(), "127.0.0.1:0", store, shared, tokens
		r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		})
		servers = append(servers, r)
	}
	browsers := map[string]string{}
	for _, secret := range []string{revoked, kept} {
		browsers[secret] = signInAt(t, servers[0], secret)
	}
	status := func(r *Server, secret, cookie string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+"/api/v1/counts", nil)
		if err != nil {
			t.Fatal(err)
		}
		if cookie == "" {
			q.Header.Set("Authorization", "Bearer "+secret)
		} else {
			q.Header.Set("Cookie", cookie)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	all := func(secret string, want int) {
		t.Helper()
		for i, r := range servers {
			for what, cookie := range map[string]string{"token": "", "session": browsers[secret]} {
				end := time.Now().Add(time.Minute)
				for got := 0; got != want; got = status(r, secret, cookie) { // files are read again within a second
					if time.Now().After(end) {
						t.Fatalf("%s at server %d: got %d, want %d", what, i, got, want)
					}
				}
			}
		}
	}
	all(revoked, http.StatusOK)
	parsed, err := token.Parse(revoked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := token.Revoke(tokens, parsed.Hash().String(), time.Now(), "olga"); err != nil {
		t.Fatal(err)
	}
	all(revoked, http.StatusUnauthorized)
	all(kept, http.StatusOK)
}

// newToken adds the token of an admin to a file.
func newToken(t *testing.T, file string) string {
	t.Helper()
	secret, err := token.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.Add(file, token.Entry{Hash: secret.Hash(), Role: identity.Admin, Owner: "ann"}); err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// signInAt begins a session by a token, and returns its cookie.
func signInAt(t *testing.T, r *Server, secret string) string {
	t.Helper()
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	browser := &http.Client{CheckRedirect: stay}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+server.SignInPath,
		strings.NewReader(url.Values{"token": {secret}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := browser.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	for _, c := range answer.Cookies() {
		if c.Value != "" {
			return c.Name + "=" + c.Value
		}
	}
	t.Fatalf("no session: %s", answer.Status)
	return ""
}

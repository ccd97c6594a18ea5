package signin_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/signin"
)

// TestTakenNames: a provider that names a person as a local user or the owner of a token does not sign it in as such,
// unless equal names are the same person.
func TestTakenNames(t *testing.T) {
	for name, what := range map[string]string{"ann": "of a local user", "robot": "of the owner of a token",
		"olga": ""} {
		for _, shared := range []bool{false, true} {
			var log bytes.Buffer
			h, p := openOIDC(t, func(o *signin.Options) {
				o.SharedNames, o.Log = shared, slog.New(slog.NewTextHandler(&log, nil))
			})
			p.claims = func(c map[string]any) { c["preferred_username"], c["sub"] = name, "another" }
			callback, kept := h.browse(p)
			answer, text := h.back(callback, kept)
			if what == "" || shared {
				if answer.StatusCode != http.StatusSeeOther || log.Len() > 0 {
					t.Errorf("%s, shared %v: got %s %s", name, shared, answer.Status, log.String())
				}
				continue
			}
			failed := h.audited("sign-in-failed")
			if answer.StatusCode != http.StatusForbidden || !strings.Contains(text, what) ||
				!strings.Contains(log.String(), what) || len(failed) != 1 || failed[0].Actor != name {
				t.Errorf("%s: got %s %s, log %q, audited %v", name, answer.Status, text, log.String(), failed)
			}
		}
	}
}

// TestNameIsTakenLater: the session of a person of a provider ends when an admin gives its name to a local user, also
// if that one is disabled. While the users cannot be read no new session begins, and the open ones stay.
func TestNameIsTakenLater(t *testing.T) {
	h, p := openOIDC(t)
	callback, kept := h.browse(p)
	answer, _ := h.back(callback, kept)
	c := cookieOf(t, answer)
	if err := os.WriteFile(h.users, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(2 * time.Second)
	if got := h.status(http.MethodGet, "/api/v1/counts", c); got != http.StatusOK {
		t.Errorf("the open session: got %d", got)
	}
	callback, kept = h.browse(p)
	if answer, _ := h.back(callback, kept); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new session: got %s", answer.Status)
	}
	if err := os.WriteFile(h.users, []byte("olga depositor !-\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(2 * time.Second)
	if got := h.status(http.MethodGet, "/api/v1/counts", c); got != http.StatusUnauthorized {
		t.Errorf("the session when there is a user of the name: got %d", got)
	}
}

// TestProxyOfTakenNames: a proxy that names a person as a local user or the owner of a token is refused. A browser is
// sent to the page of sign-in, which has the reason, and the log has it once.
func TestProxyOfTakenNames(t *testing.T) {
	rules, _ := signin.ReadRules("depositor=*")
	var log bytes.Buffer
	p := &signin.Proxy{User: "X-Remote-User", Secret: "shared", Rules: rules}
	h := open(t, func(o *signin.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }, p)
	p.Names = h.app.Names()
	as := func(user, path string) (*http.Response, string) {
		r := h.Request(http.MethodGet, path, "")
		r.Header.Set("X-Remote-User", user)
		r.Header.Set(signin.ProxySecretHeader, "shared")
		return h.Ask(r)
	}
	for _, name := range []string{"ann", "robot"} {
		if answer, text := as(name, "/api/v1/jobs"); answer.StatusCode != http.StatusUnauthorized ||
			!strings.Contains(text, "names.shared") {
			t.Errorf("%s: got %s %s", name, answer.Status, text)
		}
		if _, text := as(name, server.SignInPath); !strings.Contains(text, "names.shared") {
			t.Errorf("%s: the page of sign-in has no reason: %s", name, text)
		}
	}
	if answer, _ := as("zoe", "/api/v1/jobs"); answer.StatusCode != http.StatusOK {
		t.Errorf("another name: got %s", answer.Status)
	}
	if n := strings.Count(log.String(), "is refused"); n != 2 {
		t.Errorf("the log has %d lines, want one for each name: %s", n, log.String())
	}
	p.Names = nil
	if answer, _ := as("ann", "/api/v1/jobs"); answer.StatusCode != http.StatusOK {
		t.Errorf("shared names: got %s", answer.Status)
	}
}

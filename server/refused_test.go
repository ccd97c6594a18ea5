package server_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// buffer is a log that requests write concurrently.
type buffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// refused returns the lines about refused requests, and forgets them.
func (b *buffer) refused(t *testing.T) (all []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		one := map[string]any{}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if one["msg"] == "refused" {
			all = append(all, one)
		}
	}
	b.text.Reset()
	return all
}

// logged starts a server with tokens whose log is kept.
func logged(t *testing.T) (*servertest.Guarded, *buffer) {
	log := &buffer{}
	return servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) {
		o.Log = slog.New(slog.NewJSONHandler(log, nil))
		behindProxy(o)
		o.RateAddress = 1
	}), log
}

// TestRefusedRequestsAreLogged: a wrong token, a route of another role, a job of another person and a page of another
// origin are in the log with their sender. The controls are a request without a token, a job that does not exist and a
// request that is allowed.
func TestRefusedRequestsAreLogged(t *testing.T) {
	g, log := logged(t)
	ann, wrong := g.Tokens[identity.Depositor], "stagepost_wrong-token"
	foreign := g.Post(engine.Order{Owner: "bob"}).ID
	for _, c := range []struct {
		name, secret, method, path, origin string
		actor                              any // of the line; nil: unknown
		logged                             bool
	}{
		{"wrong token", wrong, "GET", "/api/v1/jobs", "", nil, true},
		{"no token", "", "GET", "/api/v1/jobs", "", nil, false},
		{"role", ann, "GET", "/api/v1/outbox", "", "ann", true},
		{"foreign job", ann, "GET", "/api/v1/jobs/" + string(foreign), "", "ann", true},
		{"foreign job by name", ann, "GET", "/api/v1/lookup?name=" + string(foreign), "", "ann", true},
		{"no job", ann, "GET", "/api/v1/jobs/let_nobody", "", "ann", false},
		{"own jobs", ann, "GET", "/api/v1/jobs", "", "ann", false},
		{"other origin", ann, "POST", "/api/v1/holds", "https://example.org", nil, true},
		{"token in the path", ann, "GET", "/api/v1/jobs/" + ann, "", nil, true},
	} {
		r := g.With(c.secret, c.method, c.path, "")
		r.Header.Set("X-Forwarded-For", "192.0.2.7")
		if c.origin != "" {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Origin", c.origin)
		}
		answer, _ := g.Ask(r)
		all := log.refused(t)
		if !c.logged {
			if len(all) != 0 {
				t.Errorf("%s (%s): got %v", c.name, answer.Status, all)
			}
			continue
		}
		if len(all) != 1 || all[0]["actor"] != c.actor || all[0]["from"] != "192.0.2.7" ||
			all[0]["method"] != c.method {
			t.Errorf("%s (%s): got %v", c.name, answer.Status, all)
			continue
		}
		for field, value := range all[0] {
			if text, ok := value.(string); ok && (strings.Contains(text, ann) || strings.Contains(text, wrong)) {
				t.Errorf("%s: the token is in %s", c.name, field)
			}
		}
	}
}

// TestRefusedRequestsDoNotFillTheLog: one sender has a bounded number of lines, and all senders together have one.
func TestRefusedRequestsDoNotFillTheLog(t *testing.T) {
	g, log := logged(t)
	ask := func(address string) {
		t.Helper()
		r := g.With("stagepost_wrong-token", http.MethodGet, "/api/v1/jobs", "")
		r.Header.Set("X-Forwarded-For", address)
		g.Ask(r)
	}
	for range 50 {
		ask("192.0.2.7")
	}
	if n := len(log.refused(t)); n == 0 || n > 11 { // one more if the test takes a minute
		t.Errorf("one sender: got %d lines", n)
	}
	ask("192.0.2.8")
	if all := log.refused(t); len(all) != 1 || all[0]["suppressed"] != 40. {
		t.Errorf("another sender: got %v", all)
	}
	for i := range 200 {
		ask("2001:db8:0:" + string("0123456789abcdef"[i/16]) + string("0123456789abcdef"[i%16]) + "::1")
	}
	if n := len(log.refused(t)); n == 0 || n > 100 {
		t.Errorf("all senders: got %d lines", n)
	}
}

// TestOtherAddressesAreLimited: a handler that authenticates itself is limited as the routes are: by the identity, by
// the name that the handler gives, or by the address. The log has no path of a handler with credentials of its own.
func TestOtherAddressesAreLimited(t *testing.T) {
	g, log := logged(t)
	fine := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	sender := func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") }
	for name, h := range map[string]http.Handler{
		"identities": g.Server.UnderIdentities(fine), "limits": g.Server.UnderLimits(fine, sender),
	} {
		address := "192.0.2.1"
		if name == "limits" {
			address = "192.0.2.2"
		}
		ask := func(secret string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/credential/status", nil)
			r.RemoteAddr = address + ":1234"
			if secret != "" {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		last := ask("")
		for range 30 {
			last = ask("")
		}
		if last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" {
			t.Errorf("%s: without a token: got %d", name, last.Code)
		}
		if got := ask(g.Tokens[identity.Depositor]).Code; got != http.StatusOK {
			t.Errorf("%s: a sender with a token at the same address: got %d", name, got)
		}
		path := "/credential/status"
		if name == "limits" {
			path = "/***"
		}
		if all := log.refused(t); len(all) == 0 || all[0]["path"] != path {
			t.Errorf("%s: the log has %v", name, all)
		}
	}
}

package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
)

// revocable are two tokens, of which the first can be revoked: "Bearer going" and "Bearer staying".
type revocable struct {
	mu      sync.Mutex // guards revoked
	revoked bool
}

func (r *revocable) Identify(q *http.Request) (identity.Identity, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch who := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "); {
	case who == "going" && r.revoked:
		return identity.Identity{}, token.ErrUnknown
	case who == "going":
		return identity.Identity{Name: who, Role: identity.Admin, Key: identity.Key{1}}, nil
	default:
		return identity.Identity{Name: who, Role: identity.Admin, Key: identity.Key{2}}, nil
	}
}

func (r *revocable) Fault() error { return nil }

func (r *revocable) Valid(who *identity.Identity) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return who.Role == identity.Admin && (who.Key == identity.Key{2} || who.Key == identity.Key{1} && !r.revoked)
}

func (r *revocable) revoke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked = true
}

// hijacker takes connections over, as the tunnel of agents does.
type hijacker struct{ t *testing.T }

func (h hijacker) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		h.t.Error(err)
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
		"x\r\n\r\n"); err != nil {
		h.t.Error(err)
	}
}

// connect writes a request to a new connection, which it gives after the first line of the answer, or at once if there
// is none yet.
func connect(t *testing.T, base, head string, answered bool) net.Conn {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, strings.ReplaceAll(head, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	if answered {
		in := bufio.NewReaderSize(c, 16)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") &&
			!strings.Contains(line, " 101 ") {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	return c
}

// TestRevokedTokenEndsStreams opens whatever stays open with two tokens, and revokes one: its streams, polls, uploads
// and tunnels end, those of the other, the control, do not.
func TestRevokedTokenEndsStreams(t *testing.T) {
	tokens := &revocable{}
	w := servertest.Open(t, func(o *server.Options) { o.Identities = tokens }, nil,
		servertest.Handler("/tunnel", hijacker{t}), servertest.Uploads(func(context.Context) error { return nil }))
	id := string(w.Post(engine.Order{}).ID)
	aside := httptest.NewServer(w.Server.UnderIdentities(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})))
	t.Cleanup(aside.Close)
	waiting := map[string]net.Conn{}
	for _, who := range []string{"going", "staying"} {
		head := " HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer " + who + "\n"
		waiting["stream "+who] = connect(t, w.Web.URL, "GET /api/v1/jobs/"+id+"/events"+head+"\n", true)
		waiting["tunnel "+who] = connect(t, w.Web.URL, "GET /tunnel?agent="+who+head+"\n", true)
		waiting["other address "+who] = connect(t, aside.URL, "GET /x"+head+"\n", true)
		claim := `{"worker":"x","n":1,"wait":60,"from":[{"kind":"test.letter","state":"Riding"}]}`
		waiting["poll "+who] = connect(t, w.Web.URL,
			"POST /api/v1/worker/claim"+head+"Connection: close\nContent-Type: "+
				"application/json\nContent-Length: 79\n\n"+claim, false)
		if len(claim) != 79 {
			t.Fatalf("the claim has %d bytes", len(claim))
		}
		waiting["upload "+who] = connect(t, w.Web.URL,
			"POST /upload"+head+"Connection: close\nContent-Type: multipart/form-data; "+
				"boundary=B\nContent-Length: 1000000\n\n"+
				"--B\nContent-Disposition: form-data; name=\"payload\"\n\nbegun", false)
	}
	ended := make(chan string, len(waiting))
	for name, c := range waiting {
		go func() {
			_, err := io.Copy(io.Discard, c)
			if err == nil || !errors.Is(err, net.ErrClosed) {
				ended <- name
			}
		}()
	}
	tokens.revoke()
	for range len(waiting) / 2 {
		if name := <-ended; strings.HasSuffix(name, "staying") {
			t.Errorf("%s: it ended", name)
		}
	}
	if answer, _ := w.Ask(authorized(w, "staying", "/api/v1/jobs/"+id)); answer.StatusCode != http.StatusOK {
		t.Errorf("the other token: got %s", answer.Status)
	}
	if answer, _ := w.Ask(authorized(w, "going", "/api/v1/jobs/"+id)); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the revoked token: got %s", answer.Status)
	}
}

// TestChangedRoleEndsStreams: the event stream of a token ends when the token gets another role. The control is that of
// a token that stays as it was.
func TestChangedRoleEndsStreams(t *testing.T) {
	g := servertest.Guard(t)
	path := "/api/v1/jobs/" + string(g.Post(engine.Order{Owner: "bob"}).ID)
	ended := make(chan identity.Role, 2)
	for _, role := range []identity.Role{identity.Operator, identity.Admin} {
		c := connect(t, g.Web.URL, "GET "+path+"/events HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer "+
			g.Tokens[role]+"\n\n", true)
		go func() {
			if _, err := io.Copy(io.Discard, c); !errors.Is(err, net.ErrClosed) {
				ended <- role
			}
		}()
	}
	text, err := os.ReadFile(g.File)
	if err != nil {
		t.Fatal(err)
	}
	lowered := strings.ReplaceAll(string(text), " operator ", " depositor ")
	if err := errors.Join(os.WriteFile(g.File+".next", []byte(lowered), 0o600),
		os.Rename(g.File+".next", g.File)); err != nil {
		t.Fatal(err)
	}
	if role := <-ended; role != identity.Operator {
		t.Errorf("the stream of the %s ended", role)
	}
	answer, _ := g.Ask(g.With(g.Tokens[identity.Operator], http.MethodGet, path, ""))
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("the job of another person: got %s", answer.Status)
	}
	select {
	case role := <-ended:
		t.Errorf("the stream of the %s ended, too", role)
	default:
	}
}

func authorized(w *servertest.Harness, who, path string) *http.Request {
	r := w.Request(http.MethodGet, path, "")
	r.Header.Set("Authorization", "Bearer "+who)
	return r
}

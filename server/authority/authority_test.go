package authority_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/client/credential"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/authority"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/servertest"
)

// harness is a server with an authority, at an address with TLS.
type harness struct {
	*servertest.Harness
	t     *testing.T
	dir   string
	url   string
	clock *servertest.Clock
	front atomic.Pointer[func(http.ResponseWriter) (answered bool)] // answers before the server; nil: nothing does
}

func open(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, dir: t.TempDir(), clock: servertest.NewClock()}
	if err := authority.Init(h.dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	a, err := authority.Open(authority.Options{Dir: h.dir, Now: h.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	h.Harness = servertest.Open(t, func(o *server.Options) { o.Identities = a }, nil,
		func(w *servertest.Harness) server.Part { return authority.Part(w.Server, a) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := listen.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front := h.front.Load(); front == nil || !(*front)(w) {
			h.Server.ServeHTTP(w, r)
		}
	}), servertest.Discard)
	go func() { _ = web.Serve(a.Secure(l)) }()
	t.Cleanup(func() { _ = web.Close() })
	h.url = "https://" + l.Addr().String()
	return h
}

// token makes an enrolment token of a worker that may claim posted letters.
func (h *harness) token(name string) string {
	h.t.Helper()
	text, err := authority.Enrol(h.dir, authority.Member{Name: name, Work: "test.letter/Posted"}, authority.By{},
		h.clock.Now(), h.clock.Now().Add(time.Hour))
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}

// enrol gets the certificate of a worker and returns the directory that has it.
func (h *harness) enrol(name string) string {
	h.t.Helper()
	dir := h.t.TempDir()
	got, _, err := credential.Enrol(h.t.Context(), h.url, h.token(name), dir)
	if err != nil || got != name {
		h.t.Fatalf("got %q, %v", got, err)
	}
	return dir
}

// worker returns the client of a directory with a certificate.
func (h *harness) worker(dir string) *client.Client {
	h.t.Helper()
	c, err := credential.Open(dir, h.clock.Now)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.client(c)
}

func (h *harness) client(t http.RoundTripper) *client.Client {
	h.t.Helper()
	c, err := client.New(h.url, client.Options{HTTP: &http.Client{Transport: t}, Patience: -1})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// claim claims a letter in the name of a worker.
func claim(c *client.Client, name string) ([]api.Leased, error) {
	return c.Claim(context.Background(), api.Claim{Worker: name, N: 1, Lease: 60,
		From: []job.KindState{{Kind: "test.letter", State: "Posted"}}})
}

func (h *harness) audited(event, actor string) (n int) {
	h.t.Helper()
	all, err := h.Store().Audit(h.t.Context(), 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, a := range all {
		if string(a.Event) == event && a.Actor == actor && a.Address == "127.0.0.1" {
			n++
		}
	}
	return n
}

// TestEnrolledWorker: a worker exchanges its token for a certificate and claims under the name that this has, whatever
// name the request has, and only what it names. The control is a request without a certificate.
func TestEnrolledWorker(t *testing.T) {
	h := open(t)
	h.Post(engine.Order{})
	dir := h.enrol("lab-1")
	c := h.worker(dir)
	jobs, err := claim(c, "lab-2")
	if err != nil || len(jobs) != 1 {
		t.Fatalf("got %v, %v", jobs, err)
	}
	if j, err := h.Store().Get(t.Context(), jobs[0].ID); err != nil || j.Worker != "lab-1" {
		t.Errorf("the claim is of %q, %v; want lab-1, whose certificate it is", j.Worker, err)
	}
	if _, err := c.Claim(t.Context(), api.Claim{Worker: "lab-1", N: 1, Lease: 60,
		From: []job.KindState{{Kind: "test.letter", State: "Riding"}}}); job.KindOf(err) != job.Refused {
		t.Errorf("a state that the certificate does not name: %v", err)
	}
	if _, err := c.Jobs(t.Context(), job.Query{}); job.KindOf(err) != job.Refused {
		t.Errorf("a worker lists jobs: %v", err)
	}
	roots, err := credential.Roots(filepath.Join(dir, "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	anonymous := h.client(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}})
	if _, err := claim(anonymous, "lab-1"); client.ProblemOf(err) == nil ||
		client.ProblemOf(err).Status != http.StatusUnauthorized {
		t.Errorf("without a certificate: %v", err)
	}
	if h.audited("enrol", "lab-1") != 1 {
		t.Error("the enrolment is not in the audit log with its address")
	}
	for _, file := range []string{"ca.key", "members"} {
		info, err := os.Stat(filepath.Join(h.dir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "credential.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("credential.pem: %v, %v", info, err)
	}
}

// TestEnrolmentTokenIsSingleUse: a token is exchanged once, also by many at once, and not after it has expired, after
// its worker was revoked, or at another authority. The control is the first exchange.
func TestEnrolmentTokenIsSingleUse(t *testing.T) {
	h := open(t)
	text := h.token("lab-1")
	var taken sync.WaitGroup
	results := make(chan error, 8)
	for range 8 {
		taken.Go(func() {
			_, _, err := credential.Enrol(t.Context(), h.url, text, t.TempDir())
			results <- err
		})
	}
	taken.Wait()
	close(results)
	good := 0
	for err := range results {
		if err == nil {
			good++
		} else if job.KindOf(err) != job.Refused {
			t.Errorf("a second exchange: %v", err)
		}
	}
	if good != 1 {
		t.Errorf("the token was exchanged %d times", good)
	}
	if h.audited("enrol-failed", "unknown") != 7 {
		t.Errorf("%d refused exchanges are in the audit log, want 7", h.audited("enrol-failed", "unknown"))
	}
	revoked, expired := h.token("lab-2"), h.token("lab-3")
	if _, err := authority.Revoke(h.dir, "lab-2", authority.By{}, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(time.Hour)
	for name, text := range map[string]string{"revoked": revoked, "expired": expired} {
		if _, _, err := credential.Enrol(t.Context(), h.url, text, t.TempDir()); job.KindOf(err) != job.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEnrolmentNeedsTheAuthority: a client sends its token only to a server with a certificate of the authority that
// made it.
func TestEnrolmentNeedsTheAuthority(t *testing.T) {
	h, other := open(t), open(t)
	text := h.token("lab-1")
	if _, _, err := credential.Enrol(t.Context(), other.url, text, t.TempDir()); !errors.Is(err, credential.ErrPin) {
		t.Errorf("another authority: %v", err)
	}
	if _, _, err := credential.Enrol(t.Context(), strings.Replace(h.url, "https", "http", 1), text,
		t.TempDir()); job.KindOf(err) != job.Invalid {
		t.Errorf("without TLS: %v", err)
	}
	if _, _, err := credential.Enrol(t.Context(), h.url, text, t.TempDir()); err != nil { // it was not used
		t.Errorf("the control: %v", err)
	}
}

// TestCertificatesThatAreRefused: an expired one, one of another authority, one that the list does not have, a revoked
// one, and TLS 1.2. The control is the same request with a certificate that is valid.
func TestCertificatesThatAreRefused(t *testing.T) {
	h, other := open(t), open(t)
	good, gone, unlisted := h.worker(h.enrol("good")), h.worker(h.enrol("gone")), h.worker(h.enrol("unlisted"))
	foreign := other.enrol("good")
	for name, c := range map[string]*client.Client{"good": good, "gone": gone, "unlisted": unlisted} {
		if _, err := claim(c, name); err != nil {
			t.Fatalf("the control, %s: %v", name, err)
		}
	}

	if _, err := authority.Revoke(h.dir, "gone", authority.By{}, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(gone, "gone"); client.ProblemOf(err) == nil || // at once, over the connection that was open
		!strings.Contains(err.Error(), "revoked") {
		t.Errorf("revoked: %v", err)
	}
	if _, err := claim(good, "good"); err != nil {
		t.Errorf("another one was revoked: %v", err)
	}

	file := filepath.Join(foreign, "credential.pem")
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.ReadCertificate(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	wrong := h.client(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, GetClientCertificate: func(
		*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &pair, nil
	}}})
	if _, err := claim(wrong, "good"); err == nil || client.ProblemOf(err) != nil {
		t.Errorf("a certificate of another authority: %v", err)
	}
	own, err := os.ReadFile(filepath.Join(h.dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "authority.pem"), own, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "a certificate of another authority", func() error {
		_, err := claim(h.worker(foreign), "good")
		return err
	})

	for _, most := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(h.url, "https://"),
			&tls.Config{RootCAs: roots, MaxVersion: most})
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != (most == tls.VersionTLS13) {
			t.Errorf("TLS version %#x: %v", most, err)
		}
	}

	members := filepath.Join(h.dir, "members")
	text, err := os.ReadFile(members)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(members, []byte("{}\n"), 0o600); err != nil { // as a backup from before would have it
		t.Fatal(err)
	}
	if _, err := claim(unlisted, "unlisted"); client.ProblemOf(err) == nil {
		t.Errorf("not in the list: %v", err)
	}
	if err := os.WriteFile(members, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(good, "good"); job.KindOf(err) != job.Unavailable {
		t.Errorf("a list that cannot be read: %v", err)
	}
	if err := os.WriteFile(members, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(good, "good"); err != nil {
		t.Errorf("the list is back: %v", err)
	}

	h.clock.Add(24*time.Hour + time.Second)
	if _, err := claim(good, "good"); client.ProblemOf(err) == nil { // over the connection that was open
		t.Errorf("expired: %v", err)
	}
	good.Close()
	if _, err := claim(good, "good"); err == nil || client.ProblemOf(err) != nil { // a new one
		t.Errorf("a connection with an expired certificate: %v", err)
	}
	refused(t, "a connection with an expired certificate", func() error {
		_, err := claim(good, "good")
		return err
	})
}

// refused repeats a request until it ends with a refusal that states the next step. The alert of TLS 1.3 may be lost
// when the server closes the connection, which a worker tries again.
func refused(t *testing.T, what string, request func() error) {
	t.Helper()
	for range 100 {
		err := request()
		if job.KindOf(err) == job.Unavailable {
			continue
		}
		if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "stagepost work enrol") {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	t.Errorf("%s: it is tried again indefinitely", what)
}

// TestRenewalEnds: the renewal of a certificate that has expired, or is revoked, ends, and the log states the next
// step. The control is a server that does not answer, which is asked again.
func TestRenewalEnds(t *testing.T) {
	h := open(t)
	dirs := map[string]string{"expired": h.enrol("expired"), "revoked": h.enrol("revoked"), "away": h.enrol("away")}
	if _, err := authority.Revoke(h.dir, "revoked", authority.By{}, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(20 * time.Hour)
	ended := "the certificate is not valid any more: enrol this machine again (stagepost admin ca enrol at the " +
		"server, stagepost work enrol here), then start this program again"
	for name, want := range map[string]string{"revoked": ended, "away": "the certificate cannot be renewed"} {
		url := h.url
		if name == "away" {
			url = "https://127.0.0.1:1"
		}
		renewal(t, h, dirs[name], url, name, want, want == ended)
	}
	h.clock.Add(5 * time.Hour)
	renewal(t, h, dirs["expired"], h.url, "expired", ended, true)
}

// renewal runs the renewal of a directory until its first line in the log, and until it ends by itself if it does.
func renewal(t *testing.T, h *harness, dir, url, name, want string, ends bool) {
	t.Helper()
	c, err := credential.Open(dir, h.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done, lines := make(chan struct{}), make(chan string, 8)
	go func() { defer close(done); c.Run(ctx, url, slog.New(logged(lines))) }()
	if got := <-lines; got != want {
		t.Errorf("%s: the log: %s", name, got)
	}
	if !ends {
		cancel()
	}
	<-done
}

// TestRenewalGoesOn: a refusal that may pass does not end the renewal, which succeeds as soon as it has passed: by the
// server for another reason than the certificate, by a proxy, and by a server whose clock is wrong. The control is
// TestRenewalEnds.
func TestRenewalGoesOn(t *testing.T) {
	refuse := func(status int, kind job.ErrorKind) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="stagepost"`)
			}
			problem.Write(w, problem.Of(problem.Refuse(status, kind, "not now")))
		}
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"too many": refuse(http.StatusTooManyRequests, job.Unavailable),
		"busy":     refuse(http.StatusServiceUnavailable, job.Unavailable),
		"conflict": refuse(http.StatusConflict, job.Refused),
		"role":     refuse(http.StatusForbidden, job.Refused),
		"host":     refuse(http.StatusMisdirectedRequest, job.Refused),
		"sign-in":  refuse(http.StatusUnauthorized, job.Refused),
		"absent":   refuse(http.StatusNotFound, job.NotFound),
		"proxy":    func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"late": func(w http.ResponseWriter) { // over a connection that was open
			w.Header().Set("Date", time.Now().Add(48*time.Hour).UTC().Format(http.TimeFormat))
			w.Header().Set("WWW-Authenticate", `Bearer realm="stagepost", error="invalid_token"`)
			problem.Write(w, problem.Of(problem.Refuse(http.StatusUnauthorized, job.Refused, "it has expired")))
		},
		"clock": nil, // at the handshake
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for its second attempt
			h := open(t)
			dir := h.enrol("lab-1")
			h.clock.Add(20 * time.Hour)
			now := h.clock.Now() // of the worker
			first := true
			front := func(w http.ResponseWriter) bool {
				if !first || answer == nil {
					return false
				}
				first = false
				answer(w)
				return true
			}
			h.front.Store(&front)
			if answer == nil {
				h.clock.Add(5 * time.Hour)
			}
			c, err := credential.Open(dir, func() time.Time { return now })
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done, lines := make(chan struct{}), make(chan string, 8)
			go func() {
				defer close(done)
				c.Run(ctx, h.url, slog.New(logged(lines)))
				close(lines)
			}()
			if got := <-lines; got != "the certificate cannot be renewed" {
				t.Errorf("the log: %s", got)
			}
			if answer == nil {
				h.clock.Add(-5 * time.Hour)
			}
			if got := <-lines; got != "the certificate was renewed" {
				t.Errorf("the log: %s", got)
			}
			cancel()
			<-done
		})
	}
}

// TestRenewal: a certificate is replaced by another one of the same member and of a new key. A token does not get one,
// and a revoked certificate neither.
func TestRenewal(t *testing.T) {
	h := open(t)
	dir := h.enrol("lab-1")
	before, err := os.ReadFile(filepath.Join(dir, "credential.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := credential.Open(dir, h.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	api := h.client(c)
	if _, err := claim(api, "lab-1"); err != nil { // its connection stays open
		t.Fatal(err)
	}
	h.clock.Add(20 * time.Hour)
	first := c.Expires()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	renewed := make(chan string, 8)
	go func() { defer close(done); c.Run(ctx, h.url, slog.New(logged(renewed))) }() // it is due at once
	if got := <-renewed; got != "the certificate was renewed" {
		t.Errorf("the log: %s", got)
	}
	cancel()
	<-done
	after, err := os.ReadFile(filepath.Join(dir, "credential.pem"))
	if err != nil || string(before[:200]) == string(after[:200]) {
		t.Errorf("the key is the same: %v", err)
	}
	if !c.Expires().After(first) {
		t.Errorf("it expires at %s, as before", c.Expires())
	}
	h.clock.Add(5 * time.Hour) // the first certificate has expired
	if _, err := claim(api, "lab-1"); err != nil {
		t.Errorf("after the end of the first certificate: %v", err)
	}
	if h.audited("renew-certificate", "lab-1") != 1 {
		t.Error("the renewal is not in the audit log")
	}
	if _, err := authority.Revoke(h.dir, "lab-1", authority.By{}, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if err := c.Renew(t.Context(), h.url); err == nil {
		t.Error("a revoked certificate was renewed")
	}
}

// logged is a log whose messages a channel gets.
type logged chan<- string

func (logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l logged) WithGroup(string) slog.Handler          { return l }
func (l logged) Handle(_ context.Context, r slog.Record) error {
	l <- r.Message
	return nil
}

// TestInit: an authority is not replaced, and its key is not used if others may read it.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	if _, err := authority.Open(authority.Options{Dir: dir}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if err := authority.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := authority.Init(dir, time.Now()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one: %v", err)
	}
	a, err := authority.Open(authority.Options{Dir: dir})
	if err != nil || len(a.Warnings()) > 0 {
		t.Fatalf("%v", err)
	}
	later := func() time.Time { return time.Now().AddDate(10, 0, -60) }
	if a, err := authority.Open(authority.Options{Dir: dir, Now: later}); err != nil || len(a.Warnings()) != 1 {
		t.Errorf("no warning before its end: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, "ca.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Open(authority.Options{Dir: dir}); err == nil {
		t.Error("a key that others may read is used")
	}
	for _, m := range []authority.Member{{Name: "a b", Work: "k"}, {Name: "a"}, {Name: "a", Work: "k/"},
		{Name: "a", Services: "x,"}, {Name: "worker", Work: "k"}} {
		if _, err := authority.Enrol(dir, m, authority.By{}, time.Now(), time.Now().Add(time.Hour)); err == nil {
			t.Errorf("%+v was enrolled", m)
		}
	}
	earlier := []byte(`{"certificates": [{"name": "worker"}]}`) // of before names were reserved
	if err := os.WriteFile(authority.MembersFile(dir), earlier, 0o600); err != nil {
		t.Fatal(err)
	}
	m := authority.Member{Name: "worker", Work: "k"}
	if _, err := authority.Enrol(dir, m, authority.By{}, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Errorf("a member with a name of before: %v", err)
	}
	if _, err := authority.Revoke(dir, "lab-9", authority.By{}, time.Now()); !errors.Is(err, authority.ErrUnknown) {
		t.Errorf("a name without a member: %v", err)
	}
}

// TestRoutes holds the routes to the table of roles.
func TestRoutes(t *testing.T) {
	servertest.CheckPart(t, map[string]string{"/api/v1/enrolment": "*", "/api/v1/enrolment/renewal": "wa",
		"/api/v1/admin/members": "a"}, nil,
		func(w *servertest.Harness) server.Part { return authority.Part(w.Server, nil) })
}

// TestServices: the certificate or token of a worker limits an agent to services; an admin, who is the control, is not
// limited.
func TestServices(t *testing.T) {
	for _, c := range []struct {
		services identity.Services
		role     identity.Role
		want     bool
	}{{"python,r", identity.Worker, true}, {"*", identity.Worker, true}, {"r", identity.Worker, false},
		{"", identity.Worker, false}, {"", identity.Admin, true}} {
		who := identity.Identity{Services: c.services, Role: c.role}
		if got := who.Serves(); got.Allow("python") != c.want {
			t.Errorf("%q of %s: got %q", c.services, c.role, got)
		}
	}
}

package tunnel_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tunnel"
	"github.com/stagepost/stagepost/internal/polltest"
)

// newReader reads byte by byte, so that nothing of what comes behind an answer is lost.
func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(&bytewise{r}, 16) }

type bytewise struct{ io.Reader }

func (b *bytewise) Read(p []byte) (int, error) { return b.Reader.Read(p[:1]) }

func echo(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body) // first: HTTP/1 does not read on once it answers
	_, _ = w.Write(text)
}

func TestRequests(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	l, stop := w.agent("node-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.URL.Path)
	}), tunnel.Options{})
	w.agent("node-2", http.HandlerFunc(echo), tunnel.Options{})
	if status, text, err := w.ask(t.Context(), http.MethodGet, "http://node-1.tunnel/health", nil); err != nil ||
		status != 200 || text != "GET node-1.tunnel /health" {
		t.Errorf("got %d %q, %v", status, text, err)
	}
	if _, text, err := w.ask(t.Context(), http.MethodPost, "http://node-2.tunnel/",
		strings.NewReader("hello")); err != nil || text != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
	if got := l.Addr().String(); got != "node-1.tunnel" || l.Err() != nil {
		t.Errorf("got %s, %v", got, l.Err())
	}
	if s := w.status("node-1"); s.Connections != 1 || s.Requests != 0 || s.Remote == "" || s.Since.IsZero() {
		t.Errorf("got %+v", s)
	}
	stop()
	polltest.Until(t, "the agent is gone", func() bool { return w.status("node-1") == (tunnel.Status{}) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.changes, " "); got != "+node-1 +node-2 -node-1" && got != "+node-2 +node-1 -node-1" {
		t.Errorf("changes: %s", got)
	}
}

// TestMany sends many requests at once over one connection each, and never more than the agent allows.
func TestMany(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	var all sync.WaitGroup
	var most [3]atomic.Int64
	for a := range most {
		var now atomic.Int64
		var filled sync.Once
		full := make(chan struct{})
		w.agent(fmt.Sprintf("node-%d", a), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := now.Add(1)
			defer now.Add(-1)
			if n == 8 {
				filled.Do(func() { close(full) })
			}
			for m := most[a].Load(); n > m && !most[a].CompareAndSwap(m, n); m = most[a].Load() {
			}
			<-full // until the agent has as many as it allows
			echo(w, r)
		}), tunnel.Options{Requests: 8})
		for i := range 200 {
			all.Go(func() {
				body := fmt.Sprintf("request %d", i)
				if _, text, err := w.ask(t.Context(),
					http.MethodPost, fmt.Sprintf("http://node-%d.tunnel/", a), strings.NewReader(body)); err != nil ||
					text != body {
					t.Errorf("got %q, %v", text, err)
				}
			})
		}
	}
	all.Wait()
	for a := range most {
		if n := most[a].Load(); n != 8 {
			t.Errorf("%d requests at once", n)
		}
		if s := w.status(fmt.Sprintf("node-%d", a)); s.Connections != 1 {
			t.Errorf("got %+v", s)
		}
	}
}

// TestAgentDies breaks the agent's connections in the middle of an answer, and has it come back.
func TestAgentDies(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	var conns sync.Map
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			conns.Store(c, true)
		}
		return c, err
	}
	kill := func() {
		conns.Range(func(c, _ any) bool {
			_ = c.(net.Conn).(*net.TCPConn).SetLinger(0)
			_ = c.(net.Conn).Close()
			conns.Delete(c)
			return true
		})
	}
	w.agent("node-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/die" {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
			_ = http.NewResponseController(w).Flush()
			kill()
		}
	}), tunnel.Options{Dial: dial})
	if _, _, err := w.ask(t.Context(), http.MethodGet, "http://node-1.tunnel/die", nil); err == nil {
		t.Error("half an answer was taken for a complete one")
	}
	for range 20 { // dead connections are thrown away, new ones are there soon
		kill()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node-1.tunnel/", nil)
		answer, err := w.client.Do(r)
		if err != nil { // it was killed again and again
			continue
		}
		_ = answer.Body.Close()
	}
	if status, _, err := w.ask(t.Context(), http.MethodGet, "http://node-1.tunnel/", nil); err != nil || status != 200 {
		t.Errorf("got %d, %v", status, err)
	}
}

// TestServerDies restarts the server; the agent finds the next one.
func TestServerDies(t *testing.T) {
	var current atomic.Pointer[tunnel.Pool]
	pool := func() *tunnel.Pool {
		p, err := tunnel.NewPool(tunnel.PoolOptions{Authenticate: func(*http.Request) (string, error) {
			return "a",
				nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		current.Store(p)
		return p
	}
	first := pool()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		current.Load().ServeHTTP(w, r)
	}))
	defer web.Close()
	l, err := tunnel.Listen(t.Context(), tunnel.Options{URL: web.URL, Name: "a", Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := l.Server(http.HandlerFunc(echo))
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close(); _ = l.Close() }()
	for p := first; ; p = pool() {
		answer, err := (&http.Client{Transport: p}).Post("http://a.tunnel/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		_ = p.Close()
		if _, err := (&http.Client{Transport: p}).Get("http://a.tunnel/"); err == nil {
			t.Error("a closed pool sent a request")
		}
		if p != first {
			break
		}
	}
}

// TestSpoofed refuses agents with another name than their token's, and requests that are not upgrades. The control is
// at the end.
func TestSpoofed(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	for _, c := range []struct {
		token, path string
		headers     http.Header
		want        int
	}{
		{"node-2", "?agent=node-1", upgrade, http.StatusForbidden},
		{"", "?agent=node-1", upgrade, http.StatusForbidden},
		{"node-1", "", upgrade, http.StatusForbidden},
		{"node-1", "?agent=node-1&agent=node-2", upgrade, http.StatusForbidden},
		{"node-1", "?agent=NODE-1", upgrade, http.StatusForbidden},
		{"../x", "?agent=../x", upgrade, http.StatusForbidden},
		{"a b", "?agent=a+b", upgrade, http.StatusForbidden},
		{strings.Repeat("a", 64), "?agent=" + strings.Repeat("a", 64), upgrade, http.StatusForbidden},
		{"node-1", "?agent=node-1", http.Header{}, http.StatusUpgradeRequired},
		{"node-1", "?agent=node-1", http.Header{"Upgrade": {"stagepost-tunnel/2"}}, http.StatusUpgradeRequired},
		{"node-1", "?agent=node-1", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
			http.StatusUpgradeRequired},
		// an earlier version
		{"node-1", "?agent=node-1", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"stagepost-tunnel"}},
			http.StatusUpgradeRequired},
		{"node-1", "?agent=node-1", upgrade, http.StatusSwitchingProtocols},
	} {
		conn, answer := w.hand(c.token, "/api/v1/compute/tunnel"+c.path, c.headers)
		if answer.StatusCode != c.want {
			t.Errorf("%q %s: got %s, want %d", c.token, c.path, answer.Status, c.want)
		}
		if got := len(w.pool.Agents()); got != 0 && c.want != http.StatusSwitchingProtocols {
			t.Errorf("%q %s: %d agents", c.token, c.path, got)
		}
		if c.want == http.StatusSwitchingProtocols {
			agent := servePeer(conn)
			polltest.Until(t, "it is connected", func() bool { return w.status("node-1").Connections == 1 })
			_ = agent.Close()
		}
		_ = conn.Close()
	}
	polltest.Until(t, "a closed connection is noticed", func() bool { return len(w.pool.Agents()) == 0 })
}

// servePeer is the server of an agent of the test.
func servePeer(c net.Conn) *http.Server {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: http.HandlerFunc(echo), Protocols: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(&oneConn{c: c, closed: make(chan struct{})}) }()
	return s
}

// oneConn is a listener with one connection.
type oneConn struct {
	c      net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (c net.Conn, err error) {
	if l.c != nil {
		c, l.c = l.c, nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestBadPeers opens connections that are of no use: silent, talkative, of another protocol. None of them gets a
// request, and a good one does.
func TestBadPeers(t *testing.T) {
	w := open(t, tunnel.PoolOptions{Handshake: time.Second, Ping: time.Hour})
	w.agent("node-1", http.HandlerFunc(echo), tunnel.Options{})
	polltest.Until(t, "the good one is there", func() bool { return w.status("node-1").Connections == 1 })
	for _, say := range []string{"", "x", "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("\x00", 1<<16),
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
		c, _ := w.hand("node-1", "/api/v1/compute/tunnel?agent=node-1", upgrade)
		var done sync.WaitGroup
		done.Go(func() { _, _ = io.WriteString(c, say) })
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, text, err := w.ask(t.Context(), http.MethodPost, "http://node-1.tunnel/",
			strings.NewReader("x")); err != nil || text != "x" {
			t.Errorf("beside %.20q: got %q, %v", say, text, err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q: got %v, want that it is thrown out", say, err)
		}
		done.Wait()
	}
	if s := w.status("node-1"); s.Connections != 1 {
		t.Errorf("got %+v", s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.changes, " "); got != "+node-1" {
		t.Errorf("changes: %s", got)
	}
}

// TestPings keeps a connection whose agent answers pings, also in the middle of requests.
func TestPings(t *testing.T) {
	w := open(t, tunnel.PoolOptions{Ping: time.Millisecond, Handshake: time.Minute})
	w.agent("good", http.HandlerFunc(echo), tunnel.Options{Silence: 2 * time.Minute})
	polltest.Until(t, "it is there", func() bool { return w.status("good").Connections == 1 })
	before := w.status("good").Remote
	for range 100 {
		if _, text, err := w.ask(t.Context(), http.MethodPost, "http://good.tunnel/",
			strings.NewReader("x")); err != nil || text != "x" {
			t.Fatalf("got %q, %v", text, err)
		}
	}
	if w.status("good").Remote != before {
		t.Error("it was disconnected")
	}
}

// gate is a connection of an agent that is cut off without a word when it is shut: what is written goes nowhere, and
// nothing comes.
type gate struct {
	net.Conn
	shut chan struct{}
}

func (g *gate) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	select {
	case <-g.shut:
		if err == nil {
			return g.Read(b)
		}
	default:
	}
	return n, err
}

func (g *gate) Write(b []byte) (int, error) {
	select {
	case <-g.shut:
		return len(b), nil
	default:
		return g.Conn.Write(b)
	}
}

// TestVanished: an agent that vanishes without a word is noticed, and so is a server; the agent comes back by itself.
func TestVanished(t *testing.T) {
	for name, c := range map[string]struct{ ping, handshake, silence time.Duration }{
		"the server notices": {20 * time.Millisecond, 2 * time.Second, time.Hour},
		"the agent notices":  {time.Hour, time.Minute, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, tunnel.PoolOptions{Ping: c.ping, Handshake: c.handshake, Linger: time.Hour})
			var dials atomic.Int64
			shut := make(chan struct{})
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err == nil && dials.Add(1) == 1 {
					conn = &gate{conn, shut}
				}
				return conn, err
			}
			w.agent("going", http.HandlerFunc(echo), tunnel.Options{Dial: dial, Silence: c.silence})
			polltest.Until(t, "it is there", func() bool { return w.status("going").Connections == 1 })
			close(shut)
			polltest.Until(t, "it has come again", func() bool {
				_, text, err := w.ask(t.Context(), http.MethodPost, "http://going.tunnel/", strings.NewReader("x"))
				return err == nil && text == "x" && dials.Load() > 1
			})
		})
	}
}

// TestConnectionsAreBounded: newer connections replace older ones, and those that are left are of use.
func TestConnectionsAreBounded(t *testing.T) {
	w := open(t, tunnel.PoolOptions{Connections: 3})
	var all []net.Conn
	for i := range 10 {
		c, _ := w.hand("a", "/api/v1/compute/tunnel?agent=a", upgrade)
		s := servePeer(c)
		defer s.Close()
		all = append(all, c)
		polltest.Until(t, "it is connected", func() bool { return w.status("a").Remote == c.LocalAddr().String() })
		if n := w.status("a").Connections; n != min(i+1, 3) {
			t.Errorf("%d connections after %d", n, i+1)
		}
	}
	for i := 9; i >= 7; i-- { // the newest is used; when it ends, the one before
		if _, text, err := w.ask(t.Context(), http.MethodPost, "http://a.tunnel/",
			strings.NewReader("x")); err != nil || text != "x" {
			t.Errorf("got %q, %v", text, err)
		}
		_ = all[i].Close()
		polltest.Until(t, "it is gone", func() bool { return w.status("a").Connections == i-7 })
	}
}

// TestNoAgent waits for an agent until the context ends, and continues when it connects.
func TestNoAgent(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	for _, bad := range []string{"http://node-1", "http://.tunnel", "http://A.tunnel", "http://tunnel",
		"https://node-1.tunnel", "http://node-1.tunnel.org"} {
		if _, _, err := w.ask(t.Context(), http.MethodGet, bad, nil); err == nil ||
			!strings.Contains(err.Error(), "is not the address of an agent") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := w.ask(ctx, http.MethodGet, "http://late.tunnel", nil); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "late") {
		t.Errorf("got %v", err)
	}
	got := make(chan error, 1)
	go func() {
		_, _, err := w.ask(t.Context(), http.MethodGet, "http://late.tunnel/", nil)
		got <- err
	}()
	w.agent("late", http.HandlerFunc(echo), tunnel.Options{})
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestRefusedAgent keeps trying, slowly, and reports why.
func TestRefusedAgent(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	var log lockedBuffer
	l, stop := w.agent("node-1", http.HandlerFunc(echo),
		tunnel.Options{Header: http.Header{"Authorization": {"node-2"}}, Log: log.logger()})
	polltest.Until(t, "it reports why", func() bool {
		return l.Err() != nil && strings.Contains(l.Err().Error(), "the token is that of the agent node-2")
	})
	stop()
	if strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("the log has %s", log.String())
	}
}

// TestSlowServer bounds what a server that accepts and sends nothing, or never stops, can cost.
func TestSlowServer(t *testing.T) {
	for i, say := range []string{"", "HTTP/1.1 101 Switching Protocols\r\nX: " +
		strings.Repeat("x", 1<<20), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n"} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var busy sync.WaitGroup
		busy.Go(func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				busy.Go(func() {
					_, _ = io.WriteString(c, say)
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				})
			}
		})
		o := tunnel.Options{URL: "http://" + listener.Addr().String(), Name: "a", Handshake: time.Hour,
			Backoff: time.Millisecond}
		if i == 0 { // only a silent server is abandoned for its time
			o.Handshake = 20 * time.Millisecond
		}
		l, err := tunnel.Listen(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		polltest.Until(t, "it fails", func() bool { return l.Err() != nil })
		_ = l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
		_ = listener.Close()
		busy.Wait()
	}
}

// TestTLS goes through TLS, to a server that would rather speak HTTP/2.
func TestTLS(t *testing.T) {
	p, err := tunnel.NewPool(tunnel.PoolOptions{Authenticate: func(*http.Request) (string, error) { return "a", nil }})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(p)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	defer p.Close()
	o := tunnel.Options{URL: web.URL, Name: "a",
		Backoff: time.Millisecond,
		TLS:     &tls.Config{RootCAs: web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	l, err := tunnel.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	server := l.Server(http.HandlerFunc(echo))
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close(); _ = l.Close() }()
	for range 50 {
		body := bytes.Repeat([]byte("x"), 100_000)
		answer, err := (&http.Client{Transport: p}).Post("http://a.tunnel/", "text/plain", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !bytes.Equal(text, body) {
			t.Fatalf("got %d bytes, %v", len(text), err)
		}
	}
	o.TLS = nil // the control: a server whose certificate is not trusted is not spoken to
	stranger, err := tunnel.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "it is not trusted", func() bool { return stranger.Err() != nil })
	_ = stranger.Close()
}

func TestOptions(t *testing.T) {
	for _, o := range []tunnel.Options{
		{}, {URL: "http://x"}, {Name: "a"},
		{URL: "ftp://x", Name: "a"}, {URL: "http://u:p@x", Name: "a"}, {URL: "http://x?y", Name: "a"},
		{URL: "http://x", Name: "A"},
		{URL: "http://x", Name: "a-"}, {URL: "http://x", Name: "a b"}, {URL: "://", Name: "a"},
	} {
		if l, err := tunnel.Listen(t.Context(), o); err == nil {
			t.Errorf("%+v was taken", o)
			_ = l.Close()
		}
	}
	if _, err := tunnel.NewPool(tunnel.PoolOptions{}); err == nil {
		t.Error("a pool without authentication was made")
	}
}

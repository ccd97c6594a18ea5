package spares_test

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
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tunnel"
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
	if status, text, err := w.ask(t.Context(), http.MethodGet, "http://node-1.tunnel/health", nil); err != nil || status != 200 || text != "GET node-1.tunnel /health" {
		t.Errorf("got %d %q, %v", status, text, err)
	}
	if _, text, err := w.ask(t.Context(), http.MethodPost, "http://node-2.tunnel/", strings.NewReader("hello")); err != nil || text != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
	if got := l.Addr().String(); got != "node-1.tunnel" || l.Err() != nil {
		t.Errorf("got %s, %v", got, l.Err())
	}
	until(t, "the used connection has a successor", func() bool {
		s := w.status("node-1")
		return s.Spares == 2 && s.Used == 1 && s.Remote != "" && !s.Since.IsZero()
	})
	stop()
	until(t, "the agent is gone", func() bool { return w.status("node-1") == (tunnel.Status{}) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.changes, " "); got != "+node-1 +node-2 -node-1" && got != "+node-2 +node-1 -node-1" {
		t.Errorf("changes: %s", got)
	}
}

// TestMany has many requests at once go through few connections each, and never more than the agent allows.
func TestMany(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	w.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 8
	var all sync.WaitGroup
	for a := range 3 {
		w.agent(fmt.Sprintf("node-%d", a), http.HandlerFunc(echo), tunnel.Options{Most: 8})
		for i := range 200 {
			all.Go(func() {
				body := fmt.Sprintf("request %d", i)
				if _, text, err := w.ask(t.Context(), http.MethodPost, fmt.Sprintf("http://node-%d.tunnel/", a), strings.NewReader(body)); err != nil || text != body {
					t.Errorf("got %q, %v", text, err)
				}
			})
		}
	}
	most := 0
	watched := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			for _, s := range w.pool.Agents() {
				most = max(most, s.Used+s.Spares)
			}
			select {
			case <-finished:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	all.Wait()
	close(finished)
	<-watched
	if most > 10 { // the server may notice the end of one after the beginning of the next
		t.Errorf("%d connections at once", most)
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
		t.Error("half an answer looked like a whole one")
	}
	for range 20 { // dead spares are thrown away, new ones are there soon
		kill()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node-1.tunnel/", nil)
		answer, err := w.client.Do(r)
		if err != nil { // it was killed after ready: nobody can know whether the request got there
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
		p, err := tunnel.NewPool(tunnel.PoolOptions{Authenticate: func(*http.Request) (string, error) { return "a", nil }})
		if err != nil {
			t.Fatal(err)
		}
		current.Store(p)
		return p
	}
	first := pool()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	defer web.Close()
	l, err := tunnel.Listen(t.Context(), tunnel.Options{URL: web.URL, Name: "a", Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close(); _ = l.Close() }()
	for p := first; ; p = pool() {
		transport := &http.Transport{DialContext: p.DialContext}
		answer, err := (&http.Client{Transport: transport}).Post("http://a.tunnel/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		transport.CloseIdleConnections()
		_ = p.Close()
		if _, err := p.DialContext(t.Context(), "tcp", "a.tunnel:80"); err == nil {
			t.Error("a closed pool gave a connection")
		}
		if p != first {
			break
		}
	}
}

// TestSpoofed refuses whoever is not who it says it is, and all that is no upgrade. The control is at the end.
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
		{"node-1", "?agent=node-1", http.Header{"Upgrade": {"stagepost-tunnel"}}, http.StatusUpgradeRequired},
		{"node-1", "?agent=node-1", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, http.StatusUpgradeRequired},
		{"node-1", "?agent=node-1", upgrade, http.StatusSwitchingProtocols},
	} {
		conn, answer := w.hand(c.token, "/api/v1/compute/tunnel"+c.path, c.headers)
		if answer.StatusCode != c.want {
			t.Errorf("%q %s: got %s, want %d", c.token, c.path, answer.Status, c.want)
		}
		if got := len(w.pool.Agents()); (got != 0) != (c.want == http.StatusSwitchingProtocols) && c.want != http.StatusSwitchingProtocols {
			t.Errorf("%q %s: %d agents", c.token, c.path, got)
		}
		if c.want == http.StatusSwitchingProtocols {
			until(t, "it is parked", func() bool { return w.status("node-1").Spares == 1 })
		}
		_ = conn.Close()
	}
	until(t, "a closed spare is noticed", func() bool { return len(w.pool.Agents()) == 0 })
}

// TestBadSpares parks connections that are of no use: silent, talkative, lying. None of them gets a request, and a good one does.
func TestBadSpares(t *testing.T) {
	w := open(t, tunnel.PoolOptions{Handshake: time.Second, Ping: time.Hour})
	for _, say := range []string{"", "x", "\x01", "\x00"} {
		c, _ := w.hand("node-1", "/api/v1/compute/tunnel?agent=node-1", upgrade)
		if say == "" {
			until(t, "the silent one is parked", func() bool { return w.status("node-1").Spares == 1 })
			continue
		}
		if _, err := io.WriteString(c, say); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: got %d bytes, %v, want that it is thrown out", say, n, err)
		}
	}
	until(t, "the talkative are gone", func() bool { return w.status("node-1").Spares == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialled := make(chan error, 1)
	go func() {
		_, err := w.pool.DialContext(ctx, "tcp", "node-1.tunnel:80")
		dialled <- err
	}()
	until(t, "the silent one is gone", func() bool { return len(w.pool.Agents()) == 0 })
	cancel()
	if err := <-dialled; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.agent("node-1", http.HandlerFunc(echo), tunnel.Options{})
	until(t, "a good one is there", func() bool { return w.status("node-1").Spares == 2 })
	w.hand("node-1", "/api/v1/compute/tunnel?agent=node-1", upgrade) // silent, and the newest
	until(t, "three are there", func() bool { return w.status("node-1").Spares == 3 })
	if _, text, err := w.ask(t.Context(), http.MethodPost, "http://node-1.tunnel/", strings.NewReader("x")); err != nil || text != "x" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestPings throws out a spare that does not answer and keeps one that does.
func TestPings(t *testing.T) {
	var log lockedBuffer
	w := open(t, tunnel.PoolOptions{Ping: time.Millisecond, Handshake: time.Second, Linger: time.Hour, Log: log.logger()})
	w.agent("good", http.HandlerFunc(echo), tunnel.Options{})
	until(t, "the good one is there", func() bool { return w.status("good").Spares == 2 })
	since := w.status("good").Since
	c, _ := w.hand("mute", "/api/v1/compute/tunnel?agent=mute", upgrade)
	if b := make([]byte, 1); readFull(c, b) != nil || b[0] != 0 {
		t.Errorf("no ping came: %d", b[0])
	}
	until(t, "the mute one is thrown out", func() bool { return w.status("mute").Spares == 0 })
	for range 100 { // requests in the middle of pings
		if _, text, err := w.ask(t.Context(), http.MethodPost, "http://good.tunnel/", strings.NewReader("x")); err != nil || text != "x" {
			t.Fatalf("got %q, %v", text, err)
		}
		w.client.CloseIdleConnections()
	}
	if w.status("good").Since != since {
		t.Errorf("the good one was thrown out: %s", log.String())
	}
}

func readFull(r io.Reader, b []byte) error { _, err := io.ReadFull(r, b); return err }

// TestSparesAreBounded lets new spares take the place of old ones. Which of them came first is for the server to see; those that are left are of use.
func TestSparesAreBounded(t *testing.T) {
	w := open(t, tunnel.PoolOptions{Spares: 3})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard := make(chan error, 10)
	hear := func() error {
		select {
		case err := <-heard:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var all []net.Conn // kept until the end: a connection that nobody holds is closed when its memory is collected
	for range 10 {
		c, _ := w.hand("a", "/api/v1/compute/tunnel?agent=a", upgrade)
		all = append(all, c)
		go func() {
			b := make([]byte, 1)
			err := readFull(c, b)
			if err == nil {
				_, err = c.Write(b) // ready
			}
			heard <- err
		}()
	}
	for range 7 {
		if err := hear(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want that it is closed", err)
		}
	}
	if n := w.status("a").Spares; n != 3 {
		t.Errorf("%d are left, want 3", n)
	}
	for range 3 {
		c, err := w.pool.DialContext(ctx, "tcp", "a.tunnel:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := hear(); err != nil {
			t.Errorf("one of the last: %v", err)
		}
	}
	runtime.KeepAlive(all)
}

// TestNobodyThere waits for an agent as long as the context says, and is woken when it comes.
func TestNobodyThere(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	for _, bad := range []string{"node-1:80", "node-1.tunnel", ".tunnel:80", "a/b.tunnel:80", "A.tunnel:80", "tunnel:80"} {
		if _, err := w.pool.DialContext(t.Context(), "tcp", bad); err == nil {
			t.Errorf("%q was dialled", bad)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := w.pool.DialContext(ctx, "tcp", "late.tunnel:80"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "late") {
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
	done, stop := context.WithCancel(t.Context())
	stop()
	until(t, "spares are there", func() bool { return w.status("late").Spares == 2 })
	if _, err := w.pool.DialContext(done, "tcp", "late.tunnel:80"); !errors.Is(err, context.Canceled) || w.status("late").Spares != 2 {
		t.Errorf("a dial that nobody wants cost a spare: %v, %+v", err, w.status("late"))
	}
}

// TestRefusedAgent keeps trying, slowly, and tells why.
func TestRefusedAgent(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	var log lockedBuffer
	l, stop := w.agent("node-1", http.HandlerFunc(echo), tunnel.Options{Header: http.Header{"Authorization": {"node-2"}}, Log: log.logger()})
	until(t, "it is told why", func() bool {
		return l.Err() != nil && strings.Contains(l.Err().Error(), "the token is that of the agent node-2")
	})
	stop()
	if strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("the log has %s", log.String())
	}
}

// TestSlowServer bounds what a server that accepts and says nothing, or never stops, can cost.
func TestSlowServer(t *testing.T) {
	for i, say := range []string{"", "HTTP/1.1 101 Switching Protocols\r\nX: " + strings.Repeat("x", 1<<20), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 101 Switching Protocols\r\n\r\n"} {
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
		o := tunnel.Options{URL: "http://" + listener.Addr().String(), Name: "a", Handshake: time.Hour, Backoff: time.Millisecond}
		if i == 0 { // only who says nothing is given up for the time it takes
			o.Handshake = 20 * time.Millisecond
		}
		l, err := tunnel.Listen(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "it gives up", func() bool { return l.Err() != nil })
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
	p, err := tunnel.NewPool(tunnel.PoolOptions{Authenticate: func(*http.Request) (string, error) { return "a", nil }, Ping: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(p)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	defer p.Close()
	o := tunnel.Options{URL: web.URL, Name: "a", Backoff: time.Millisecond, TLS: &tls.Config{RootCAs: web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	l, err := tunnel.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close(); _ = l.Close() }()
	transport := &http.Transport{DialContext: p.DialContext}
	for range 50 {
		body := bytes.Repeat([]byte("x"), 100_000)
		answer, err := (&http.Client{Transport: transport}).Post("http://a.tunnel/", "text/plain", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !bytes.Equal(text, body) {
			t.Fatalf("got %d bytes, %v", len(text), err)
		}
		transport.CloseIdleConnections()
	}
	o.TLS = nil // the control: a server whose certificate is not trusted is not spoken to
	stranger, err := tunnel.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it is not trusted", func() bool { return stranger.Err() != nil })
	_ = stranger.Close()
}

func TestOptions(t *testing.T) {
	for _, o := range []tunnel.Options{
		{}, {URL: "http://x"}, {Name: "a"}, {URL: "ftp://x", Name: "a"}, {URL: "http://u:p@x", Name: "a"}, {URL: "http://x?y", Name: "a"}, {URL: "http://x", Name: "A"},
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

package tunnel_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stagepost/stagepost/edge/tunnel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a server with a pool, and a client of it.
type harness struct {
	t       *testing.T
	pool    *tunnel.Pool
	web     *httptest.Server
	client  *http.Client
	mu      sync.Mutex
	changes []string
	changed chan struct{}
}

// open starts a server whose tokens are the names of the agents.
func open(t *testing.T, o tunnel.PoolOptions) *harness {
	t.Helper()
	return openOn(t, o, (*httptest.Server).Start)
}

// openOn is open with a way to start the server.
func openOn(t *testing.T, o tunnel.PoolOptions, start func(*httptest.Server)) *harness {
	t.Helper()
	w := &harness{t: t, changed: make(chan struct{}, 1000)}
	o.Authenticate = func(r *http.Request) (string, error) {
		if name := r.Header.Get("Authorization"); name != "" {
			return name, nil
		}
		return "", errors.New("who are you?")
	}
	o.Changed = func(name string, here bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes = append(w.changes, map[bool]string{true: "+", false: "-"}[here]+name)
		w.changed <- struct{}{}
	}
	if o.Linger == 0 {
		o.Linger = time.Millisecond
	}
	var err error
	if w.pool, err = tunnel.NewPool(o); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/v1/compute/tunnel", w.pool)
	w.web = httptest.NewUnstartedServer(mux)
	start(w.web)
	w.client = &http.Client{Transport: w.pool}
	t.Cleanup(func() {
		if err := w.pool.Close(); err != nil {
			t.Error(err)
		}
		w.web.Close()
	})
	return w
}

// agent starts an agent with a handler; stop ends it and waits.
func (w *harness) agent(name string, h http.Handler, o tunnel.Options) (l *tunnel.Listener, stop func()) {
	w.t.Helper()
	o.URL, o.Name = w.web.URL, name
	if o.Header == nil {
		o.Header = http.Header{"Authorization": {name}}
	}
	if o.Backoff == 0 {
		o.Backoff, o.BackoffMax = time.Millisecond, 10*time.Millisecond
	}
	l, err := tunnel.Listen(context.Background(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	server := l.Server(h)
	var done sync.WaitGroup
	done.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.t.Errorf("serve: %v", err)
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = server.Close()
			_ = l.Close()
			done.Wait()
		})
	}
	w.t.Cleanup(stop)
	return l, stop
}

// ask asks an agent and gives the status and the text.
func (w *harness) ask(ctx context.Context, method, url string, body io.Reader) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, "", err
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// status returns the pool's status of an agent.
func (w *harness) status(name string) tunnel.Status {
	for _, s := range w.pool.Agents() {
		if s.Name == name {
			return s
		}
	}
	return tunnel.Status{}
}

// hand is an agent of the test: it asks for the upgrade and gives the connection and the answer.
func (w *harness) hand(name, path string, headers http.Header) (net.Conn, *http.Response) {
	w.t.Helper()
	c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.web.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.web.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = headers.Clone()
	if name != "" {
		r.Header.Set("Authorization", name)
	}
	if err := r.Write(c); err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.ReadResponse(newReader(c), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return c, answer
}

var upgrade = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"stagepost-tunnel/2"}}

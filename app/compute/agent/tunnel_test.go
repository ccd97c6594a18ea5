package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stagepost/stagepost/edge/tunnel"
)

// An agent that dials its server is reached through that, with all that an address gives.
func TestTunnel(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	here := make(chan struct{}, 8)
	pool, err := tunnel.NewPool(tunnel.PoolOptions{
		Authenticate: func(*http.Request) (string, error) {
			return "a1", nil
		}, Changed: func(string, bool) { here <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	server := httptest.NewServer(pool)
	defer server.Close()
	l, err := tunnel.Listen(t.Context(), tunnel.Options{URL: server.URL, Name: "a1"})
	if err != nil {
		t.Fatal(err)
	}
	agent := l.Server(w.app.Handler(HandlerOptions{}))
	done := make(chan struct{})
	go func() { defer close(done); _ = agent.Serve(l) }()
	defer func() { _ = agent.Close(); <-done }()
	<-here
	r, err := Dial(DialOptions{URL: "http://a1.tunnel", Transport: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	k := ticket()
	w.submit(r, parcel(k, "x", "in.txt", "input"))
	w.end(k)
	zip, err := r.Results(t.Context(), handle(k))
	if got := unzip(t, zip, err); got["made.txt"] != "made" {
		t.Errorf("got %v", got)
	}
}

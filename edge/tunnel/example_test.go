package tunnel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/stagepost/stagepost/edge/tunnel"
)

// An agent behind a firewall answers the server's requests.
func Example() {
	// The server mounts a pool, and sends requests through it.
	pool, err := tunnel.NewPool(tunnel.PoolOptions{Authenticate: func(*http.Request) (string, error) {
		return "node-1",
			nil
	}})
	if err != nil {
		panic(err)
	}
	web := httptest.NewServer(pool)
	defer web.Close()
	defer pool.Close()

	// The agent dials the server, and serves what comes.
	listener, err := tunnel.Listen(context.Background(), tunnel.Options{URL: web.URL, Name: "node-1"})
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	agent := listener.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s is well", r.Host)
	}))
	go func() { _ = agent.Serve(listener) }()
	defer agent.Close()

	answer, err := (&http.Client{Transport: pool}).Get("http://node-1.tunnel/health")
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(string(text))
	// Output: node-1.tunnel is well
}

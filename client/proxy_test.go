package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/client"
)

// TestProxyVariables: the variables of the environment have the proxy through which a server is reached. They are read
// once in a process, so that each case has a process of its own.
func TestProxyVariables(t *testing.T) {
	if target := os.Getenv("TEST_PROXY_TARGET"); target != "" {
		c, err := client.New(target, client.Options{Patience: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Job(t.Context(), "let_1")
		fmt.Println(err)
		return
	}
	var mu sync.Mutex
	var asked []string
	listen := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, name+" "+r.Method+" "+r.Host)
			mu.Unlock()
			w.WriteHeader(http.StatusForbidden)
		}))
		t.Cleanup(s.Close)
		return s
	}
	proxy, server := listen("proxy"), listen("server")
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for _, c := range []struct{ env, target, want string }{
		{"HTTP_PROXY=" + proxy.URL, "http://stagepost.example", "proxy GET stagepost.example"},
		{"HTTPS_PROXY=" + proxy.URL, "https://stagepost.example", "proxy CONNECT stagepost.example:443"},
		{"HTTP_PROXY=" + proxy.URL, "http://0.0.0.0" + port, "proxy GET 0.0.0.0" + port},
		// this machine, and not a loopback
		{"HTTP_PROXY=" + proxy.URL + " NO_PROXY=0.0.0.0", "http://0.0.0.0" + port, "server GET 0.0.0.0" + port},
		{"HTTP_PROXY=" + proxy.URL, server.URL, "server GET 127.0.0.1" + port},
	} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyVariables$")
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return strings.HasSuffix(strings.ToUpper(name), "_PROXY")
		})
		cmd.Env = append(cmd.Env, append(strings.Fields(c.env), "TEST_PROXY_TARGET="+c.target)...)
		text, err := cmd.CombinedOutput()
		mu.Lock()
		if err != nil || len(asked) != 1 || asked[0] != c.want {
			t.Errorf("%s for %s: asked %q, want %q: %v\n%s", c.env, c.target, asked, c.want, err, text)
		}
		mu.Unlock()
	}
}

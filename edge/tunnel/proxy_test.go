package tunnel_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/edge/tunnel"
	"github.com/stagepost/stagepost/internal/polltest"
)

// connectProxy is a proxy that supports CONNECT only, with a password.
func connectProxy(t *testing.T, start func(*httptest.Server)) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var passed atomic.Int64
	p := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := http.Header{"Authorization": r.Header["Proxy-Authorization"]}
		user, password, _ := (&http.Request{Header: header}).BasicAuth()
		switch {
		case r.Method != http.MethodConnect:
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		case user != "agent" || password != "secret":
			http.Error(w, "who are you?", http.StatusProxyAuthRequired)
			return
		}
		there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		passed.Add(1)
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		for from, to := range map[net.Conn]net.Conn{here: there, there: here} {
			go func() { // until both are closed; TestMain waits for it
				_, _ = io.Copy(to, from)
				_, _ = here.Close(), there.Close()
			}()
		}
	}))
	start(p)
	t.Cleanup(p.Close)
	return p, &passed
}

// trusting is TLS that trusts the certificates of test servers.
func trusting(servers ...*httptest.Server) *tls.Config {
	roots := x509.NewCertPool()
	for _, s := range servers {
		if c := s.Certificate(); c != nil {
			roots.AddCert(c)
		}
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// TestProxy goes through a proxy for http and for https, and through one that is reached with TLS. The control is a
// proxy with another password.
func TestProxy(t *testing.T) {
	for name, c := range map[string]struct {
		server, proxy func(*httptest.Server)
		user          *url.Userinfo
		refused       bool
	}{
		"http": {(*httptest.Server).Start, (*httptest.Server).Start, url.UserPassword("agent", "secret"),
			false},
		"https": {(*httptest.Server).StartTLS, (*httptest.Server).Start, url.UserPassword("agent", "secret"),
			false},
		"over TLS": {(*httptest.Server).Start, (*httptest.Server).StartTLS, url.UserPassword("agent", "secret"),
			false},
		"wrong password": {(*httptest.Server).Start, (*httptest.Server).Start, url.UserPassword("agent", "guess"),
			true},
		"https, password": {(*httptest.Server).StartTLS, (*httptest.Server).Start, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, passed := connectProxy(t, c.proxy)
			w := openOn(t, tunnel.PoolOptions{}, c.server)
			at, err := url.Parse(proxy.URL)
			if err != nil {
				t.Fatal(err)
			}
			at.User = c.user
			l, stop := w.agent("a", http.HandlerFunc(echo),
				tunnel.Options{Proxy: http.ProxyURL(at), TLS: trusting(w.web, proxy)})
			if c.refused {
				polltest.Until(t, "it is refused", func() bool { return l.Err() != nil })
				if err := l.Err().Error(); !strings.Contains(err, "Proxy Authentication Required") ||
					strings.Contains(err, "guess") || passed.Load() != 0 {
					t.Errorf("got %s", err)
				}
			} else if _, text, err := w.ask(t.Context(),
				http.MethodPost, "http://a.tunnel/", strings.NewReader("x")); err != nil || text != "x" ||
				passed.Load() == 0 {
				t.Errorf("got %q, %v, %d through the proxy, %v", text, err, passed.Load(), l.Err())
			}
			stop()
			_ = w.pool.Close()
		})
	}
}

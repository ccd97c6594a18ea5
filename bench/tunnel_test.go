package bench

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tunnel"
)

var tunnelMiB = flag.Int64("tunnel.mib", 64, "MiB that BenchmarkTunnel sends each time")

// noughts is n bytes.
type noughts struct{ left int64 }

func (z *noughts) Read(b []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), z.left)
	z.left -= n
	return int(n), nil
}

// spent gives the seconds that this process has used of the processors.
func spent(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// plainCopy copies through a buffer of the usual size, as to and from files that are digested on the way.
func plainCopy(to io.Writer, from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 32<<10))
}

// farSide is the far side of a transfer.
func farSide(n int64, digest bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = plainCopy(w, &noughts{n})
			return
		}
		_, _ = plainCopy(sink(digest), r.Body)
	})
}

func sink(digest bool) io.Writer {
	if digest {
		return sha256.New()
	}
	return io.Discard
}

// transfer sends n bytes one way and gives the seconds, of the clock and of the processors.
func transfer(b *testing.B, t http.RoundTripper, method string, n int64, digest bool) (wall, processors float64) {
	b.Helper()
	began, used := time.Now(), spent(b)
	var body io.Reader
	if method == http.MethodPut {
		body = &noughts{n}
	}
	r, err := http.NewRequestWithContext(b.Context(), method, "http://a.tunnel/", body)
	if err != nil {
		b.Fatal(err)
	}
	if body != nil {
		r.ContentLength = n
	}
	answer, err := t.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := plainCopy(sink(digest), answer.Body)
	if err != nil || method == http.MethodGet && got != n {
		b.Fatalf("%d bytes, %v", got, err)
	}
	return time.Since(began).Seconds(), spent(b) - used
}

// tunnelServer starts a web server with a handler, with TLS if that is wanted, and gives its URL and what its clients
// trust.
func tunnelServer(b *testing.B, h http.Handler, secure bool) (string, *tls.Config) {
	s := httptest.NewUnstartedServer(h)
	b.Cleanup(s.Close)
	if !secure {
		s.Start()
		return s.URL, nil
	}
	s.StartTLS()
	return s.URL, &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
}

func newTunnel(b *testing.B, h http.Handler, secure bool) http.RoundTripper {
	p, err := tunnel.NewPool(tunnel.PoolOptions{Authenticate: func(*http.Request) (string, error) { return "a", nil }})
	if err != nil {
		b.Fatal(err)
	}
	url, config := tunnelServer(b, p, secure)
	l, err := tunnel.Listen(context.Background(), tunnel.Options{URL: url, Name: "a", TLS: config})
	if err != nil {
		b.Fatal(err)
	}
	agent := l.Server(h)
	go func() { _ = agent.Serve(l) }()
	b.Cleanup(func() { _, _, _ = agent.Close(), l.Close(), p.Close() })
	return p
}

// direct is a connection of HTTP/1.1 to the same handler.
func direct(b *testing.B, h http.Handler, secure bool) http.RoundTripper {
	url, config := tunnelServer(b, h, secure)
	t := &http.Transport{DisableCompression: true, TLSClientConfig: config}
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		_, at, _ := strings.Cut(url, "://")
		return new(net.Dialer).DialContext(ctx, network, at)
	}
	b.Cleanup(t.CloseIdleConnections)
	if secure {
		config.ServerName = "example.com" // as the certificate of test servers has it
		return throughTLS{t}
	}
	return t
}

// throughTLS sends requests for http by https.
type throughTLS struct{ t *http.Transport }

func (s throughTLS) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme = "https"
	return s.t.RoundTrip(r)
}

// BenchmarkTunnel sends bytes through the tunnel of agents, in turns with a direct connection of HTTP/1.1.
func BenchmarkTunnel(b *testing.B) {
	n := *tunnelMiB << 20
	for _, secure := range []bool{false, true} {
		for _, digest := range []bool{false, true} {
			h := farSide(n, digest)
			before, now := direct(b, h, secure), newTunnel(b, h, secure)
			for _, method := range []string{http.MethodGet, http.MethodPut} {
				b.Run(fmt.Sprintf("%s/tls=%t/digest=%t", method, secure, digest), func(b *testing.B) {
					var old, own, ratios, processors []float64
					for range max(b.N, 5) {
						o, po := transfer(b, before, method, n, digest)
						w, pw := transfer(b, now, method, n, digest)
						old, own = append(old, o), append(own, w)
						ratios, processors = append(ratios, w/o), append(processors, pw/po)
					}
					b.ReportMetric(float64(*tunnelMiB)/median(old), "direct-MiB/s")
					b.ReportMetric(float64(*tunnelMiB)/median(own), "MiB/s")
					b.ReportMetric(median(ratios), "time/direct")
					b.ReportMetric(median(processors), "cpu/direct")
				})
			}
		}
	}
}

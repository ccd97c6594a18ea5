package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// noOwn keeps tests independent of the machine's addresses.
func noOwn() ([]netip.Addr, error) { return nil, nil }

// local is a policy for servers of the test process.
func local() Policy {
	return Policy{Allow: loopback, Retries: -1, Backoff: time.Millisecond, OwnAddresses: noOwn}
}

func newClient(t *testing.T, p Policy) *Client {
	t.Helper()
	c := New(p)
	c.sync = func(*os.File) error { return nil }
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func newRoot(t *testing.T) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func payload(n int) []byte {
	data := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{7})
	rng.Read(data)
	return data
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func kindOf(t *testing.T, err error) Kind {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T) is not an *Error", err, err)
	}
	return e.Kind
}

func wantKind(t *testing.T, err error, want Kind) {
	t.Helper()
	if got := kindOf(t, err); got != want {
		t.Fatalf("kind %q (%v), want %q", got, err, want)
	}
}

func wantFile(t *testing.T, root *os.Root, name string, want []byte) {
	t.Helper()
	got, err := root.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s has %d bytes that differ from the %d wanted", name, len(got), len(want))
	}
}

func wantNames(t *testing.T, root *os.Root, want ...string) {
	t.Helper()
	dir, err := root.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Fatalf("directory has %q, want %q", names, want)
	}
}

// origin serves data with ranges and cuts the first body after cut bytes (none if negative).
type origin struct {
	mu       sync.Mutex
	data     []byte
	etag     string
	ranges   bool
	cut      int
	requests []string // the Range header of each
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, r.Header.Get("Range"))
	from := 0
	if rest, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && o.ranges {
		if match := r.Header.Get("If-Range"); match == "" || match == o.etag {
			from, _ = strconv.Atoi(strings.TrimSuffix(rest, "-"))
		}
	}
	if from > len(o.data) {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	if o.etag != "" {
		w.Header().Set("ETag", o.etag)
	}
	body := o.data[from:]
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if from > 0 {
		w.Header().Set("Content-Range",
			"bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(o.data)-1)+"/"+strconv.Itoa(len(o.data)))
		w.WriteHeader(http.StatusPartialContent)
	}
	if cut := o.cut; cut >= 0 {
		o.cut = -1
		w.Write(body[:min(cut, len(body))])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(body)
}

// network is a simulated network: names with addresses, and one server at every address.
type network struct {
	mu      sync.Mutex
	names   map[string][]netip.Addr
	listen  func(ctx context.Context) (net.Conn, error)
	dialled []string
}

func (n *network) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.names[strings.TrimSuffix(host, ".")]; ok {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled = append(n.dialled, address)
	n.mu.Unlock()
	if n.listen == nil {
		return nil, errors.New("connection refused (simulated)")
	}
	return n.listen(ctx)
}

// pipes is a listener whose connections are in memory, for tests in a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// tunnel leads every checked address to one server of the test process.
func tunnel(server string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}
}

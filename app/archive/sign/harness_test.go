package sign_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

var document = []byte("a manifest of a package\n")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is an authority over HTTP.
type server struct {
	*authority.Authority
	settings timestamp.Settings
	handle   http.Handler // nil: that of the authority
	asked    atomic.Int32
	header   http.Header // of the last request
}

func newServer(t *testing.T, name string, options ...authority.Option) *server {
	t.Helper()
	a, err := authority.New(name, time.Now(), options...)
	must(t, err)
	s := &server{Authority: a}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.header = r.Header
		if s.handle != nil {
			s.handle.ServeHTTP(w, r)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	must(t, os.WriteFile(root, a.RootPEM(), 0o600))
	s.settings = timestamp.Settings{Name: name, URL: h.URL, Roots: []string{root}}
	return s
}

// fixture is a catalog, a directory, and a signer.
type fixture struct {
	t      *testing.T
	dir    string
	root   *os.Root
	cat    *catalog.Catalog
	signer *sign.Signer
	now    func() time.Time
}

const job = "0195-job"

func newFixture(t *testing.T, servers ...*server) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), now: time.Now}
	f.open(func(string) error { return nil }, servers...)
	must(t, os.WriteFile(filepath.Join(f.dir, "manifest.txt"), document, 0o600))
	must(t, f.cat.Begin(t.Context(), catalog.Archive{Job: job, Source: "s", Created: time.Now()}))
	return f
}

// open opens everything as a new process does.
func (f *fixture) open(point func(string) error, servers ...*server) {
	f.t.Helper()
	var err error
	f.cat, err = catalog.Open(f.t.Context(), filepath.Join(f.dir, catalog.Name),
		catalog.Options{Before: point, After: point})
	must(f.t, err)
	f.t.Cleanup(func() { _ = f.cat.Close() })
	f.root, err = os.OpenRoot(f.dir)
	must(f.t, err)
	f.t.Cleanup(func() { _ = f.root.Close() })
	o := sign.Options{Catalog: f.cat, Now: func() time.Time { return f.now() }, Point: point}
	for _, s := range servers {
		a, err := timestamp.NewAuthority(s.settings)
		must(f.t, err)
		o.Authorities = append(o.Authorities, a)
	}
	f.signer, err = sign.New(o)
	must(f.t, err)
}

func (f *fixture) document() sign.Document {
	return sign.Document{
		Job: job, Path: "manifest.txt", Dir: f.root,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(document)), nil },
	}
}

// tokens gives the number of tokens that are recorded.
func (f *fixture) tokens() int {
	f.t.Helper()
	all, err := f.cat.Tokens(f.t.Context(), job)
	must(f.t, err)
	return len(all)
}

// failed fails the test unless an error is one of all authorities, with a kind.
func failed(t *testing.T, err, kind error, temporary bool) *sign.FailedError {
	t.Helper()
	var e *sign.FailedError
	if !errors.As(err, &e) || kind != nil && !errors.Is(err, kind) || e.Temporary() != temporary {
		t.Fatalf("got %v, want %v, temporary %t", err, kind, temporary)
	}
	return e
}

package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHead(t *testing.T) {
	c := newClient(t, local())
	noHead := func(status int, get http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(status)
				return
			}
			get(w, r)
		}
	}
	ranged := func(value string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "bytes=0-0" {
				t.Errorf("range %q", r.Header.Get("Range"))
			}
			w.Header().Set("Content-Range", value)
			w.WriteHeader(http.StatusPartialContent)
			w.Write([]byte("x"))
		}
	}
	for _, fake := range []struct {
		name  string
		serve http.HandlerFunc
		kind  Kind
		size  int64
	}{
		{"length", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "123") }, "", 123},
		{"no length", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Transfer-Encoding", "chunked") },
			"", -1},
		{"404", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) }, NotFound, 0},
		{"410", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(410) }, NotFound, 0},
		{"401", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }, Status, 0},
		{"500", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, Server, 0},
		{"405, ranges", noHead(405, ranged("bytes 0-0/99")), "", 99},
		{"501, ranges of unknown length", noHead(501, ranged("bytes 0-0/*")), "", -1},
		{"405, garbage", noHead(405, ranged("pages 0-0/99")), "", -1},
		{"405, 200 to the range",
			noHead(405, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 42)) }), "", 42},
		{"405, empty file", noHead(405, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes */0")
			w.WriteHeader(416)
		}), "", 0},
		{"405, then 404", noHead(405, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) }), NotFound,
			0},
		{"403 to HEAD only", noHead(403, ranged("bytes 0-0/7")), "", 7},
		{"403", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }, Status, 0},
	} {
		t.Run(fake.name, func(t *testing.T) {
			info, err := c.Head(context.Background(), serve(t, fake.serve))
			wantKind(t, err, fake.kind)
			if err == nil && info.Size != fake.size {
				t.Errorf("size %d, want %d", info.Size, fake.size)
			}
		})
	}
}

func TestContentRange(t *testing.T) {
	for value, want := range map[string]contentRange{
		"bytes 0-0/1": {0, 0, 1}, "bytes 5-9/10": {5, 9, 10}, "bytes 5-9/*": {5, 9, -1}, "bytes */7": {-1, -1, 7},
	} {
		if got, ok := parseContentRange(value); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", value, got, ok, want)
		}
	}
	for _, value := range []string{"", "bytes", "bytes 0-0", "bytes */*", "bytes 9-5/10", "bytes 5-10/10",
		"bytes -5/10", "bytes 5-/10", "bytes a-b/c",
		"bytes 0-99999999999999999999/*", "bytes 0-0/-1", "lines 0-0/1"} {
		if got, ok := parseContentRange(value); ok {
			t.Errorf("%q: %v, want none", value, got)
		}
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		w.Header().Set("Content-Length", "4")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	_, err := newClient(t, local()).Head(context.Background(), s.URL)
	wantKind(t, err, Network)
	var e *Error
	if errors.As(err, &e); e.Temporary() {
		t.Errorf("%v is temporary: an unknown authority does not pass with time", err)
	}
	p := local()
	p.RootCAs = x509.NewCertPool()
	p.RootCAs.AddCert(s.Certificate())
	info, err := newClient(t, p).Head(context.Background(), s.URL)
	if err != nil || info.Size != 4 {
		t.Errorf("control: %+v, %v", info, err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, u := range hostileURLs() {
		f.Add(u)
	}
	f.Add("http://example.org/")
	c := New(Policy{})
	f.Fuzz(func(t *testing.T, raw string) {
		if err := c.Check(raw); err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Kind != Refused {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		u, err := c.policy.parse(raw)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q passes as %v, %v", raw, u, err)
		}
		if u.User = nil; c.Check(u.String()) != nil {
			t.Fatalf("%q passes, but not %q that it is written as", raw, u)
		}
	})
}

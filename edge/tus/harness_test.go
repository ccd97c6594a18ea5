package tus_test

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the protocol's
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tus"
)

// harness is a store that requests reach without a network, so that an answer means that the request is done.
type harness struct {
	*tus.Store
	t       *testing.T
	o       tus.Options
	handler http.Handler
	now     *clock
}

// clock is moved by the test.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func open(t *testing.T, o tus.Options) *harness {
	t.Helper()
	w := &harness{t: t, now: &clock{t: time.Now()}}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	o.Clock = w.now.Now
	if o.Owner == nil {
		o.Owner = func(r *http.Request) string { return r.Header.Get("X-Owner") }
	}
	w.o = o
	w.reopen()
	return w
}

// reopen is a restart: all that is only in memory is gone.
func (w *harness) reopen() {
	w.t.Helper()
	if w.Store != nil {
		_ = w.Close()
	}
	s, err := tus.New(w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Store, w.handler = s, s.Handler("/files")
	w.t.Cleanup(func() { _ = s.Close() })
}

// ask does a request; headers come in pairs.
func (w *harness) ask(method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, body)
	r.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	if got := answer.Header().Get("Tus-Resumable"); got != "1.0.0" {
		w.t.Errorf("%s %s: Tus-Resumable is %q", method, path, got)
	}
	return answer
}

// want does a request that must be answered with a status.
func (w *harness) want(status int, method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	answer := w.ask(method, path, body, headers...)
	if answer.Code != status {
		w.t.Errorf("%s %s %q: got %d %s, want %d", method, path, headers, answer.Code, answer.Body, status)
	}
	return answer
}

// create makes an upload and gives its address.
func (w *harness) create(length int, headers ...string) string {
	w.t.Helper()
	answer := w.want(http.StatusCreated, http.MethodPost, "/files", nil,
		append([]string{"Upload-Length", strconv.Itoa(length)}, headers...)...)
	return answer.Header().Get("Location")
}

// patch writes a piece.
func (w *harness) patch(status int, at string, offset int, body io.Reader,
	headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.want(status, http.MethodPatch, at, body,
		append([]string{"Content-Type", "application/offset+octet-stream", "Upload-Offset", strconv.Itoa(offset)},
			headers...)...)
}

// stands holds against it how far an upload has come.
func (w *harness) stands(at string, want int) {
	w.t.Helper()
	answer := w.want(http.StatusOK, http.MethodHead, at, nil)
	if got := answer.Header().Get("Upload-Offset"); got != strconv.Itoa(want) {
		w.t.Errorf("Upload-Offset is %s, want %d", got, want)
	}
}

// taken takes an upload and compares what it is with what was sent.
func (w *harness) taken(at, owner string, sent []byte) tus.Upload {
	w.t.Helper()
	u, err := w.Take(strings.TrimPrefix(at, "/files/"), owner)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(u.Path)
	if err != nil {
		w.t.Fatal(err)
	}
	sum := sha256.Sum256(sent)
	if !bytes.Equal(text, sent) || u.Size != int64(len(sent)) || u.SHA256 != hex.EncodeToString(sum[:]) {
		w.t.Errorf("got %d bytes with %s, want %d with %x", len(text), u.SHA256, len(sent), sum)
	}
	return u
}

// cutBody gives n bytes of a text and then breaks.
type cutBody struct {
	text []byte
	n    int
}

var errCable = errors.New("the cable was pulled")

func (c *cutBody) Read(b []byte) (int, error) {
	if c.n == 0 {
		return 0, errCable
	}
	n := copy(b, c.text[:c.n])
	c.text, c.n = c.text[n:], c.n-n
	return n, nil
}

func checksum(algorithm string, b []byte) string {
	sum := sha1.Sum(b) //nolint:gosec // the protocol's
	digest := sum[:]
	if algorithm == "sha256" {
		long := sha256.Sum256(b)
		digest = long[:]
	}
	return algorithm + " " + base64.StdEncoding.EncodeToString(digest)
}

// content is n bytes of which no two neighbourhoods are alike.
func content(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

package tunnel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tunnel"
	"github.com/stagepost/stagepost/internal/polltest"
)

// TestSlowReaders: requests with unread bodies and answers do not stop others over the same connection, and hold no
// more than their windows.
func TestSlowReaders(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	unread := make(chan struct{})
	w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/unread": // the agent reads nothing of what the server sends
			<-unread
		case "/endless": // the server reads nothing of what the agent sends
			_, _ = io.Copy(w, endless{})
		default:
			echo(w, r)
		}
	}), tunnel.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int64, 8)
	for range 8 {
		answer, err := w.client.Do(request(ctx, t, http.MethodGet, "http://a.tunnel/endless", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		counted := &counter{endless{}, 0}
		go func() {
			_, _, _ = w.ask(ctx, http.MethodPost, "http://a.tunnel/unread", counted)
			sent <- counted.n
		}()
	}
	large := strings.Repeat("x", 1<<20)
	for range 20 {
		if _, text, err := w.ask(t.Context(), http.MethodPost, "http://a.tunnel/",
			strings.NewReader(large)); err != nil || text != large {
			t.Fatalf("got %d bytes, %v", len(text), err)
		}
	}
	if n := w.status("a").Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
	cancel()
	close(unread)
	for range 8 {
		if n := <-sent; n > 8<<20 {
			t.Errorf("%d bytes were sent to a reader that read none", n)
		}
	}
	polltest.Until(t, "all have ended", func() bool { return w.status("a").Requests == 0 })
}

func request(ctx context.Context, t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// counter counts what is read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// TestCancelled: a request that its sender ends, ends at the agent, and the connection stays; an answer that the
// agent cuts is not taken for a complete one.
func TestCancelled(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	ended := make(chan error, 1)
	w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			ended <- r.Context().Err()
		case "/cut":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}), tunnel.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := w.client.Do(request(ctx, t, http.MethodGet, "http://a.tunnel/wait", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	before := w.status("a")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, text, err := w.ask(t.Context(), http.MethodGet, "http://a.tunnel/cut", nil); err == nil || text != "half" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, _, err := w.ask(t.Context(), http.MethodGet, "http://a.tunnel/", nil); err != nil ||
		w.status("a").Remote != before.Remote {
		t.Errorf("%+v, then %+v, %v", before, w.status("a"), err)
	}
}

// TestPieces sends bodies of all sizes in both directions, in pieces of all sizes, and what is flushed at once.
func TestPieces(t *testing.T) {
	w := open(t, tunnel.PoolOptions{})
	more := make(chan struct{})
	w.agent("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flushed" {
			for range 3 {
				_, _ = w.Write(make([]byte, 100_000))
				_ = http.NewResponseController(w).Flush()
				<-more
			}
			return
		}
		var piece int
		_, _ = fmt.Sscan(r.URL.Query().Get("piece"), &piece)
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		text, _ := io.ReadAll(r.Body)
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{bytes.NewReader(text)}, make([]byte, piece))
	}), tunnel.Options{})
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = byte(i * i >> 3)
	}
	for _, size := range []int{0, 1, 4096, 64 << 10, 64<<10 + 1, 256 << 10, 300_000, 1 << 20} {
		for _, piece := range []int{1000, 32 << 10, 255<<10 + 1, 512 << 10} {
			_, got, err := w.ask(t.Context(), http.MethodPost, fmt.Sprintf("http://a.tunnel/?piece=%d", piece),
				bytes.NewReader(text[:size]))
			if err != nil || got != string(text[:size]) {
				t.Errorf("%d bytes in pieces of %d: got %d bytes, %v", size, piece, len(got), err)
			}
		}
	}
	answer, err := w.client.Do(request(t.Context(), t, http.MethodGet, "http://a.tunnel/flushed", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for range 3 {
		if _, err := io.ReadFull(answer.Body, make([]byte, 100_000)); err != nil {
			t.Error(err)
		}
		more <- struct{}{}
	}
}

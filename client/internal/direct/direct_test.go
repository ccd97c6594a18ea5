//go:build unix

package direct

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// connsTo returns connections to an address HOST:PORT, and counts those that are made.
func connsTo(t *testing.T, host string) (*Conns, *atomic.Int64) {
	made := new(atomic.Int64)
	c := New(host, [][2]string{{"User-Agent", "test"}, {"Authorization", "Bearer abc"}}, 1<<20,
		func(ctx context.Context, network, address string) (net.Conn, error) {
			made.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		})
	t.Cleanup(c.CloseIdle)
	return c, made
}

// post posts a text and returns the answer, refusals with their status before it.
func post(ctx context.Context, c *Conns, path, text string) (string, error) {
	target := &url.URL{Scheme: "http", Host: c.host, Path: path}
	r := (&http.Request{Method: http.MethodPost, URL: target}).WithContext(ctx)
	got := ""
	refusal, err := c.Post(r, []byte(text), func(text []byte) error {
		got = string(text)
		return nil
	})
	if refusal != nil {
		text, err := io.ReadAll(refusal.Body)
		return fmt.Sprint(refusal.StatusCode, " ", refusal.Header.Get("Retry-After"), " ", string(text)), err
	}
	return got, err
}

// TestPost: net/http understands the requests, and each form of answer that it gives is read.
func TestPost(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer abc" ||
			r.Header.Get("Content-Type") != "application/json" || r.UserAgent() != "test" || r.ContentLength != 6 {
			t.Errorf("got %s %v %q %v", r.Method, r.Header, body, err)
		}
		switch r.URL.Path {
		case "/a b/echo":
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(body)
		case "/chunked":
			_, _ = io.WriteString(w, "one ")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "two")
		case "/large":
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			_, _ = io.WriteString(w, large)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "after all")
		case "/close":
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "last")
		case "/toolarge":
			w.Header().Set("Content-Length", fmt.Sprint(2<<20))
			_, _ = io.WriteString(w, strings.Repeat("x", 2<<20))
		case "/toolargechunked":
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, strings.Repeat("x", 2<<20))
		default:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "no")
		}
	}))
	defer s.Close()
	c, made := connsTo(t, s.Listener.Addr().String())
	for _, one := range []struct {
		path, want string
		made       int64 // connections by then
	}{
		{"/a b/echo", "123456", 1}, {"/large", large, 1}, {"/refused", "409 7 no", 1}, {"/early", "after all", 1},
		{"/chunked", "one two", 1}, {"/a b/echo", "123456", 2}, {"/none", "", 2}, {"/close", "last", 3},
		{"/a b/echo", "123456", 4}, {"/a b/echo", "123456", 4},
	} {
		got, err := post(t.Context(), c, one.path, "123456")
		if err != nil || got != one.want || made.Load() != one.made {
			t.Errorf("%s: got %.60q, %v over %d connections, want %.60q over %d", one.path, got, err, made.Load(),
				one.want, one.made)
		}
	}
	for _, path := range []string{"/toolarge", "/toolargechunked"} {
		if _, err := post(t.Context(), c, path, "123456"); err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// raw serves each connection of a listener with a function.
func raw(t *testing.T, serve func(n int, c net.Conn, read *bufio.Reader)) string {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// take reads a request and answers.
func take(t *testing.T, c net.Conn, read *bufio.Reader, answer string) bool {
	r, err := http.ReadRequest(read)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Error(err)
	}
	_, err = io.WriteString(c, answer)
	return err == nil
}

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

// TestClosedWhileIdle: a connection that the server closed while it was idle, or on which it sent something without a
// request, is not used again. The control uses one that is open.
func TestClosedWhileIdle(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		stays        bool
		made         int64
	}{
		{"closed", ok, false, 2},
		{"unasked", ok + "HTTP/1.1 408 Request Timeout\r\n\r\n", true, 2},
		{"open", ok, true, 1},
	} {
		addr := raw(t, func(_ int, conn net.Conn, read *bufio.Reader) {
			for take(t, conn, read, c.answer) && c.stays {
			}
		})
		conns, made := connsTo(t, addr)
		for range 2 {
			if got, err := post(t.Context(), conns, "/", "{}"); err != nil || got != "ok" {
				t.Errorf("%s: got %q, %v", c.name, got, err)
			}
			if !c.stays { // until the end of the connection has arrived
				if _, err := conns.free[0].read.Peek(1); err != io.EOF {
					t.Error(err)
				}
			}
		}
		if made.Load() != c.made {
			t.Errorf("%s: %d connections were made, want %d", c.name, made.Load(), c.made)
		}
		conns.CloseIdle()
	}
}

// TestDefectiveAnswers: what is no answer of HTTP/1.1, or ends too early, is an error.
func TestDefectiveAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "not HTTP": "SSH-2.0-OpenSSH\r\n\r\n", "no status": "HTTP/1.1 OK\r\n\r\n",
		"cut in the header": "HTTP/1.1 200 OK\r\nContent-Le", "cut in the body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
		"two lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"negative length":   "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
		"another protocol":  "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"large header":      "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", mostHeader/6) + "\r\n",
		"long line":         "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", mostLine) + "\r\n\r\n",
		"defective chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
		"header of no form": "HTTP/1.1 200 OK\r\n: a\r\n\r\n",
	} {
		conns, _ := connsTo(t, raw(t, func(_ int, c net.Conn, read *bufio.Reader) { take(t, c, read, answer) }))
		if got, err := post(t.Context(), conns, "/", "{}"); err == nil {
			t.Errorf("%s: got %q", name, got)
		}
		if len(conns.free) > 0 {
			t.Errorf("%s: the connection is kept", name)
		}
	}
}

// TestEndOfContext: the end of its context ends a call, and its connection is not used again.
func TestEndOfContext(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	addr := raw(t, func(n int, c net.Conn, read *bufio.Reader) {
		if n == 1 {
			if _, err := http.ReadRequest(read); err != nil {
				t.Error(err)
			}
			close(arrived)
			<-release
			return
		}
		take(t, c, read, ok)
	})
	defer close(release)
	conns, made := connsTo(t, addr)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := post(ctx, conns, "/", "{}"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got, err := post(t.Context(), conns, "/", "{}"); err != nil || got != "ok" || made.Load() != 2 {
		t.Errorf("got %q, %v over %d connections", got, err, made.Load())
	}
}

// TestFields: fields that would end a line of the header are refused.
func TestFields(t *testing.T) {
	for value, usable := range map[string]bool{"stagepost": true, "a\r\nHost: b": false, "a\nb": false, "é": false} {
		if got := New("h", [][2]string{{"User-Agent", value}}, 1, nil) != nil; got != usable {
			t.Errorf("%q: got %t", value, got)
		}
	}
}

// TestConcurrentPosts: callers at the same time have connections of their own, and each gets its own answer.
func TestConcurrentPosts(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer s.Close()
	c, _ := connsTo(t, s.Listener.Addr().String())
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 50 {
				text := fmt.Sprint(i, "/", n)
				if got, err := post(t.Context(), c, "/", text); err != nil || got != text {
					t.Errorf("got %q, %v, want %q", got, err, text)
				}
			}
		})
	}
	all.Wait()
}

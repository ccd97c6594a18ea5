package agent

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/job"
)

// Who does not bring the token is let in nowhere.
func TestToken(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	remote, s := w.remote(HandlerOptions{Token: "a token of the agent"})
	if _, err := remote.Capacity(t.Context()); err != nil {
		t.Errorf("control: %v", err)
	}
	for _, token := range []string{"", "a token of the agenT", "a token"} {
		for _, path := range []string{"GET /v1/room", "GET /v1/events", "POST /v1/drain", "PUT /v1/payloads/a/1"} {
			method, path, _ := strings.Cut(path, " ")
			q, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				q.Header.Set("Authorization", "Bearer "+token)
			}
			a, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s with %q: got %d", method, path, token, a.StatusCode)
			}
		}
	}
	wrong, err := Dial(DialOptions{URL: s.URL, Token: "another token of it"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Submit(t.Context(), parcel(ticket(), "x")); !errors.Is(err, compute.ErrNotSent) {
		t.Errorf("got %v", err)
	}
}

// Results have a length, a tag, a digest, and ranges.
func TestRange(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	_, s := w.remote(HandlerOptions{})
	k := ticket()
	w.submit(w.app, parcel(k, "x"))
	n := w.end(k)
	get := func(header ...string) *http.Response {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/v1/payloads/%s/1/results",
			s.URL, k.Job), nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set(secretHeader, secret)
		for i := 0; i+1 < len(header); i += 2 {
			q.Header.Set(header[i], header[i+1])
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Body.Close() })
		return a
	}
	a := get()
	sum, _ := hex.DecodeString(n.SHA256)
	if a.StatusCode != 200 || a.ContentLength != n.Bytes || a.Header.Get("ETag") != `"`+n.SHA256+`"` ||
		a.Header.Get("Repr-Digest") != "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":" {
		t.Errorf("got %d, %v", a.StatusCode, a.Header)
	}
	whole, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	part := get("Range", "bytes=4-9", "If-Range", a.Header.Get("ETag"))
	text, err := io.ReadAll(part.Body)
	if err != nil || part.StatusCode != http.StatusPartialContent || string(text) != string(whole[4:10]) {
		t.Errorf("got %d, %q, %v", part.StatusCode, text, err)
	}
	if a := get("Range", "bytes=-0"); a.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a suffix of no bytes: got %d", a.StatusCode)
	}
	if a := get("If-None-Match", a.Header.Get("ETag")); a.StatusCode != http.StatusNotModified {
		t.Errorf("got %d", a.StatusCode)
	}
}

// The stream reports each payload and of the capacity; a check that waits comes back when something changed.
func TestTell(t *testing.T) {
	begun, release := make(chan *sandbox.Command, 8), make(chan struct{})
	w := newHarness(t, blocks(begun, release), nil)
	remote, _ := w.remote(HandlerOptions{})
	for name, x := range map[string]compute.Notifier{"remote": remote, "local": w.app.Local().(compute.Notifier)} {
		ctx, cancel := context.WithCancel(t.Context())
		connected, heard, over := make(chan struct{}, 1), make(chan job.ID, 1000), make(chan error, 1)
		go func() {
			over <- x.Notify(ctx, func() { connected <- struct{}{} }, func(id job.ID) { heard <- id })
		}()
		<-connected
		k := ticket()
		w.submit(w.app, parcel(k, "x"))
		<-begun
		for room, payload := false, false; !room || !payload; {
			select {
			case id := <-heard:
				room, payload = room || id == "", payload || id == k.Job
			case <-time.After(enough):
				t.Fatalf("%s: nothing was received", name)
			}
		}
		cancel()
		if err := <-over; err == nil {
			t.Errorf("%s: the end has no reason", name)
		}
	}
	k := ticket()
	w.submit(w.app, parcel(k, "x"))
	<-begun
	seen := make(chan compute.Notice, 1)
	go func() {
		var n compute.Notice
		h := handle(k)
		_ = call(t.Context(), remote, http.MethodGet, "?wait=20s&standing=running", &h, &n)
		seen <- n
	}()
	close(release)
	if n := <-seen; n.Standing != compute.Ended {
		t.Errorf("got %+v", n)
	}
}

// silentServer is an agent that stops answering in the middle of each answer, but that to a kill.
func silentServer(t *testing.T) *httptest.Server {
	t.Helper()
	hung := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/events":
			fmt.Fprintln(w, `{"instance":"i"}`)
			_ = http.NewResponseController(w).Flush()
		case "/v1/payloads/j/1/results":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half")
			_ = http.NewResponseController(w).Flush()
		case "/v1/payloads/j/1":
			_, _ = io.Copy(io.Discard, r.Body)
		case "/v1/payloads/j/1/kill":
			w.WriteHeader(http.StatusNoContent)
			return
		}
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(hung); s.Close() })
	return s
}

// A server whose agent stops answering notices, in each kind of call, and other calls are not harmed.
func TestSilentAgent(t *testing.T) {
	s := silentServer(t)
	r, err := Dial(DialOptions{URL: s.URL, Patience: 2 * time.Second, Silence: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := compute.Handle{Ticket: compute.Ticket{Job: "j", Attempt: 1, Secret: secret}}
	var all sync.WaitGroup
	for name, do := range map[string]func() error{
		"look": func() error { _, err := r.Query(t.Context(), h); return err },
		"room": func() error { _, err := r.Capacity(t.Context()); return err },
		"tell": func() error { return r.Notify(t.Context(), func() {}, func(job.ID) {}) },
		"results": func() error {
			body, err := r.Results(t.Context(), h)
			if err != nil {
				return fmt.Errorf("too early: %w", err)
			}
			defer body.Close()
			_, err = io.ReadAll(body)
			return err
		},
		"submit": func() error {
			_, err := r.Submit(t.Context(), parcel(h.Ticket, "x"))
			if errors.Is(err, compute.ErrNotSent) {
				return errors.New("it may have arrived")
			}
			return err
		},
	} {
		all.Go(func() {
			var silent *silentError
			if err := do(); !errors.As(err, &silent) || job.KindOf(err) != job.Unavailable {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
	patient, err := Dial(DialOptions{URL: s.URL}) // however slow the machine is
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	if err := patient.Kill(t.Context(), h); err != nil {
		t.Errorf("control: %v", err)
	}
	all.Wait()
}

// TestLongEvent: a line of the stream of events that is too long ends the stream, and is not kept. The control is a
// line that is accepted.
func TestLongEvent(t *testing.T) {
	for size, want := range map[int]int{60 << 10: 1, 70 << 10: 0} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "{\"instance\":\"i\"}\n{\"job\":%q}\n", strings.Repeat("j", size))
		}))
		defer s.Close()
		r, err := Dial(DialOptions{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		connected, changed := 0, 0
		err = r.Notify(t.Context(), func() { connected++ }, func(job.ID) { changed++ })
		if job.KindOf(err) != job.Unavailable || errors.Is(err, bufio.ErrTooLong) != (want == 0) || connected != 1 ||
			changed != want {
			t.Errorf("%d bytes: connected %d times, %d changes, %v", size, connected, changed, err)
		}
	}
}

// cutter lets so many bytes of each connection through and then cuts it.
type cutter struct {
	net.Conn
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		n, _ := c.Conn.Write(p[:c.left])
		c.left = 0
		_ = c.Conn.Close()
		return n, io.ErrClosedPipe
	}
	c.left -= len(p)
	return c.Conn.Write(p)
}

// A parcel that was cut was not sent; one whose answer was lost may have been, and the second submission finds it.
func TestNotSent(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	remote, s := w.remote(HandlerOptions{})
	k := ticket()
	p := parcel(k, "x", "big.bin", strings.Repeat("x", 400_000))
	for _, at := range []int{1, 300, 2000, 100_000, 400_000} {
		r, err := Dial(DialOptions{URL: s.URL, Transport: &http.Transport{
			ExpectContinueTimeout: time.Second, DisableKeepAlives: true, WriteBufferSize: 512,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return &cutter{Conn: c, left: at}, err
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Submit(t.Context(), p); !errors.Is(err, compute.ErrNotSent) {
			t.Errorf("cut at %d: got %v", at, err)
		}
	}
	if n, err := remote.Query(t.Context(), handle(k)); err != nil || n.Standing != compute.Stranger {
		t.Errorf("got %+v, %v", n, err)
	}
	lost := &losing{next: &http.Transport{ExpectContinueTimeout: time.Second, DisableKeepAlives: true}}
	r, err := Dial(DialOptions{URL: s.URL, Transport: lost})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Submit(t.Context(), p); err == nil || errors.Is(err, compute.ErrNotSent) {
		t.Errorf("an answer that was lost: got %v", err)
	}
	if n := w.submit(remote, p); n.Remote == "" {
		t.Errorf("got %+v", n)
	}
	w.end(k)
	if got := w.runner.count(); got != 1 {
		t.Errorf("%d runs", got)
	}
	gone, err := Dial(DialOptions{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Submit(t.Context(), p); !errors.Is(err, compute.ErrNotSent) {
		t.Errorf("no agent there: got %v", err)
	}
	broken := parcel(ticket(), "x")
	broken.Open = func(string) (io.ReadSeekCloser, error) { return nil, errors.New("the disk is broken") }
	if _, err := remote.Submit(t.Context(), broken); !errors.Is(err, compute.ErrNotSent) ||
		!strings.Contains(err.Error(), "the disk is broken") {
		t.Errorf("a file that cannot be read: got %v", err)
	}
}

// losing loses the answers of requests that were carried out.
type losing struct{ next http.RoundTripper }

func (l *losing) RoundTrip(q *http.Request) (*http.Response, error) {
	a, err := l.next.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, a.Body)
	_ = a.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

// One that reads nothing of what it asked for blocks no other.
func TestHungReaders(t *testing.T) {
	w := newHarness(t, func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		big := make([]byte, 1<<20)
		for range 16 {
			if _, err := c.Stdout.Write(big); err != nil {
				return sandbox.Ending{}, err
			}
		}
		return sandbox.Ending{}, nil
	}, nil)
	const most = 20
	begun, ended := make(chan struct{}, most), make(chan struct{}, most)
	handler, s := w.app.Handler(HandlerOptions{}), httptest.NewUnstartedServer(nil)
	s.Config = Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			begun <- struct{}{}
			defer func() { ended <- struct{}{} }()
		}
		handler.ServeHTTP(w, r)
	}), w.app.log)
	s.Start()
	defer s.Close()
	defer s.CloseClientConnections()
	remote, err := Dial(DialOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	k := ticket()
	w.submit(remote, parcel(k, "x"))
	w.end(k)
	for range most {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /v1/payloads/%s/1/log?stream=stdout HTTP/1.1\r\nHost: a\r\n%s: %s\r\n\r\n", k.Job, secretHeader, secret)
	}
	for range most {
		<-begun
	}
	if _, err := remote.Capacity(t.Context()); err != nil {
		t.Error(err)
	}
	other := ticket()
	w.submit(remote, parcel(other, "x"))
	w.end(other)
	if n := len(ended); n > 0 {
		t.Errorf("others were served when %d of the %d were abandoned, or done", n, most)
	}
}

// The log of a payload that runs is followed to its end, from its beginning.
func TestFollow(t *testing.T) {
	begun, release := make(chan *sandbox.Command, 1), make(chan struct{})
	w := newHarness(t, func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		begun <- c
		<-release
		_, err := io.WriteString(c.Stdout, "last")
		return sandbox.Ending{}, err
	}, nil)
	remote, _ := w.remote(HandlerOptions{})
	k := ticket()
	w.submit(remote, parcel(k, "x"))
	log, err := remote.Log(t.Context(), handle(k), "stdout", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := <-begun
	for i := range 5 {
		line := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(c.Stdout, line); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(line))
		if _, err := io.ReadFull(log, got); err != nil || string(got) != line {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	close(release)
	if rest, err := io.ReadAll(log); err != nil || string(rest) != "last" {
		t.Errorf("got %q, %v", rest, err)
	}
	for _, path := range []string{"stream=other", "stream=stdout&offset=-1", "stream=stdout&offset=x"} {
		h := handle(k)
		if err := call[struct{}](t.Context(), remote, http.MethodGet, "/log?"+path, &h,
			nil); job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

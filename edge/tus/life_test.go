package tus_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tus"
	"github.com/stagepost/stagepost/internal/polltest"
)

func TestExpiry(t *testing.T) {
	w := open(t, tus.Options{Keep: time.Hour})
	old, fresh := w.create(3), w.create(3)
	half := strings.TrimPrefix(w.create(0), "/files/")
	if _, err := w.Take(half, ""); err != nil {
		t.Fatal(err)
	}
	w.now.pass(40 * time.Minute)
	expires := w.patch(http.StatusNoContent, fresh, 0, strings.NewReader("a")).Header().Get("Upload-Expires")
	if want := w.now.Now().Add(time.Hour).UTC().Format(http.TimeFormat); expires != want {
		t.Errorf("it expires at %s, want %s", expires, want)
	}
	if n, err := w.Sweep(w.now.Now()); n != 0 || err != nil {
		t.Errorf("%d went too early, %v", n, err)
	}
	w.now.pass(40 * time.Minute)
	w.reopen() // what is taken is forgotten, and the times are not
	w.want(http.StatusGone, http.MethodHead, old, nil)
	w.patch(http.StatusGone, old, 0, strings.NewReader("a"))
	w.stands(fresh, 1)
	if n, err := w.Sweep(w.now.Now()); n != 2 || err != nil {
		t.Errorf("%d went, %v", n, err)
	}
	w.want(http.StatusNotFound, http.MethodHead, old, nil)
	w.stands(fresh, 1)
	w.patch(http.StatusNoContent, fresh, 1, strings.NewReader("bc"))
	id := strings.TrimPrefix(fresh, "/files/")
	w.taken(fresh, "", []byte("abc"))
	w.now.pass(24 * time.Hour)
	if n, err := w.Sweep(w.now.Now()); n != 0 || err != nil {
		t.Errorf("a taken upload went: %d, %v", n, err)
	}
	w.Return(id)
	w.now.pass(time.Hour)
	if _, err := w.Take(id, ""); !errors.Is(err, tus.ErrNotFound) {
		t.Errorf("an expired upload was given: %v", err)
	}
	if n, err := w.Sweep(w.now.Now()); n != 1 || err != nil {
		t.Errorf("%d went, %v", n, err)
	}
	if left, err := os.ReadDir(w.o.Dir); len(left) != 1 || err != nil || left[0].Name() != "lock" {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestLeftovers removes what crashes left, when it is old, and nothing that is not its own.
func TestLeftovers(t *testing.T) {
	w := open(t, tus.Options{Keep: time.Hour})
	id := strings.Repeat("A", 26)
	ours := []string{id + ".data", strings.Repeat("B", 26) + ".json", strings.Repeat("C", 26) + ".json.new",
		strings.Repeat("D", 26) + ".json"}
	others := []string{"README", "x.data", id + ".txt"}
	for _, name := range append(ours, others...) {
		if err := os.WriteFile(filepath.Join(w.o.Dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.reopen()
	kept := w.create(3)
	others = append(others, "lock")
	count := func() int {
		left, err := os.ReadDir(w.o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(left)
	}
	if _, err := w.Sweep(w.now.Now()); err != nil || count() != len(ours)+len(others)+2 {
		t.Errorf("%d files are left, %v", count(), err)
	}
	w.now.pass(2 * time.Hour)
	w.patch(http.StatusGone, kept, 0, strings.NewReader("a"))
	if _, err := w.Sweep(w.now.Now()); err != nil || count() != len(others) {
		t.Errorf("%d files are left, %v", count(), err)
	}
}

// TestOneWriter has many requests write the same piece at once: one wins, the others get an error and may retry.
func TestOneWriter(t *testing.T) {
	w := open(t, tus.Options{})
	server := httptest.NewServer(w.handler)
	defer server.Close()
	sent := content(100_000)
	at := w.create(len(sent))
	statuses := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+at, bytes.NewReader(sent))
			r.Header = http.Header{"Tus-Resumable": {"1.0.0"}, "Upload-Offset": {"0"},
				"Content-Type": {"application/offset+octet-stream"}}
			answer, err := server.Client().Do(r)
			if err != nil {
				return // refused while it was still sending
			}
			_ = answer.Body.Close()
			mu.Lock()
			statuses[answer.StatusCode]++
			mu.Unlock()
		})
	}
	all.Wait()
	if statuses[http.StatusNoContent] != 1 ||
		len(statuses) > 3 || statuses[http.StatusNoContent]+statuses[http.StatusConflict]+
		statuses[http.StatusLocked] == 0 {
		t.Errorf("got %v", statuses)
	}
	for status := range statuses {
		if status != http.StatusNoContent && status != http.StatusConflict && status != http.StatusLocked {
			t.Errorf("got %v", statuses)
		}
	}
	w.taken(at, "", sent)
}

// slow is a body that is sent on a signal of the test.
func slow(t *testing.T, server *httptest.Server, at string) (send *io.PipeWriter, answer chan int) {
	t.Helper()
	body, send := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+at, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Tus-Resumable": {"1.0.0"}, "Upload-Offset": {"0"},
		"Content-Type": {"application/offset+octet-stream"}}
	answer = make(chan int, 1)
	go func() {
		a, err := server.Client().Do(r)
		if err != nil {
			answer <- 0
			return
		}
		_ = a.Body.Close()
		answer <- a.StatusCode
	}()
	return send, answer
}

// TestSilentWriterGivesWay lets a second request replace one whose connection is lost, and keeps the bytes of that
// one. The control is a writer that may be silent for long.
func TestSilentWriterGivesWay(t *testing.T) {
	for _, patient := range []bool{false, true} {
		o := tus.Options{Silence: time.Millisecond}
		if patient {
			o.Silence = time.Hour
		}
		w := open(t, o)
		server := httptest.NewServer(w.handler)
		at := w.create(6)
		send, answer := slow(t, server, at)
		if _, err := send.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(w.o.Dir, strings.TrimPrefix(at, "/files/")+".data")
		polltest.Until(t, "the bytes are in the file",
			func() bool { s, err := os.Stat(file); return err == nil && s.Size() == 3 })
		if patient {
			w.stands(at, 0)
			w.patch(http.StatusLocked, at, 0, strings.NewReader("abcdef"))
			if _, err := w.Take(strings.TrimPrefix(at, "/files/"), ""); !errors.Is(err, tus.ErrBusy) {
				t.Errorf("it was given while somebody writes: %v", err)
			}
			if n, err := w.Sweep(w.now.Now().Add(1000 * time.Hour)); n != 0 || err != nil {
				t.Errorf("it was swept while somebody writes: %d, %v", n, err)
			}
			w.want(http.StatusNoContent, http.MethodDelete, at, nil) // this insists
			w.want(http.StatusNotFound, http.MethodHead, at, nil)
		} else {
			polltest.Until(t, "HEAD returns the bytes of the silent one", func() bool {
				return w.ask(http.MethodHead, at, nil).Header().Get("Upload-Offset") == "3"
			})
			w.patch(http.StatusNoContent, at, 3, strings.NewReader("def"))
			w.taken(at, "", []byte("abcdef"))
		}
		_ = send.Close()
		if got := <-answer; got == http.StatusNoContent {
			t.Errorf("the replaced one got a success")
		}
		server.Close()
	}
}

// TestIdleSenderIsCut ends a sender that sends nothing more, and keeps its bytes: head and bytes in one packet, so
// that they are there together.
func TestIdleSenderIsCut(t *testing.T) {
	w := open(t, tus.Options{Idle: 20 * time.Millisecond})
	server := httptest.NewServer(w.handler)
	defer server.Close()
	at := w.create(6)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	head := "PATCH " + at + " HTTP/1.1\r\nHost: x\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Type: " +
		"application/offset+octet-stream\r\nContent-Length: 6\r\n\r\n"
	if _, err := io.WriteString(c, head+"abc"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil) // while the sender is still there
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode == http.StatusNoContent {
		t.Error("it got a success")
	}
	w.stands(at, 3)
}

// TestSlowUploadOutlastsTheServersTimes sends for longer than the server gives a request and an answer otherwise. The
// control is a handler that does not ask for more time.
func TestSlowUploadOutlastsTheServersTimes(t *testing.T) {
	w := open(t, tus.Options{})
	mux := http.NewServeMux()
	mux.Handle("/files/", w.handler)
	mux.HandleFunc("/hasty/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 30*time.Millisecond, 30*time.Millisecond
	server.Config.ReadHeaderTimeout = time.Hour // the head of a request is not what is tested
	server.Start()
	defer server.Close()
	for at, ok := range map[string]bool{w.create(5): true, "/hasty/x": false} {
		send, answer := slow(t, server, at)
		for _, b := range []byte("abcde") {
			if _, err := send.Write([]byte{b}); err != nil {
				break
			}
			pause := time.NewTimer(20 * time.Millisecond) // this is what is tested: a slow sender
			<-pause.C
		}
		_ = send.Close()
		if got := <-answer; (got == http.StatusNoContent) != ok {
			t.Errorf("%s: got %d, want it to work: %v", at, got, ok)
		}
		if ok {
			w.taken(at, "", []byte("abcde"))
		}
	}
}

type tooMuch struct{}

func (tooMuch) Error() string   { return "you have too much already" }
func (tooMuch) HTTPStatus() int { return http.StatusTooManyRequests }

// TestRoom: an upload for which there is no space is refused with 507 when it is made, and when the space goes while
// it is written; what came until then counts. Control: with space it goes on from there.
func TestRoom(t *testing.T) {
	var free atomic.Int64
	free.Store(20 << 20)
	w := open(t, tus.Options{Space: func(bytes int64) error {
		if bytes > free.Load() {
			return errors.New("storage full")
		}
		return nil
	}})
	const size = 18 << 20
	w.want(http.StatusInsufficientStorage, http.MethodPost, "/files", nil, "Upload-Length", strconv.Itoa(30<<20))
	location := w.create(size)
	body := make([]byte, size)
	taking := &taker{Reader: bytes.NewReader(body), after: 1 << 20, then: func() { free.Store(1 << 20) }}
	if r := w.patch(http.StatusInsufficientStorage, location, 0, taking); !strings.Contains(r.Body.String(),
		"storage full") {
		t.Errorf("got %q", r.Body)
	}
	offset, err := strconv.Atoi(w.want(http.StatusOK, http.MethodHead, location, nil).Header().Get("Upload-Offset"))
	if err != nil || offset < 16<<20 || offset >= size {
		t.Fatalf("offset %d, %v", offset, err)
	}
	free.Store(20 << 20)
	w.patch(http.StatusNoContent, location, offset, bytes.NewReader(body[offset:]))
}

// taker calls then once so many bytes have been read.
type taker struct {
	io.Reader
	after, n int
	then     func()
}

func (r *taker) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if r.n += n; r.n >= r.after && r.then != nil {
		r.then()
		r.then = nil
	}
	return n, err
}

// TestQuota never lets two share the last of a quota.
func TestQuota(t *testing.T) {
	var w *harness
	w = open(t, tus.Options{MayCreate: func(owner string, size int64) error {
		if owner == "eve" {
			return errors.New("eve may not")
		}
		_, used, err := w.Used(owner)
		if err != nil {
			return err
		}
		if used+size > 100 {
			return tooMuch{}
		}
		return nil
	}})
	var all sync.WaitGroup
	statuses := make(chan int, 100)
	for range 100 {
		all.Go(func() {
			statuses <- w.ask(http.MethodPost, "/files", nil, "Upload-Length", "10", "X-Owner", "ann").Code
		})
	}
	all.Wait()
	close(statuses)
	got := map[int]int{}
	for s := range statuses {
		got[s]++
	}
	if got[http.StatusCreated] != 10 || got[http.StatusTooManyRequests] != 90 {
		t.Errorf("got %v", got)
	}
	if n, size, err := w.Used("ann"); n != 10 || size != 100 || err != nil {
		t.Errorf("%d uploads, %d bytes, %v", n, size, err)
	}
	w.want(http.StatusCreated, http.MethodPost, "/files", nil, "Upload-Length", "10", "X-Owner", "bob")
	if answer := w.want(http.StatusForbidden, http.MethodPost,
		"/files", nil, "Upload-Length", "10", "X-Owner", "eve"); !strings.Contains(answer.Body.String(),
		"eve may not") {
		t.Errorf("got %s", answer.Body)
	}
}

// TestDiskFails compares the answers with a disk that fails.
func TestDiskFails(t *testing.T) {
	w := open(t, tus.Options{})
	at := w.create(3)
	file := filepath.Join(w.o.Dir, strings.TrimPrefix(at, "/files/")+".data")
	if err := errors.Join(os.Rename(file, file+".aside"), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	answer := w.patch(http.StatusInternalServerError, at, 0, strings.NewReader("abc"))
	if strings.Contains(answer.Body.String(), w.o.Dir) || strings.Contains(answer.Body.String(), ".data") {
		t.Errorf("the client learns %s", answer.Body)
	}
	w.want(http.StatusInternalServerError, http.MethodHead, at, nil)
	if err := errors.Join(os.Remove(file), os.Rename(file+".aside", file)); err != nil {
		t.Fatal(err)
	}
	w.stands(at, 0)
}

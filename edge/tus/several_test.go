package tus_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tus"
	"github.com/stagepost/stagepost/internal/polltest"
)

// beside opens a second store on the directory of a first one, as another server does.
func (w *harness) beside() *harness {
	w.t.Helper()
	other := &harness{t: w.t, o: w.o, now: w.now}
	other.reopen()
	return other
}

// TestContinuesElsewhere begins an upload at one store, continues it at another one, whose memory has something older,
// and takes it at the first one. Control: the pieces are in one file, so bytes that one store would have missed are
// missing in what is taken.
func TestContinuesElsewhere(t *testing.T) {
	a := open(t, tus.Options{})
	b := a.beside()
	sent := content(9000)
	at := a.create(len(sent), "X-Owner", "ann")
	for i, w := range []*harness{a, b, b, a, b, a} {
		from := i * 1500
		piece := sent[from : from+1500]
		w.want(http.StatusOK, http.MethodHead, at, nil, "X-Owner", "ann")
		w.patch(http.StatusNoContent, at, from, strings.NewReader(string(piece)), "X-Owner", "ann",
			"Upload-Checksum", checksum("sha1", piece))
	}
	for _, w := range []*harness{a, b} {
		if n, size, err := w.Used("ann"); n != 1 || size != 9000 || err != nil {
			t.Errorf("%d uploads, %d bytes, %v", n, size, err)
		}
		w.want(http.StatusNotFound, http.MethodHead, at, nil, "X-Owner", "bob")
	}
	u := a.taken(at, "ann", sent)
	if _, err := b.Take(u.ID, "ann"); !errors.Is(err, tus.ErrBusy) {
		t.Errorf("it was given twice: %v", err)
	}
	b.want(http.StatusLocked, http.MethodDelete, at, nil, "X-Owner", "ann")
	a.Return(u.ID)
	b.taken(at, "ann", sent)
	if err := b.Remove(u.ID); err != nil {
		t.Error(err)
	}
	for _, w := range []*harness{a, b} {
		w.want(http.StatusNotFound, http.MethodHead, at, nil, "X-Owner", "ann")
		if n, _, err := w.Used("ann"); n != 0 || err != nil {
			t.Errorf("%d uploads, %v", n, err)
		}
	}
}

// TestWriterElsewhere has a writer at one store and requests at another one: they are refused while it sends, and get
// the upload once it is silent, with its bytes. A removal ends it in any case. Control: a writer that may be silent for
// long keeps the upload.
func TestWriterElsewhere(t *testing.T) {
	for _, c := range []struct {
		what    string
		silence time.Duration
		method  string
	}{
		{"silent", time.Millisecond, http.MethodHead},
		{"patient", time.Hour, http.MethodHead},
		{"removed", time.Hour, http.MethodDelete},
	} {
		a := open(t, tus.Options{Silence: c.silence, Idle: time.Hour})
		b := a.beside()
		server := httptest.NewServer(a.handler)
		at := a.create(6)
		send, answer := slow(t, server, at)
		if _, err := send.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(a.o.Dir, strings.TrimPrefix(at, "/files/"))
		polltest.Until(t, "the bytes are in the file",
			func() bool { s, err := os.Stat(file + ".data"); return err == nil && s.Size() == 3 })
		switch c.what {
		case "patient":
			b.want(http.StatusLocked, http.MethodHead, at, nil)
			b.patch(http.StatusLocked, at, 0, strings.NewReader("abcdef"))
			if _, err := b.Take(strings.TrimPrefix(at, "/files/"), ""); !errors.Is(err, tus.ErrBusy) {
				t.Errorf("it was given while the other store writes: %v", err)
			}
			if n, err := b.Sweep(b.now.Now().Add(1000 * time.Hour)); n != 0 || err != nil {
				t.Errorf("it was swept while the other store writes: %d, %v", n, err)
			}
			a.stands(at, 0) // it counts when it is synced
		case "silent":
			polltest.Until(t, "the other store gives it", func() bool {
				return b.ask(c.method, at, nil).Header().Get("Upload-Offset") == "3"
			})
			b.patch(http.StatusNoContent, at, 3, strings.NewReader("def"))
			a.taken(at, "", []byte("abcdef"))
		case "removed":
			polltest.Until(t, "the other store removes it",
				func() bool { return b.ask(c.method, at, nil).Code == http.StatusNoContent })
			a.want(http.StatusNotFound, http.MethodHead, at, nil)
		}
		_ = send.Close()
		if got := <-answer; (got == http.StatusNoContent) != (c.what == "patient") {
			t.Errorf("%s: the writer got %d", c.what, got)
		}
		if _, err := os.Stat(file + ".yield"); c.what != "patient" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the request of the other store is still there: %v", c.what, err)
		}
		server.Close()
	}
}

// TestQuotaElsewhere never lets two requests at two stores share the last of a quota.
func TestQuotaElsewhere(t *testing.T) {
	var a, b *harness
	var deciding atomic.Int64
	quota := func(w **harness) func(string, int64) error {
		return func(owner string, size int64) error {
			if deciding.Add(1) != 1 {
				t.Error("two stores decide at the same time")
			}
			defer deciding.Add(-1)
			_, used, err := (*w).Used(owner)
			if err == nil && used+size > 100 {
				return tooMuch{}
			}
			return err
		}
	}
	a = open(t, tus.Options{MayCreate: quota(&a)})
	b = &harness{t: t, o: a.o, now: a.now}
	b.o.MayCreate = quota(&b)
	b.reopen()
	var all sync.WaitGroup
	statuses := make(chan int, 100)
	for i := range 100 {
		all.Go(func() {
			statuses <- []*harness{a, b}[i%2].ask(http.MethodPost, "/files", nil, "Upload-Length", "10").Code
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
}

// TestExpiryElsewhere: an upload that another store continued does not expire here. Control: one that was left
// does, and its files are removed once.
func TestExpiryElsewhere(t *testing.T) {
	a := open(t, tus.Options{Keep: time.Hour})
	b := a.beside()
	left, continued := a.create(2), a.create(2)
	a.now.pass(40 * time.Minute)
	b.patch(http.StatusNoContent, continued, 0, strings.NewReader("a"))
	a.now.pass(40 * time.Minute)
	a.stands(continued, 1)
	a.want(http.StatusGone, http.MethodHead, left, nil)
	for i, w := range []*harness{a, b} {
		if n, err := w.Sweep(w.now.Now()); n != 1-i || err != nil {
			t.Errorf("%d went, %v", n, err)
		}
	}
	a.patch(http.StatusNoContent, continued, 1, strings.NewReader("b"))
	b.taken(continued, "", []byte("ab"))
}

package ingestcli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// flaky is a server whose connections break: an answer has at most so many bytes.
type flaky struct {
	content []byte
	etag    string
	gets    atomic.Int64
	ranges  atomic.Int64

	mu     sync.Mutex // guards the rest
	most   int
	answer func(w http.ResponseWriter) bool // answers instead if it returns true
}

// set changes how the server answers from now on.
func (f *flaky) set(most int, answer func(w http.ResponseWriter) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most, f.answer = most, answer
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.gets.Add(1)
	if r.Header.Get("Range") != "" {
		f.ranges.Add(1)
	}
	f.mu.Lock()
	most, answer := f.most, f.answer
	f.mu.Unlock()
	if answer != nil && answer(w) {
		return
	}
	w.Header().Set("ETag", f.etag)
	http.ServeContent(&breaking{w, most}, r, "", time.Time{}, bytes.NewReader(f.content))
}

type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		_, _ = b.ResponseWriter.Write(p[:b.left])
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

// fetching prepares a download from a flaky server.
func fetching(t *testing.T, f *flaky) (*commands, *client.Access, string) {
	t.Helper()
	web := httptest.NewServer(f)
	t.Cleanup(web.Close)
	api, err := client.New(web.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	c := &commands{Commands: jobs.Commands{Call: &cli.Call{Out: cli.NewPrinter(io.Discard),
		Err: cli.NewPrinter(io.Discard), Server: api}}}
	return c, &client.Access{Token: "t", ETag: f.etag, Size: int64(len(f.content)),
		File: "x.zip"}, filepath.Join(t.TempDir(), "x.zip")
}

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestBrokenDownload takes a download up again after each break, and fetches no byte twice. The control is one without
// breaks.
func TestBrokenDownload(t *testing.T) {
	for most, gets := range map[int]int64{300_000: 4, 10_000_000: 1} {
		f := &flaky{content: noise(1_000_000), etag: `"0123456789abcdef"`, most: most}
		c, a, out := fetching(t, f)
		if err := c.fetchTo(t.Context(), c.Server, a, out); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out)
		if err != nil || !bytes.Equal(got, f.content) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		if f.gets.Load() < gets || f.gets.Load() > gets+2 || f.ranges.Load() != f.gets.Load()-1 {
			t.Errorf("%d requests, %d for the rest, want %d", f.gets.Load(), f.ranges.Load(), gets)
		}
		if left, _ := filepath.Glob(out + ".*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// TestTwoDownloadsAtOnce into one file: the file is whole, and the slower command reports what happened.
func TestTwoDownloadsAtOnce(t *testing.T) {
	first := true
	f := &flaky{content: noise(100_000), etag: `"0123456789abcdef"`, most: 1 << 30}
	c, a, out := fetching(t, f)
	f.answer = func(http.ResponseWriter) bool {
		if first { // the other command runs from begin to end while this one's request is on its way
			first = false
			if err := c.fetchTo(t.Context(), c.Server, a, out); err != nil {
				t.Errorf("the control: %v", err)
			}
		}
		return false
	}
	if err := c.fetchTo(t.Context(), c.Server, a, out); job.KindOf(err) != job.Conflict ||
		!strings.Contains(err.Error(), "was faster") {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, f.content) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestDownloadOfAnotherPackage: the server has another package by now; nothing of the first stays.
func TestDownloadOfAnotherPackage(t *testing.T) {
	f := &flaky{content: noise(100_000), etag: `"new"`, most: 1 << 30}
	c, a, out := fetching(t, f)
	a.ETag = `"0123456789abcdef"`
	if err := os.WriteFile(out+".0123456789ab.part", []byte(strings.Repeat("old", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.fetchTo(t.Context(), c.Server, a, out); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, f.content) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	longer := out + ".2"
	if err := os.WriteFile(longer+".0123456789ab.part", make([]byte, 200_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.fetchTo(t.Context(), c.Server, a, longer); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(longer); err != nil || !bytes.Equal(got, f.content) {
		t.Errorf("after a part that is too long: got %d bytes, %v", len(got), err)
	}
}

// TestDownloadThatCannotBe ends at once where the server names the reason, after some attempts where nothing comes, and
// with its time.
func TestDownloadThatCannotBe(t *testing.T) {
	f := &flaky{content: noise(1000), etag: `"0123456789abcdef"`, most: 1 << 30,
		answer: func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind":"conflict","detail":"a.txt: it has 5 bytes","status":409}`)
			return true
		}}
	c, a, out := fetching(t, f)
	if err := c.fetchTo(t.Context(), c.Server, a, out); job.KindOf(err) != job.Conflict ||
		!strings.Contains(err.Error(), "a.txt") || f.gets.Load() != 1 {
		t.Errorf("got %v after %d requests", err, f.gets.Load())
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("there is a file")
	}
	f.set(0, nil)
	f.gets.Store(0)
	if err := os.WriteFile(out+".0123456789ab.part", f.content[:400], 0o600); err != nil {
		t.Fatal(err)
	}
	// the transport may try once more
	if err := c.fetchTo(t.Context(), c.Server, a, out); job.KindOf(err) != job.Unavailable ||
		f.gets.Load() < cli.MaxBroken || f.gets.Load() > cli.MaxBroken+2 {
		t.Errorf("got %v after %d requests", err, f.gets.Load())
	} else if !strings.Contains(err.Error(), "request the object again") ||
		!strings.Contains(err.Error(), "400 of 1000 bytes are in") || strings.Contains(err.Error(), "EOF") {
		t.Errorf("no state or next step: %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cli.ErrTimeout)
	defer cancel()
	if err := c.fetchTo(ctx, c.Server, a, out); !errors.Is(err, cli.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	f.set(1<<30, nil)
	if err := c.fetchTo(t.Context(), c.Server, a, out); err != nil {
		t.Errorf("the control: %v", err)
	}
}

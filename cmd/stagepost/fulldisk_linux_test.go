package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/internal/quiet"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// smallDisk mounts a file system of 32 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m,mode=700"); err != nil {
		t.Fatalf("a small file system is mounted, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes to a file until the disk is full.
func fill(t *testing.T, dir string) (name string) {
	t.Helper()
	name = filepath.Join(dir, "filler")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4096, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// lines is a log that tests read.
type logLines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

// about counts the lines with a text.
func (l *logLines) about(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// fullDisk is a server on a small disk.
type fullDisk struct {
	*testing.T
	storeLog, dir string
	log           logLines
	r             *host.Server
	c             *client.Client
}

func (w *fullDisk) start() {
	w.Helper()
	s := newSettings()
	s.Data, s.Listen, s.StoreLog = w.dir, "127.0.0.1:0", w.storeLog
	ingestOf(s).Reserve = 1 << 20
	r, err := host.Start(w.Context(), s, slog.New(quiet.New(slog.NewTextHandler(&w.log, nil))))
	if err != nil {
		w.Fatal(err)
	}
	if w.c, err = client.New(r.URL, client.Options{}); err != nil {
		w.Fatal(err)
	}
	w.r = r
}

func (w *fullDisk) stop() {
	w.Helper()
	w.c.Close()
	if err := w.r.Stop(); err != nil && !job.IsFull(err) {
		w.Error(err)
	}
}

func (w *fullDisk) submit(payload string) (client.Job, error) {
	return w.c.Submit(w.Context(), client.Submission{Type: "file", Filename: "a.txt", Key: fmt.Sprint(len(payload))},
		strings.NewReader(payload))
}

// untilRefused waits until a write of the store is refused. Without a log the first one is; with one, those until its
// rows are written to the database, up to a second later.
func (w *fullDisk) untilRefused() {
	w.Helper()
	for began := time.Now(); ; {
		_, err := w.c.Hold(w.Context(), client.Hold{Scope: job.Scope{Group: "maps"}, Who: "ann", Why: "a write"})
		if p := client.ProblemOf(err); p != nil && p.Status == http.StatusInsufficientStorage {
			return
		}
		if err != nil || w.storeLog == "off" || time.Since(began) > time.Minute {
			w.Fatalf("hold: %v after %s", err, time.Since(began))
		}
	}
}

// refused checks that the server names the full disk wherever it is asked, and answers reads.
func (w *fullDisk) refused(j job.ID) {
	w.Helper()
	_, err := w.submit("second")
	if p := client.ProblemOf(err); p == nil || p.Status != http.StatusInsufficientStorage ||
		!strings.Contains(p.Detail, "storage full: "+w.dir+" has ") {
		w.Errorf("submit: %v (%+v)", err, p)
	}
	_, err = w.c.Hold(w.Context(), client.Hold{Scope: job.Scope{Group: "maps"}, Who: "ann",
		Why: "a write of the store alone"})
	if p := client.ProblemOf(err); p == nil || p.Status != http.StatusInsufficientStorage ||
		!strings.Contains(p.Detail, w.dir) {
		w.Errorf("hold: %v (%+v)", err, p)
	}
	if _, err := w.c.Health(w.Context()); err == nil || !strings.Contains(err.Error(), "storage full: "+w.dir+" has ") {
		w.Errorf("health: %v", err)
	}
	x, err := w.c.Why(w.Context(), j, time.Time{})
	if err != nil || len(x.Blockers) == 0 || x.Blockers[0].Code != explain.BlockStorage ||
		!strings.Contains(x.Blockers[0].Sentence, w.dir) {
		w.Errorf("why: %v, %+v", err, x.Blockers)
	}
	if _, err := w.c.Job(w.Context(), j); err != nil {
		w.Errorf("reads go on: %v", err)
	}
}

// served checks that commands which open a store without a server send their request to this one, although it is not
// healthy.
func (w *fullDisk) served() {
	w.Helper()
	var errs bytes.Buffer
	code := run([]string{"admin", "verify", "--data", w.dir}, nil, &bytes.Buffer{}, &errs)
	if code != 0 && !strings.Contains(errs.String(), "storage full") { // the rows of the log are not in the database
		w.Errorf("verify: exit code %d, %s", code, &errs)
	}
}

// TestFullDisk: a server on a full disk answers reads, names the disk in health, in refusals and in why, and logs it
// once a minute. It starts on a full disk. With space again it continues by itself. Control: before the disk is full,
// health and submissions are well.
func TestFullDisk(t *testing.T) {
	for _, storeLog := range []string{"on", "off"} {
		t.Run("store.log="+storeLog, func(t *testing.T) {
			testFullDisk(&fullDisk{T: t, storeLog: storeLog, dir: smallDisk(t)})
		})
	}
}

func testFullDisk(w *fullDisk) {
	t := w.T
	w.start()
	if _, err := w.c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.Hold(t.Context(), client.Hold{Scope: job.Scope{Kind: record.BatchKind}, Who: "ann",
		Why: "so that a job waits"}); err != nil {
		t.Fatal(err)
	}
	j, err := w.submit("first")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	filler := fill(t, w.dir)
	w.untilRefused()
	w.refused(j.ID)
	w.served()
	for range 20 {
		w.refused(j.ID)
	}
	w.stop()
	for range 3 {
		fill(t, w.dir) // what the end of the process left
		w.start()
		w.untilRefused()
		w.refused(j.ID)
		w.stop()
	}
	if n, most := w.log.about("storage full"), 4*(2+int(time.Since(began)/quiet.For)); n == 0 || n > most {
		t.Errorf("the log names the full disk %d times, at most %d are wanted:\n%s", n, most, w.log.String())
	}
	w.start()
	defer w.stop()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for wait := time.Now().Add(2 * time.Minute); ; { // the store tries four times a second whether there is space
		_, err := w.c.Health(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(wait) {
			t.Fatalf("with space again: %v\n%s", err, w.log.String())
		}
	}
	if _, err := w.c.Release(t.Context(), job.Scope{Kind: record.BatchKind}, "ann", "there is space"); err != nil {
		t.Fatal(err)
	}
	if end := w.ends(j.ID); end.Outcome != lifecycle.OK {
		t.Errorf("%s ended as %s: %s", end.ID, end.State, end.Message)
	}
	if _, err := w.submit("third..."); err != nil {
		t.Error(err)
	}
}

// ends waits for the end of a job.
func (w *fullDisk) ends(id job.ID) client.Job {
	w.Helper()
	var last client.Job
	err := w.c.Watch(w.Context(), id, 0, func(u client.Update) error {
		if u.Job != nil {
			last = *u.Job
		}
		return nil
	})
	if err != nil && !errors.Is(err, io.EOF) {
		w.Fatal(err)
	}
	return last
}

// TestStartWithoutSpace: the first start on a disk that has no space for a store, or for a part of one, names the
// directory and the next step.
func TestStartWithoutSpace(t *testing.T) {
	for _, free := range []int64{0, 64 << 10} {
		dir := smallDisk(t)
		filler := fill(t, dir)
		if info, err := os.Stat(filler); err != nil || os.Truncate(filler, info.Size()-free) != nil {
			t.Fatal(err)
		}
		s := newSettings()
		s.Data, s.Listen = filepath.Join(dir, "data"), "127.0.0.1:0"
		r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Fatalf("%d bytes free: the server starts: %v", free, r.Stop())
		}
		if text := err.Error(); !strings.Contains(text, "storage full: "+s.Data+" has ") ||
			!strings.HasSuffix(text, "; free space and start the server again") {
			t.Errorf("%d bytes free: %s", free, text)
		}
	}
}

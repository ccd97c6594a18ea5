package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/storetest"
)

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func made(id string) job.Created { return newJob(storetest.Step, id, testTime, func(*job.Job) {}) }

func create(t testing.TB, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Create(t.Context(), made(id)); err != nil {
			t.Fatal(err)
		}
	}
}

func wantKind(t testing.TB, what string, err error, kind job.ErrorKind) {
	t.Helper()
	if got := job.KindOf(err); got != kind {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, kind)
	}
}

// nothing makes an operation of a function that leaves the ledger alone.
func nothing(f func()) func(*ledger.Ledger) error {
	return func(*ledger.Ledger) error { f(); return nil }
}

// clean fails the test unless the store is sound, and closes it.
func clean(t testing.TB, s *Store) {
	t.Helper()
	report, err := s.Fsck(t.Context(), lives, false)
	if err != nil || !report.Clean() {
		t.Errorf("fsck: %v %v", err, report.Faults)
	}
	if _, _, err := s.Verify(t.Context(), "", lives,
		func(id job.ID, err error) { t.Errorf("%s: %v", id, err) }); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
}

// A failed sync stops the store, which notifies its process. The sync is not retried, and the next start has all
// acknowledged writes.
func TestSyncFails(t *testing.T) {
	d, dir := newDisk(t), t.TempDir()
	var died []error
	s := openStore(t, dir, Options{NoLog: true, vfs: d.name, OnDeath: func(err error) { died = append(died, err) }})
	create(t, s, "tst_1")
	syncs := 0
	d.failing(func(op *diskOp) int32 {
		if op.kind != 's' {
			return 0
		}
		syncs++
		return sqlite3.SQLITE_IOERR_FSYNC
	})
	for _, id := range []string{"tst_2", "tst_3"} {
		_, err := s.Create(t.Context(), made(id))
		wantKind(t, "create after a failed sync", err, job.Unavailable)
	}
	_, err := s.Get(t.Context(), "tst_1")
	wantKind(t, "get after a failed sync", err, job.Unavailable)
	if len(died) != 1 || syncs != 1 {
		t.Errorf("stopped %d times after %d syncs, want once after one", len(died), syncs)
	}
	select {
	case <-s.Dead():
	default:
		t.Error("Dead delivers no error")
	}
	_ = s.Close() // its checkpoint fails as well
	s = openStore(t, dir, Options{})
	if _, err := s.Get(t.Context(), "tst_1"); err != nil {
		t.Error(err)
	}
	clean(t, s)
}

// An error at any single operation of the disk: what was acknowledged is there at the next start, and the store is
// sound.
func TestDiskErrorAnywhere(t *testing.T) {
	diskErrorAnywhere(t, func(*disk) Options { return Options{NoLog: true} })
}

// With a log the errors are those of its files too. The applier begins at once, so that a part of the errors are its.
func TestDiskErrorAnywhereWithLog(t *testing.T) {
	diskErrorAnywhere(t, func(d *disk) Options {
		return Options{logSize: 16 << 10, logTap: d.frontLog, applyAfter: time.Microsecond}
	})
}

func diskErrorAnywhere(t *testing.T, options func(*disk) Options) {
	t.Helper()
	for _, code := range []int32{sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_FULL} {
		for n := 1; ; n += faultStride {
			d, dir := newDisk(t), t.TempDir()
			o := options(d)
			o.vfs, o.frames, o.Readers = d.name, 10, 1
			s := openStore(t, dir, o)
			count := 0
			d.failing(func(op *diskOp) int32 {
				if op.kind == 'a' || op.kind == 'd' || (op.kind == 's') != (code == sqlite3.SQLITE_IOERR_FSYNC) {
					return 0
				}
				if count++; count == n {
					return code
				}
				return 0
			})
			acked := 0
			for i := range 8 {
				if _, err := s.Create(t.Context(), made(fmt.Sprint("tst_", i))); err == nil {
					acked |= 1 << i
				} else {
					wantKind(t, "create", err, job.Unavailable)
				}
			}
			d.mu.Lock()
			reached := count >= n
			d.fail = nil
			d.mu.Unlock()
			_ = s.Close()
			s = openStore(t, dir, Options{Readers: 1})
			for i := range 8 {
				if _, err := s.Get(t.Context(), job.ID(fmt.Sprint("tst_", i))); err != nil && acked&(1<<i) != 0 {
					t.Errorf("code %d at operation %d: job %d was acknowledged: %v", code, n, i, err)
				}
			}
			clean(t, s)
			if !reached {
				break
			}
		}
	}
}

// On a full disk the store refuses writes and serves reads; it continues when there is free space.
func TestDiskFull(t *testing.T) {
	diskFull(t, func(*disk) Options { return Options{NoLog: true} })
}

// With a log, what the database lacks is read from memory meanwhile.
func TestDiskFullWithLog(t *testing.T) {
	diskFull(t, func(d *disk) Options { return Options{logTap: d.frontLog, applyAfter: time.Hour} })
}

// A disk that is full for the database alone refuses writes as soon as the applier meets it, although the log has
// space; what was acknowledged stays.
func TestDiskFullForApplier(t *testing.T) {
	d := newDisk(t)
	s := openStore(t, t.TempDir(), Options{logTap: d.frontLog, applyAfter: time.Hour, vfs: d.name})
	d.failing(func(op *diskOp) int32 {
		if op.kind == 'w' && strings.HasPrefix(op.file, database) {
			return sqlite3.SQLITE_FULL
		}
		return 0
	})
	create(t, s, "tst_1") // the log has space
	var full *job.Full
	if err := s.applier.flush(t.Context()); !errors.As(err, &full) {
		t.Errorf("flush: %v", err)
	}
	if s.Full().IsZero() {
		t.Error("the store does not report the full disk before the next write")
	}
	if _, err := s.Create(t.Context(), made("tst_2")); !errors.As(err, &full) || s.Full().IsZero() {
		t.Errorf("create: %v, full since %v", err, s.Full())
	}
	if _, err := s.Get(t.Context(), "tst_1"); err != nil {
		t.Error("reads must go on:", err)
	}
	d.failing(nil)
	// as if a quarter of a second had passed
	if err := s.do(t.Context(), true, nothing(func() { s.tried = time.Time{} })); err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_2")
	if !s.Full().IsZero() {
		t.Errorf("with space again: full since %v", s.Full())
	}
	clean(t, s)
}

// A database that another program locks is no full disk: the applier waits for it, and commits go on. The control is
// TestDiskFullForApplier.
func TestDatabaseLockedForApplier(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{applyAfter: time.Hour})
	other, err := conn.Open(filepath.Join(dir, database), conn.ReadWrite, "")
	if err == nil {
		err = errors.Join(other.Exec("BEGIN IMMEDIATE"), s.records.c.Exec("PRAGMA busy_timeout = 0"))
	}
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_1")
	err = s.applier.flush(t.Context())
	wantKind(t, "flush", err, job.Unavailable)
	if job.IsFull(err) || !s.Full().IsZero() {
		t.Errorf("a locked database counts as a full disk: %v", err)
	}
	create(t, s, "tst_2")
	if err := errors.Join(other.Close(), s.applier.flush(t.Context())); err != nil {
		t.Error(err)
	}
	clean(t, s)
}

func diskFull(t *testing.T, options func(*disk) Options) {
	t.Helper()
	d, dir := newDisk(t), t.TempDir()
	o := options(d)
	o.vfs, o.Space = d.name, func(string) (free, total int64, err error) { return 17, 1000, nil }
	s := openStore(t, dir, o)
	create(t, s, "tst_1")
	if err := s.Writable(t.Context()); err != nil || !s.Full().IsZero() {
		t.Errorf("control: a disk with space: %v, full since %v", err, s.Full())
	}
	d.failing(func(op *diskOp) int32 {
		if op.kind == 'w' {
			return sqlite3.SQLITE_FULL
		}
		return 0
	})
	_, err := s.Create(t.Context(), made("tst_2"))
	wantKind(t, "create on a full disk", err, job.Unavailable)
	var full *job.Full
	if !errors.As(err, &full) || full.Dir != dir || full.Free != 17 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error does not name directory and bytes: %v", err)
	}
	if err := s.Writable(t.Context()); !errors.As(err, &full) || s.Full().IsZero() {
		t.Errorf("a full disk counts as writable: %v, full since %v", err, s.Full())
	}
	_, err = s.Create(t.Context(), made("tst_2"))
	wantKind(t, "create on a full disk again", err, job.Unavailable)
	if _, err := s.Get(t.Context(), "tst_1"); err != nil {
		t.Error("reads must go on:", err)
	}
	if all, err := s.Count(t.Context()); err != nil || len(all) != 1 || all[0].Jobs != 1 {
		t.Errorf("counts must go on: %v %v", all, err)
	}
	d.failing(nil)
	// as if a quarter of a second had passed
	if err := s.do(t.Context(), true, nothing(func() { s.tried = time.Time{} })); err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_2")
	if err := s.Writable(t.Context()); err != nil || !s.Full().IsZero() {
		t.Errorf("with space again: %v, full since %v", err, s.Full())
	}
	clean(t, s)
}

// Of operations in one transaction, one whose statement fails takes no other along.
func TestGuiltyAlone(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	create(t, s, "tst_1")
	gate, inside := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // keeps the loop until all others wait
		_ = s.do(context.Background(), true, nothing(func() { close(inside); <-gate }))
	})
	<-inside
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			if i == 5 {
				errs[i] = s.do(context.Background(), false,
					nothing(func() { _ = s.records.try(errors.New("planted")) }))
				return
			}
			_, errs[i] = s.Create(context.Background(), made(fmt.Sprint("tst_a", i)))
		})
	}
	for s.inbox.count.Load() < int32(len(errs)) {
		runtime.Gosched()
	}
	close(gate)
	wg.Wait()
	for i, err := range errs {
		want := job.ErrorKind("")
		if i == 5 {
			want = job.Unavailable
		}
		wantKind(t, fmt.Sprint("operation ", i), err, want)
	}
	clean(t, s)
}

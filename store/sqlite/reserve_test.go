package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stagepost/stagepost/job"
)

// fullFor makes writes to the files of the database, or of the log, fail for lack of space.
func (d *disk) fullFor(file string) {
	d.failing(func(op *diskOp) int32 {
		if op.kind != 's' && op.kind != 'd' && strings.HasPrefix(op.file, file) {
			return sqlite3.SQLITE_FULL
		}
		return 0
	})
}

// wantFull reports an error that does not name a full disk.
func wantFull(t *testing.T, what string, err error) {
	t.Helper()
	var full *job.Full
	if !errors.As(err, &full) {
		t.Errorf("%s: got %v, want an error that names the full disk", what, err)
	}
}

// tryAgain lets a store on a full disk test at its next write whether there is space.
func tryAgain(t *testing.T, s *Store) {
	t.Helper()
	if err := s.do(t.Context(), true, nothing(func() { s.tried = time.Time{} })); err != nil {
		t.Fatal(err)
	}
}

// A store that cannot write its rows to the database when it is closed returns the reason. They stay in the log: a
// start without space fails for the same reason, and one with space has them. The control: the database lacks them.
func TestCloseOnFullDisk(t *testing.T) {
	d, dir := newDisk(t), t.TempDir()
	o := Options{Log: true, logTap: d.frontLog, applyAfter: time.Hour, vfs: d.name}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_1")
	d.fullFor(database)
	err = s.Close()
	wantFull(t, "close", err)
	wantKind(t, "close", err, job.Unavailable)
	if got := texts(t, dir, "SELECT count(*) FROM jobs", 1)[0]; got != "0" {
		t.Errorf("the database has %s jobs: the test is blind", got)
	}
	_, err = Open(dir, o)
	wantFull(t, "open", err)
	d.failing(nil)
	for _, o := range []Options{o, {}} {
		s = openStore(t, dir, o)
		wantJobs(t, s, "tst_1")
		clean(t, s)
	}
}

// needReserve makes writes to the database fail as long as the reserve takes the space.
func (d *disk) needReserve(dir string) {
	d.failing(func(op *diskOp) int32 {
		_, err := os.Lstat(filepath.Join(dir, logName, reserveName))
		if err == nil && op.kind == 'w' && strings.HasPrefix(op.file, database) {
			return sqlite3.SQLITE_FULL
		}
		return 0
	})
}

// When the disk fills up, the reserve gives its space for what is in the log, for the applier and at a start. The store
// then refuses writes until the reserve exists again.
func TestReserve(t *testing.T) {
	d, dir := newDisk(t), t.TempDir()
	o := Options{Log: true, logTap: d.frontLog, applyAfter: time.Hour, vfs: d.name}
	s := openStore(t, dir, o)
	create(t, s, "tst_1")
	copied := killed(t, dir)
	d.needReserve(dir)
	if err := s.applier.flush(t.Context()); err != nil {
		t.Errorf("with the reserve: %v", err)
	}
	if s.Full().IsZero() {
		t.Error("the store does not report the full disk before a write")
	}
	reserve := filepath.Join(dir, logName, reserveName)
	if err := os.MkdirAll(filepath.Join(reserve, "a"), 0o700); err != nil { // it cannot be made
		t.Fatal(err)
	}
	d.failing(nil)
	for range 2 {
		tryAgain(t, s)
		_, err := s.Create(t.Context(), made("tst_2"))
		wantFull(t, "create without the reserve", err)
	}
	if err := os.RemoveAll(reserve); err != nil {
		t.Fatal(err)
	}
	tryAgain(t, s)
	create(t, s, "tst_2")
	if info, err := os.Lstat(reserve); err != nil || info.Size() != reserveSize || !s.Full().IsZero() {
		t.Errorf("with space again: %v, full since %v", err, s.Full())
	}
	clean(t, s)

	d.needReserve(copied)
	s = openStore(t, copied, o)
	d.failing(nil)
	wantJobs(t, s, "tst_1")
	clean(t, s)
}

// A store starts on a disk that has no space for its log: it answers reads and refuses writes. With space again it
// makes the log.
func TestStartOnFullDiskWithLog(t *testing.T) {
	d, dir := newDisk(t), t.TempDir()
	o := Options{Log: true, logTap: d.frontLog, applyAfter: time.Hour, vfs: d.name}
	s := openStore(t, dir, o)
	create(t, s, "tst_1")
	clean(t, s)
	d.fullFor("")
	s = openStore(t, dir, o)
	if s.Full().IsZero() || s.records.front.usable() {
		t.Error("the store does not report the full disk, or has a log")
	}
	wantJobs(t, s, "tst_1")
	_, err := s.Create(t.Context(), made("tst_2"))
	wantFull(t, "create", err)
	d.failing(nil)
	tryAgain(t, s)
	create(t, s, "tst_2")
	if !s.Full().IsZero() || s.overlay.empty() {
		t.Errorf("with space again: full since %v, all is in the database: %t", s.Full(), s.overlay.empty())
	}
	clean(t, s)
}

package sqlite

import (
	"errors"
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

// A store that cannot write its rows to the database when it is closed returns the reason. They stay in the log: a
// start without space fails for the same reason, and one with space has them. The control: the database lacks them.
func TestCloseOnFullDisk(t *testing.T) {
	d, dir := newDisk(t), t.TempDir()
	o := Options{logTap: d.frontLog, applyAfter: time.Hour, vfs: d.name}
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
	for _, o := range []Options{o, {NoLog: true}} {
		s = openStore(t, dir, o)
		wantJobs(t, s, "tst_1")
		clean(t, s)
	}
}

// A store starts on a disk that has no space for its log: it answers reads, and writes as far as the database has
// space. With space again it makes the log.
func TestStartOnFullDiskWithLog(t *testing.T) {
	d, dir := newDisk(t), t.TempDir()
	o := Options{logTap: d.frontLog, applyAfter: time.Hour, vfs: d.name}
	s := openStore(t, dir, o)
	create(t, s, "tst_1")
	clean(t, s)
	d.fullFor(logName)
	s = openStore(t, dir, o)
	wantJobs(t, s, "tst_1")
	create(t, s, "tst_2") // the database has space
	if s.records.front.usable() || !s.overlay.empty() {
		t.Error("there is a log: the test is blind")
	}
	d.fullFor("")
	_, err := s.Create(t.Context(), made("tst_3"))
	wantFull(t, "create", err)
	d.failing(nil)
	err = s.do(t.Context(), true, nothing(func() { s.tried, s.triedLog = time.Time{}, time.Time{} }))
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_3")
	if !s.Full().IsZero() || s.overlay.empty() {
		t.Errorf("with space again: full since %v, all is in the database: %t", s.Full(), s.overlay.empty())
	}
	again := openStore(t, killed(t, dir), o)
	wantJobs(t, again, "tst_1", "tst_2", "tst_3")
	clean(t, again)
	clean(t, s)
}

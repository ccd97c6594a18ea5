package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Report is the result of a check of the database.
type Report struct {
	Jobs, Events, Tasks, Messages int64
	Faults                        []Fault
	More                          int64 // faults beyond those listed
}

// Clean reports whether there was no fault, or all were repaired.
func (r *Report) Clean() bool {
	for _, f := range r.Faults {
		if !f.Repaired {
			return false
		}
	}
	return r.More == 0
}

// Fault is one fault of the database.
type Fault struct {
	Job      job.ID // empty if it concerns no job
	Text     string
	Repaired bool // it was derived from other data and has been rebuilt
}

func (f Fault) String() string {
	text := f.Text
	if f.Job != "" {
		text = string(f.Job) + ": " + text
	}
	if f.Repaired {
		text += " (repaired)"
	}
	return text
}

// mostFaults bounds a report.
const mostFaults = 1000

// Lives returns the lifecycle of a kind, nil if it is unknown.
type Lives = func(job.Kind) *lifecycle.Table

// Fsck compares all derived data with its sources, in the file and in memory, and with repair rebuilds what differs.
// Records and history are authoritative: they are never changed, only reported. Writers wait while it runs, about
// three seconds for a million jobs. The error means that the check could not continue.
func (s *Store) Fsck(ctx context.Context, lives Lives, repair bool) (Report, error) {
	var report Report
	err := s.do(ctx, true, func(l *ledger.Ledger) error {
		f := newFsck(ctx, s.records.c, s.names, lives, repair)
		if err := f.run(); err != nil {
			return err
		}
		s.fsckMemory(f, l)
		report = f.report
		if !repair || len(report.Faults) == 0 {
			return nil
		}
		s.records.cache.clear()
		clear(s.records.damaged)
		fresh := &lines{}
		again, err := load([]*conn.Conn{s.records.c}, s.names, fresh, nil)
		if err != nil {
			return err
		}
		s.ledger = again
		s.lines.replace(fresh)
		return s.records.findNext()
	})
	if err != nil && job.KindOf(err) != job.Unavailable {
		err = &job.Error{Op: "fsck", Kind: job.Internal, Err: err}
	}
	return report, err
}

// FsckDir checks the database in a directory that no process has open, such as one that Open refuses.
func FsckDir(ctx context.Context, dir string, lives Lives, repair bool) (report Report, err error) {
	if err := prepareDir(dir); err != nil {
		return report, err
	}
	s := &Store{dir: dir, options: Options{}.withDefaults(), names: newNames()}
	if s.owner, err = own(dir, s.options.OnLock); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.owner.release()) }()
	c, err := s.connect(conn.ReadWrite, "")
	if err != nil {
		return report, openError(dir, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := migrate(c); err != nil {
		return report, openError(dir, err)
	}
	if err := s.names.load(c); err != nil {
		return report, openError(dir, err)
	}
	f := newFsck(ctx, c, s.names, lives, repair)
	if err := f.run(); err != nil {
		return f.report, openError(dir, fmt.Errorf("fsck %s: %w", filepath.Join(dir, database), err))
	}
	return f.report, nil
}

// fsckMemory compares the memory of the store with a fresh load.
func (s *Store) fsckMemory(f *fsck, l *ledger.Ledger) {
	fresh := &lines{}
	again, err := load([]*conn.Conn{f.c}, s.names, fresh, s.records.damaged)
	if err != nil {
		f.fault("", false, "the records cannot be loaded: %v", err)
		return
	}
	counts := map[job.Tally]int64{}
	tally := func(all []job.Tally, sign int64) {
		for _, t := range all {
			jobs, claimed, bytes := t.Jobs, t.Claimed, t.Bytes
			t.Jobs, t.Claimed, t.Bytes = 0, 0, 0
			counts[t] += sign * jobs
			t.Claimed = 1 // count the claimed ones separately, and the bytes
			counts[t] += sign * claimed
			t.Claimed, t.Bytes = 0, 1
			counts[t] += sign * bytes
		}
	}
	tally(l.Tally(), 1)
	tally(again.Tally(), -1)
	for t, n := range counts {
		if n != 0 {
			what := "jobs"
			if t.Bytes != 0 {
				what = "bytes"
			}
			f.fault("", f.repair, "%d %s too many counted in %s %s group %q", n, what, t.Kind, t.State, t.Group)
		}
	}
	if n, differ := s.lines.differ(fresh); differ > 0 {
		f.fault("", f.repair, "%d jobs are listed wrongly, the first in row %d", differ, n)
	}
	if got, want := len(l.Holds()), len(again.Holds()); got != want {
		f.fault("", f.repair, "%d holds in force, %d on the disk", got, want)
	}
}

// differ counts the lines that differ, and returns the first.
func (l *lines) differ(other *lines) (first, n int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for row := max(l.highest, other.highest); row > 0; row-- {
		if l.at(row) != other.at(row) {
			first, n = row, n+1
		}
	}
	return first, n
}

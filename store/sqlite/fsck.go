package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/dirowner"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
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

// FsckDir checks the database in a directory that no process has open, such as one that Open refuses. First it writes
// the rows of the log that the database lacks, as Open does; a log that cannot be used is a fault, and the database is
// checked as it is.
func FsckDir(ctx context.Context, dir string, lives Lives, repair bool) (report Report, err error) {
	if err := prepareDir(dir); err != nil {
		return report, err
	}
	s := &Store{dir: dir, options: Options{}.withDefaults(), names: newNames()}
	if s.owner, err = dirowner.Take(dir, s.options.OnLock); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.owner.Close()) }()
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
	if err := s.fsckLog(f); err != nil {
		return f.report, openError(dir, err)
	}
	for _, part := range []func() error{f.check, f.mend, f.sums} {
		if err := part(); err != nil {
			return f.report, openError(dir, fmt.Errorf("fsck %s: %w", filepath.Join(dir, database), err))
		}
	}
	return f.report, nil
}

// fsckLog applies what is left in the log.
func (s *Store) fsckLog(f *fsck) (err error) {
	db, err := headOf(f.c)
	if err != nil {
		return nil // the checks that follow have the reason
	}
	if s.installation, err = identify(f.c); err != nil {
		return err
	}
	batches, _, damage, err := s.readLog(db.logged)
	if err != nil || len(batches) == 0 && damage == "" {
		return err
	}
	s.lines = &lines{}
	if s.records, err = newRecords(f.c, s.names, s.lines, s.options.CacheJobs); err == nil {
		if err = s.records.findNext(f.c); err == nil {
			err = s.replay()
		}
		if file := s.records.headFile; file != nil {
			err = errors.Join(err, file.close())
		}
	}
	if err == nil {
		return nil
	}
	f.fault("", false, "the rows of %s are not in the database: %v", logName, err)
	if f.c.InTransaction() {
		return f.c.Exec("ROLLBACK")
	}
	return nil
}

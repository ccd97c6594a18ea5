package sqlite

import (
	"context"
	"errors"
	"maps"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Fsck compares all derived data with its sources, in the file and in memory, and with repair rebuilds what differs.
// Records and history are authoritative: they are never changed, only reported. It reads the database as of its
// begin, so commits continue; the log is not cleared before it ends, as during a backup. A repair stops the commit
// loop for at most 256 rows at a time. A job that changes between check and repair is reported and not repaired. The
// error means that the check could not continue.
func (s *Store) Fsck(ctx context.Context, lives Lives, repair bool) (report Report, err error) {
	s.checks.RLock() // Close waits
	defer s.checks.RUnlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	f := newFsck(ctx, nil, s.names, lives, repair)
	if err = s.fsck(ctx, f); err != nil && job.KindOf(err) != job.Unavailable {
		err = &job.Error{Op: "fsck", Kind: job.Internal, Err: err}
	}
	return f.report, err
}

func (s *Store) fsck(ctx context.Context, f *fsck) (err error) {
	p, err := s.pin(ctx)
	if err != nil {
		return err
	}
	defer p.close(&err)
	f.c = p.c
	if err := f.check(); err != nil {
		return err
	}
	if err := s.fsckMemory(f, p); err != nil || !f.repair {
		return errors.Join(err, f.sums())
	}
	if err := p.release(); err != nil || len(f.report.Faults) == 0 {
		return err
	}
	if err := s.mend(ctx, f, p); err != nil {
		return err
	}
	if err := s.rebuild(ctx); err != nil {
		return err
	}
	return s.read(ctx, "fsck", "", func(r *reader) error {
		f.c = r.c
		return f.sums()
	})
}

// between runs do between two transactions, when the database has everything. Most of what the log has in front of it
// is written before, while the store continues.
func (s *Store) between(ctx context.Context, do func(*ledger.Ledger) error) error {
	if err := s.applier.flush(ctx); err != nil {
		return err
	}
	return s.do(ctx, true, func(l *ledger.Ledger) error {
		if err := s.applier.flush(ctx); err != nil {
			return err
		}
		s.writer.Lock()
		defer s.writer.Unlock()
		return do(l)
	})
}

// pinned is the state of the store between two commits, which stays readable while it continues.
type pinned struct {
	s       *Store
	c       *conn.Conn
	changed *tracked // rows that changed since
	counts  []job.Tally
	holds   int
	damaged map[job.ID]error
}

// pin pins the present state until close. It copies the counts, which takes the commit loop about 0.4 us for each kind,
// state and group that has jobs: docs/design.md.
func (s *Store) pin(ctx context.Context) (*pinned, error) {
	select {
	case <-s.stopped:
		return nil, &job.Error{Op: "fsck", Kind: job.Unavailable, Err: errClosed}
	default:
	}
	c, err := s.connect(conn.ReadWrite, "PRAGMA query_only = ON")
	if err != nil {
		return nil, err
	}
	p := &pinned{s: s, c: c}
	err = s.between(ctx, func(l *ledger.Ledger) error {
		s.sliced(0)
		p.counts, p.holds, p.damaged = l.Tally(), len(l.Holds()), maps.Clone(s.records.damaged)
		p.changed = s.lines.track()
		return c.Exec("BEGIN; SELECT count(*) FROM sqlite_schema")
	})
	if err != nil {
		p.close(&err)
		return nil, err
	}
	return p, nil
}

// release ends the reading, so that the log can be cleared. The rows that change are still noted.
func (p *pinned) release() error {
	if p.c == nil {
		return nil
	}
	err := p.c.Close()
	p.c = nil
	return err
}

// close ends it. It adds its error to err.
func (p *pinned) close(err *error) {
	p.s.lines.untrack(p.changed)
	*err = errors.Join(*err, p.release())
}

// sliced is called by the loop for rows that it reads or changes for a check.
func (s *Store) sliced(rows int) {
	if s.options.slice != nil {
		s.options.slice(rows)
	}
}

// fsckMemory compares the memory of the store, as of p, with a fresh load.
func (s *Store) fsckMemory(f *fsck, p *pinned) error {
	fresh := &lines{}
	again, err := load([]*conn.Conn{p.c}, s.names, fresh, p.damaged, recent{})
	if err != nil {
		f.fault("", false, "the records cannot be loaded: %v", err)
		return nil
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
	tally(p.counts, 1)
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
	if n, differ := s.lines.differ(fresh, p.changed); differ > 0 {
		f.fault("", f.repair, "%d jobs are listed wrongly, the first in row %d", differ, n)
	}
	if got, want := p.holds, len(again.Holds()); got != want {
		f.fault("", f.repair, "%d holds in force, %d on the disk", got, want)
	}
	return f.ctx.Err()
}

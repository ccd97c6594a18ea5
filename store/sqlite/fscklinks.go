package sqlite

import (
	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// children recounts the jobs of every batch.
func (f *fsck) children() error {
	const sql = `SELECT m.n, m.id, m.parent, j.state, j.ended, j.outcome, m.kind FROM job_made m JOIN job_now j ON j.n = m.n
 WHERE m.parent IS NOT NULL ORDER BY m.n`
	err := each(f.c, sql, func(s *conn.Stmt) error {
		parent := s.GetInt(2)
		facts := f.of(parent)
		if facts == nil {
			f.fault(job.ID(s.GetText(1)), false, "its parent (row %d) does not exist", parent)
			return nil
		}
		child := job.Job{
			Position: lifecycle.Position{Outcome: lifecycle.Outcome(f.names.getName(s, 5))},
			Ended:    s.GetInt(4) > 0, Gone: s.GetInt(4) == 2,
		}
		// the flag may be under repair itself
		if life := f.lives(job.Kind(f.names.getName(s, 6))); life != nil && f.repair {
			state := lifecycle.State(f.names.getName(s, 3))
			if _, known := life.Stage(state); known {
				child.Ended, child.Gone = life.Ended(state), life.Tombstone(state)
			}
		}
		if facts.real == nil {
			facts.real = &job.Children{}
		}
		facts.real.Add(&child, 1)
		return nil
	})
	for i := range f.rows {
		f.counts(&f.rows[i])
	}
	return err
}

func (f *fsck) counts(facts *rowFacts) {
	n := facts.n
	var says, real job.Children
	if facts.counts != nil {
		says = *facts.counts
	}
	if facts.real != nil {
		real = *facts.real
	}
	real.Expected = says.Expected                  // authoritative in the record itself
	real.Deleted = max(real.Deleted, says.Deleted) // records of deleted jobs may have been purged
	if facts.there && real.Created() > real.Expected {
		f.fault(f.id(n), false, "it expects %d jobs and has %d", real.Expected, real.Created())
	}
	if facts.there && says != real {
		f.derived(f.id(n), countsFix(n, &says, &real),
			"counts its jobs as %s, they are %s", children(&says), children(&real))
	}
}

// id returns the ID of a row for a message.
func (f *fsck) id(n int64) (id job.ID) {
	s, err := f.c.Prepare("SELECT id FROM job_made WHERE n = ?")
	if err != nil {
		return ""
	}
	defer s.Close()
	s.Int(1, n)
	if row, err := s.Step(); row && err == nil {
		id = job.ID(s.GetText(0))
		s.Reset()
	}
	return id
}

// events reads the history of all jobs in one pass, in the order in which it was written.
func (f *fsck) events() error {
	const sql = "SELECT e, job, coalesce(back, 0), seq, move FROM event ORDER BY e"
	err := each(f.c, sql, func(s *conn.Stmt) error {
		e, n, back, seq := s.GetInt(0), s.GetInt(1), s.GetInt(2), s.GetInt(3)
		f.report.Events++
		facts := f.of(n)
		if facts == nil {
			f.derived("", rowFix(n, "DELETE FROM event WHERE e = ?", e), "history entry %d belongs to no job (row %d)",
				e, n)
			return nil
		}
		if m := s.GetInt(4); f.names.moves.value(m) == (move{}) {
			f.fault(f.id(n), false, "move %d of its history is not in the dictionary", m)
		}
		if seq != facts.gotSeq+1 {
			f.fault(f.id(n), false, "history entry %d is followed by %d", facts.gotSeq, seq)
		}
		want := e - facts.gotLast
		if facts.gotSeq == 0 {
			want = 0
		}
		if back != want {
			f.derived(f.id(n), rowFix(n, "UPDATE event SET back = nullif(?2, 0) WHERE e = ?1", e, want),
				"history entry %d points back by %d, not %d", seq, back, want)
		}
		facts.gotSeq, facts.gotLast = seq, e
		return f.ctx.Err()
	})
	for i := range f.rows {
		facts := &f.rows[i]
		if !facts.there {
			continue
		}
		if facts.seq != facts.gotSeq {
			f.fault(f.id(facts.n), false, "the record counts %d history entries, there are %d", facts.seq,
				facts.gotSeq)
		} else if facts.last != facts.gotLast {
			f.derived(f.id(facts.n),
				rowFix(facts.n, "UPDATE job_now SET last = ?2 WHERE n = ?1", facts.n, facts.gotLast),
				"the record names %d as its last history entry, it is %d", facts.last, facts.gotLast)
		}
	}
	return err
}

// keys compares the index of idempotency keys with the records.
func (f *fsck) keys() error {
	const lost = `SELECT m.n, m.id, m.key, m.kind, CASE typeof(m.owner) WHEN 'integer' THEN (SELECT text FROM word WHERE w = m.owner)
 ELSE coalesce(m.owner, '') END AS who FROM job_made m WHERE m.key IS NOT NULL AND NOT EXISTS
 (SELECT 1 FROM job_key k WHERE k.key = m.key AND k.kind = m.kind AND k.n = m.n AND k.owner = who)`
	err := each(f.c, `SELECT k.key, k.kind, k.owner, k.n FROM job_key k LEFT JOIN job_made m ON m.n = k.n
 WHERE m.n IS NULL OR m.key IS NOT k.key OR m.kind <> k.kind`, func(s *conn.Stmt) error {
		f.derived("", rowFix(s.GetInt(3), "DELETE FROM job_key WHERE key = ? AND kind = ? AND owner = ? AND n = ?",
			s.GetText(0), s.GetInt(1), s.GetText(2), s.GetInt(3)),
			"key %q names a job that does not have it", s.GetText(0))
		return nil
	})
	if err != nil {
		return err
	}
	return each(f.c, lost, func(s *conn.Stmt) error {
		f.derived(job.ID(s.GetText(1)), rowFix(s.GetInt(0),
			"INSERT OR IGNORE INTO job_key (key, kind, owner, n) VALUES (?, ?, coalesce(?, ''), ?)",
			s.GetText(2), s.GetInt(3), s.GetText(4), s.GetInt(0)), "cannot be found by its key %q", s.GetText(2))
		return nil
	})
}

// orphans finds the data of jobs that do not exist.
func (f *fsck) orphans() error {
	err := each(f.c, "SELECT job, name, job IN (SELECT n FROM job_made) FROM task", func(s *conn.Stmt) error {
		f.report.Tasks++
		if s.GetInt(2) == 0 {
			f.derived("", rowFix(s.GetInt(0), "DELETE FROM task WHERE job = ? AND name = ?", s.GetInt(0), s.GetText(1)),
				"task %q belongs to no job (row %d)", s.GetText(1), s.GetInt(0))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = each(f.c, "SELECT n FROM job_data WHERE n NOT IN (SELECT n FROM job_made)", func(s *conn.Stmt) error {
		f.derived("", rowFix(s.GetInt(0), "DELETE FROM job_data WHERE n = ?", s.GetInt(0)),
			"data of no job (row %d)", s.GetInt(0))
		return nil
	})
	if err != nil {
		return err
	}
	const sql = "SELECT m, key, job, job = '' OR job IN (SELECT id FROM job_made), settled IS NULL FROM message"
	return each(f.c, sql, func(s *conn.Stmt) error {
		f.report.Messages++
		if s.GetInt(3) == 0 && s.GetInt(4) == 1 {
			f.derived(job.ID(s.GetText(2)), rowFix(0,
				"UPDATE message SET settled = 'given-up', error = 'its job does not exist' WHERE m = ? "+
					"AND settled IS NULL AND job NOT IN (SELECT id FROM job_made)", s.GetInt(0)),
				"message %q waits for delivery, its job does not exist", s.GetText(1))
		}
		return nil
	})
}

// holds checks that the key of each hold is its scope.
func (f *fsck) holds() error {
	return each(f.c, "SELECT scope, kind, state, grp, owner, job, tag FROM hold", func(s *conn.Stmt) error {
		scope := job.Scope{
			Kind: job.Kind(s.GetText(1)), State: lifecycle.State(s.GetText(2)), Group: s.GetText(3),
			Owner: s.GetText(4),
			Job:   job.ID(s.GetText(5)), Tag: s.GetText(6),
		}
		if scope.String() != s.GetText(0) {
			f.derived(scope.Job,
				rowFix(0, "UPDATE hold SET scope = ?2 WHERE scope = ?1", s.GetText(0), scope.String()),
				"the hold on %s is filed under %q", scope, s.GetText(0))
		}
		return nil
	})
}

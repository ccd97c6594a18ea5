package sqlite

import (
	"slices"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// Names in table given for numbers.
const (
	givenRow     = "row"
	givenEvent   = "history entry"
	givenMessage = "message"
	givenNumber  = "number of "
)

// purging are the statements of a purge, prepared by the first one.
type purging struct{ made, now, data, key, back, event, tasks, messages, given *conn.Stmt }

func (p *purging) prepare(c *conn.Conn) error {
	if p.made != nil {
		return nil
	}
	return prepare(c, map[**conn.Stmt]string{
		&p.made:     "DELETE FROM job_made WHERE n = ?",
		&p.now:      "DELETE FROM job_now WHERE n = ?",
		&p.data:     "DELETE FROM job_data WHERE n = ?",
		&p.key:      "DELETE FROM job_key WHERE key = ? AND kind = ? AND owner = ?",
		&p.back:     "SELECT coalesce(back, 0) FROM event WHERE e = ? AND job = ?",
		&p.event:    "DELETE FROM event WHERE e = ?",
		&p.tasks:    "DELETE FROM task WHERE job = ?",
		&p.messages: "DELETE FROM message WHERE job = ?",
		&p.given:    "INSERT INTO given (what, n) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET n = max(n, ?2)",
	})
}

// children counts the jobs whose parent is a job, up to a number. It searches the committed lines. A deleted parent
// gets no jobs, and the open transaction may have purged some of those it had.
func (r *records) children(parent job.ID, most int) (count int, err error) {
	if r.logging() != nil {
		return 0, r.try(errNotLogged)
	}
	e, err := r.entry(parent)
	if err != nil {
		return 0, r.try(err)
	}
	row := uint32(e.n)
	for from := int64(1); ; {
		found := r.shown.search(&want{parent: &row}, from, 1, 64)
		for _, n := range found {
			if !slices.ContainsFunc(r.lines, func(c lineChange) bool { return c.n == n && c.gone }) {
				count++
			}
			if count == most {
				return count, nil
			}
		}
		if len(found) < 64 {
			return count, nil
		}
		from = found[len(found)-1] + 1
	}
}

// lastNumbers are the highest numbers so far, which are kept when the job that may have the highest is purged.
type lastNumbers struct {
	job     int64 // of the job's kind
	message int64
}

// purgeJob removes a record with its history, tasks and messages. Its key is free afterwards.
func (r *records) purgeJob(j *job.Job, last lastNumbers) error {
	if r.logging() != nil {
		return r.try(errNotLogged)
	}
	e, err := r.entry(j.ID)
	if err != nil {
		return r.try(err)
	}
	if err := r.try(r.purge(e, last)); err != nil {
		return err
	}
	r.cache.drop(j.ID)
	r.lines = append(r.lines, lineChange{n: e.n, gone: true})
	return nil
}

func (r *records) purge(e *entry, last lastNumbers) error {
	p := &r.purging
	if err := p.prepare(r.c); err != nil {
		return err
	}
	for _, given := range []struct {
		what string
		n    int64
	}{
		{givenRow, r.nextRow - 1}, {givenEvent, r.nextEvent - 1}, {givenMessage, last.message},
		{givenNumber + string(e.job.Kind), last.job},
	} {
		p.given.Text(1, given.what)
		p.given.Int(2, given.n)
		if err := p.given.Run(); err != nil {
			return err
		}
	}
	if e.job.Key != "" {
		p.key.Text(1, e.job.Key)
		if err := r.names.bindName(p.key, 2, string(e.job.Kind)); err != nil {
			return err
		}
		p.key.Text(3, e.job.Owner)
		if err := p.key.Run(); err != nil {
			return err
		}
	}
	if err := r.purgeHistory(e); err != nil {
		return err
	}
	p.messages.Text(1, string(e.job.ID))
	if err := p.messages.Run(); err != nil {
		return err
	}
	for _, s := range []*conn.Stmt{p.tasks, p.data, p.now, p.made} {
		s.Int(1, e.n)
		if err := s.Run(); err != nil {
			return err
		}
	}
	return nil
}

// purgeHistory deletes from the last entry back to the first. A damaged link ends it: Fsck finds the rest.
func (r *records) purgeHistory(e *entry) error {
	for at := e.last; ; {
		back, there := int64(0), false
		r.purging.back.Int(1, at)
		r.purging.back.Int(2, e.n)
		err := rows(r.purging.back, func(s *conn.Stmt) error {
			back, there = s.GetInt(0), true
			return nil
		})
		if err != nil || !there {
			return err
		}
		r.purging.event.Int(1, at)
		if err := r.purging.event.Run(); err != nil {
			return err
		}
		if back <= 0 {
			return nil
		}
		at -= back
	}
}

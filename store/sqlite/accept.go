package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Events of the audit log for an acceptance.
const (
	acceptLoss   lifecycle.Event = "accept-loss"
	acceptRecord lifecycle.Event = "accept-record"
)

// Accept makes the store in dir continue without the commits whose absence Open detects, and records the person and
// the reason in the audit log. It returns what is missing. Kinds of error: Refused (nothing is missing), and those of
// Open.
func Accept(ctx context.Context, dir, who, why string) (missing string, err error) {
	s, err := Open(dir, Options{NoLog: true, accept: func(text string) { missing = text }})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if missing == "" {
		return "", job.Errorf(job.Refused, "accept", "", "%s misses no commits", dir)
	}
	return missing, s.accepted(ctx, acceptLoss, who, fmt.Sprintf("%s (%s)", why, missing), "")
}

// AcceptRecords accepts the records of jobs as they are, with their tasks and messages: it computes new checksums.
// The audit log has an entry for each. Kinds of error: NotFound (no job has the id), Internal (a record is
// unreadable), and those of Open.
func AcceptRecords(ctx context.Context, dir, who, why string, ids ...job.ID) (err error) {
	s, err := Open(dir, Options{NoLog: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, id := range ids {
		err := s.do(ctx, false, func(*ledger.Ledger) error { return s.records.sumAgain(id) })
		if err == nil {
			err = s.accepted(ctx, acceptRecord, who, why, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) accepted(ctx context.Context, event lifecycle.Event, who, why string, id job.ID) error {
	return s.Note(ctx, job.Audit{
		At: time.Now().UTC(), By: lifecycle.Operator, Actor: who, Event: event, Object: string(id), Note: why,
	})
}

// sumAgain recomputes the checksums of all rows of a job.
func (r *records) sumAgain(id job.ID) error {
	var row int64
	find, err := r.c.Prepare("SELECT n FROM job_made WHERE id = ?")
	if err != nil {
		return r.try(err)
	}
	defer find.Close()
	find.Text(1, string(id))
	err = rows(find, func(s *conn.Stmt) error {
		row = s.GetInt(0)
		return nil
	})
	if err == nil && row == 0 {
		return job.Errorf(job.NotFound, "accept", id, "no job has this id")
	}
	if err == nil {
		err = errors.Join(sumRow(r.c, r.names, row), sumTasks(r.c, r.names, row),
			sumMessages(r.c, "job = ?", string(id)))
	}
	if isDamage(err) { // nothing was written: the record is unreadable
		return err
	}
	return r.try(err)
}

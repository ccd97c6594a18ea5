package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

const (
	selectAudit = "SELECT a, at, actor, who, event, job, kind, from_state, to_state, object, note, seen, hash " +
		"FROM audit "
	insertAudit = `INSERT INTO audit (a, at, actor, who, event, job, kind, from_state, to_state, object, note, seen, hash)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// enter appends an entry to the audit log.
func (r *records) enter(a *job.Audit) error {
	s := r.writes.audit
	s.Int(1, a.Seq)
	s.Int(2, a.At.UnixMicro())
	s.Int(3, int64(a.By))
	s.Text(4, a.Actor)
	s.Text(5, string(a.Event))
	for i, text := range [...]string{string(a.Job), string(a.Kind), string(a.From), string(a.To), a.Object, a.Note} {
		s.TextOrNull(6+i, text)
	}
	s.Int(12, a.Seen)
	s.Blob(13, a.Hash[:])
	return r.try(s.Run())
}

// Audit is part of job.Store.
func (s *Store) Audit(ctx context.Context, seq int64, n int) (list []job.Audit, err error) {
	if err := s.applier.flush(ctx); err != nil {
		return nil, err
	}
	err = s.readDatabase(ctx, "audit", "", func(r *reader) error {
		return r.inSnapshot(func() (err error) {
			list, err = r.auditPage(seq, n)
			return err
		})
	})
	return orNone(list, err)
}

// auditPage reads entries as [job.AuditLog] defines. Prev of an entry is the hash of the previous row.
func (r *reader) auditPage(seq int64, n int) (list []job.Audit, err error) {
	s := r.audit
	if n < 0 {
		s, n = r.auditBefore, -n
		if seq <= 0 {
			seq = math.MaxInt64
		}
	}
	s.Int(1, seq)
	s.Int(2, int64(n))
	err = rows(s, func(s *conn.Stmt) error {
		a := job.Audit{
			Seq: s.GetInt(0), At: unixMicro(s.GetInt(1)), By: lifecycle.Actor(s.GetInt(2)), Actor: s.GetText(3),
			Event: lifecycle.Event(s.GetText(4)), Job: job.ID(s.GetText(5)), Kind: job.Kind(s.GetText(6)),
			From: lifecycle.State(s.GetText(7)), To: lifecycle.State(s.GetText(8)), Object: s.GetText(9),
			Note: s.GetText(10), Seen: s.GetInt(11),
		}
		copy(a.Hash[:], s.GetBytes(12))
		list = append(list, a)
		return nil
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if s == r.auditBefore {
		slices.Reverse(list)
	}
	r.auditHash.Int(1, list[0].Seq-1)
	err = rows(r.auditHash, func(s *conn.Stmt) error {
		copy(list[0].Prev[:], s.GetBytes(0))
		return nil
	})
	for i := 1; i < len(list); i++ {
		list[i].Prev = list[i-1].Hash
	}
	return list, err
}

// verifyAudit checks the audit log page by page while the store continues.
func (s *Store) verifyAudit(ctx context.Context, wrong func(job.ID, error)) error {
	var last *job.Audit
	for {
		seq := int64(0)
		if last != nil {
			seq = last.Seq
		}
		page, err := s.Audit(ctx, seq, 1000)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return s.verifyEnd(ctx, last, wrong)
		}
		if err := job.VerifyAudit(last, page); err != nil {
			wrong("", err) // later entries depend on it: one fault is reported
			return nil
		}
		last = &page[len(page)-1]
	}
}

// verifyEnd compares the last entry of the log with the last one that the store wrote; last is nil for an empty log.
func (s *Store) verifyEnd(ctx context.Context, last *job.Audit, wrong func(job.ID, error)) error {
	if last == nil {
		last = &job.Audit{}
	}
	return s.do(ctx, true, func(l *ledger.Ledger) error {
		switch seq, hash := l.LastAudit(); {
		case last.Seq < seq: // or it has grown since
			rest, err := s.Audit(ctx, last.Seq, 1)
			if err == nil && len(rest) == 0 {
				wrong("", fmt.Errorf("audit log: entries %d to %d are missing", last.Seq+1, seq))
			}
			return err
		case last.Seq == seq && last.Hash != hash:
			wrong("", fmt.Errorf("audit log: entry %d was replaced", seq))
		}
		return nil
	})
}

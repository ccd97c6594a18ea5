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
	selectAudit = "SELECT a, at, actor, who, event, job, kind, from_state, to_state, object, note, seen, hash, " +
		"address FROM audit "
	insertAudit = `INSERT INTO audit (a, at, actor, who, event, job, kind, from_state, to_state, object, note, seen, hash)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// with the address of a sender
	insertAudited = `INSERT INTO audit (a, at, actor, who, event, job, kind, from_state, to_state, object, note, seen, hash,
 address) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// enter appends an entry to the audit log.
func (r *records) enter(a *job.Audit) error {
	s := r.writes.audit
	if a.Address != "" {
		s = r.writes.audited
		s.Text(14, a.Address)
	}
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
	if f := r.logging(); f != nil {
		f.pending.audits = append(f.pending.audits, *a)
	}
	return r.try(s.Run())
}

// Audit is part of job.Store.
func (s *Store) Audit(ctx context.Context, seq int64, n int) (list []job.Audit, err error) {
	err = s.read(ctx, "audit", "", func(r *reader) error {
		return r.inSnapshot(func() (err error) {
			list, err = r.auditPage(seq, n)
			return err
		})
	})
	return orNone(list, err)
}

// auditPage reads entries as [job.AuditLog] defines: those of the overlay follow those of the database, which may have
// some of them meanwhile.
func (r *reader) auditPage(seq int64, n int) (list []job.Audit, err error) {
	if n < 0 {
		n = -max(n, -math.MaxInt)
		if seq <= 0 {
			seq = math.MaxInt64
		}
		newer := r.view.audits(0, seq, n, false)
		if len(newer) > 0 {
			seq = newer[0].Seq
		}
		if n > len(newer) {
			list, err = r.auditRows(r.auditBefore, seq, n-len(newer))
			slices.Reverse(list)
		}
		list = append(list, newer...)
	} else if list, err = r.auditRows(r.audit, seq, n); len(list) < n {
		if len(list) > 0 {
			seq = list[len(list)-1].Seq
		}
		list = append(list, r.view.audits(seq, math.MaxInt64, n-len(list), true)...)
	}
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list, r.linkAudit(list)
}

// AuditHolds is part of job.Store.
func (s *Store) AuditHolds(ctx context.Context, seq int64, n int) (list []job.Audit, err error) {
	err = s.read(ctx, "audit of holds", "", func(r *reader) error {
		return r.inSnapshot(func() (err error) {
			if n = max(n, 0); n == 0 {
				return nil
			}
			if list, err = r.auditRows(r.auditHolds, seq, n); err != nil || len(list) == n {
				return err
			}
			if len(list) > 0 {
				seq = list[len(list)-1].Seq
			}
			newer := r.view.audits(seq, math.MaxInt64, math.MaxInt, true)
			newer = slices.DeleteFunc(newer, func(a job.Audit) bool { return !a.OfHold() })
			list = append(list, newer[:min(len(newer), n-len(list))]...)
			for i := range list {
				list[i].Prev = job.Hash{}
			}
			return nil
		})
	})
	return orNone(list, err)
}

// linkAudit sets Prev of entries: the hash of the entry before.
func (r *reader) linkAudit(list []job.Audit) error {
	first := &list[0]
	if before := r.view.audits(first.Seq-2, first.Seq, 1, true); len(before) == 1 {
		first.Prev = before[0].Hash
	} else {
		first.Prev = job.Hash{}
		r.auditHash.Int(1, first.Seq-1)
		err := rows(r.auditHash, func(s *conn.Stmt) error {
			copy(first.Prev[:], s.GetBytes(0))
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i := 1; i < len(list); i++ {
		list[i].Prev = list[i-1].Hash
	}
	return nil
}

// auditRows reads up to n entries of the database.
func (r *reader) auditRows(s *conn.Stmt, seq int64, n int) (list []job.Audit, err error) {
	s.Int(1, seq)
	s.Int(2, int64(n))
	err = rows(s, func(s *conn.Stmt) error {
		a := job.Audit{
			Seq: s.GetInt(0), At: unixMicro(s.GetInt(1)), By: lifecycle.Actor(s.GetInt(2)), Actor: s.GetText(3),
			Event: lifecycle.Event(s.GetText(4)), Job: job.ID(s.GetText(5)), Kind: job.Kind(s.GetText(6)),
			From: lifecycle.State(s.GetText(7)), To: lifecycle.State(s.GetText(8)), Object: s.GetText(9),
			Note: s.GetText(10), Seen: s.GetInt(11), Address: s.GetText(13),
		}
		copy(a.Hash[:], s.GetBytes(12))
		list = append(list, a)
		return nil
	})
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

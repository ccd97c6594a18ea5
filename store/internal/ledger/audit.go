package ledger

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Note implements job.Store.
func (l *Ledger) Note(r Records, a job.Audit) error {
	if a.Event == "" || a.Actor == "" {
		return job.Errorf(job.Invalid, "note", a.Job, "an entry of the audit log needs an event and an actor")
	}
	return l.note(r, a)
}

// note appends an entry to the audit log, with the next number and sealed to the previous one.
func (l *Ledger) note(r Records, a job.Audit) error {
	a.At = a.At.Truncate(time.Microsecond)
	a.Seq = l.audits + 1
	a.Seal(l.sealed)
	if err := r.Enter(&a); err != nil {
		return err
	}
	l.audits, l.sealed = a.Seq, a.Hash
	return nil
}

package rules

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Note appends an entry to the audit log.
func Note(w *Writes, a job.Audit) error {
	if a.Event == "" || a.Actor == "" {
		return job.Errorf(job.Invalid, "note", a.Job, "an entry of the audit log needs an event and an actor")
	}
	w.note(a)
	return nil
}

// note appends an entry with the next number, sealed to the previous one.
func (w *Writes) note(a job.Audit) {
	a.At = a.At.Truncate(time.Microsecond)
	a.Seq = w.Counters.Audits + 1
	a.Seal(w.Counters.Sealed)
	w.Audits = append(w.Audits, a)
	w.Counters.Audits, w.Counters.Sealed = a.Seq, a.Hash
}

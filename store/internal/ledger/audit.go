package ledger

import "github.com/stagepost/stagepost/job"

// note appends an entry to the audit log, with the next number and sealed to the previous one.
func (l *Ledger) note(r Records, a job.Audit) error {
	a.Seq = l.audits + 1
	a.Seal(l.sealed)
	if err := r.Enter(&a); err != nil {
		return err
	}
	l.audits, l.sealed = a.Seq, a.Hash
	return nil
}

// enterOnly carries out a change without a job: an entry of the audit log and nothing else.
func (l *Ledger) enterOnly(r Records, c *job.Change) error {
	switch {
	case c.Event == "" || c.Actor == "":
		return job.Errorf(job.Invalid, "commit", "",
			"a change without a job needs an event and an actor, for the audit log")
	case c.Purge || c.Chain != nil || len(c.Spawn)+len(c.Tasks)+len(c.Outbox) > 0:
		return job.Errorf(job.Invalid, "commit", "",
			"a change without a job can only add an entry for %s to the audit log", c.Event)
	}
	return l.note(r, job.Audited(c, nil))
}

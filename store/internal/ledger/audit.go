package ledger

import "github.com/stagepost/stagepost/job"

// note adds an entry to the audit list, with the next number and sealed to the one before.
func (l *Ledger) note(r Records, a job.Audit) error {
	a.Seq = l.audits + 1
	a.Seal(l.sealed)
	if err := r.Enter(&a); err != nil {
		return err
	}
	l.audits, l.sealed = a.Seq, a.Hash
	return nil
}

// enterOnly carries out a change without a job: an entry in the audit list and nothing else.
func (l *Ledger) enterOnly(r Records, c *job.Change) error {
	switch {
	case c.Event == "" || c.Actor == "":
		return job.Errorf(job.Invalid, "commit", "", "a change without a job needs an event and an actor, for the audit list")
	case c.Purge || c.Chain != nil || len(c.Spawn)+len(c.Tasks)+len(c.Outbox) > 0:
		return job.Errorf(job.Invalid, "commit", "", "a change without a job can do nothing but enter %s in the audit list", c.Event)
	}
	return l.note(r, job.Audited(c, nil))
}

package ledger

import "github.com/stagepost/stagepost/job"

// purge removes the record of a tombstone with its history, tasks and messages. It returns the old record. Watchers
// are not notified: they have seen the end of the job.
func (l *Ledger) purge(r Records, c *job.Change) (job.Job, error) {
	j, err := r.Job(c.Job)
	if err != nil {
		return job.Job{}, err
	}
	if err := purgeable(r, &j, c); err != nil {
		return j, err
	}
	if c.Person() {
		if err := l.note(r, job.Audited(c, &j)); err != nil {
			return j, err
		}
	}
	if err := r.Purge(&j, Numbers{Job: l.numbers[j.Kind], Message: l.posted}); err != nil {
		return j, err
	}
	l.queue.Drop(&j)
	return j, nil
}

// purgeable checks that the record is the one that the change expects, and that nothing refers to it any more.
func purgeable(r Records, j *job.Job, c *job.Change) error {
	switch {
	case c.Event != "" || c.Chain != nil || len(c.Spawn)+len(c.Tasks)+len(c.Outbox) > 0:
		return job.Errorf(job.Invalid, "purge", j.ID, "a purge cannot be combined with other changes")
	case c.Version == 0:
		return job.Errorf(job.Invalid, "purge", j.ID, "a purge needs an expected version")
	case c.Version != j.Version:
		return job.Errorf(job.Conflict, "purge", j.ID, "it changed meanwhile (version %d, expected %d)", j.Version,
			c.Version)
	case c.From != "" && c.From != j.State:
		return job.Errorf(job.Conflict, "purge", j.ID, "it is %s, expected %s", j.State, c.From)
	case !j.Gone:
		return job.Errorf(job.Refused, "purge", j.ID, "it is %s: only the record of a deleted job can be purged",
			j.State)
	}
	if j.Children.Created() > 0 {
		has, err := r.HasJobs(j)
		if err != nil {
			return err
		}
		if has {
			return job.Errorf(job.Refused, "purge", j.ID, "jobs of this batch are still recorded: purge them first")
		}
	}
	message, err := r.Pending(j.ID)
	if err == nil && message != "" {
		err = job.Errorf(job.Refused, "purge", j.ID, "its message %q is still pending", message)
	}
	return err
}

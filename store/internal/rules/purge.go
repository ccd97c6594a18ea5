package rules

import "github.com/stagepost/stagepost/job"

// purge removes the record of a tombstone with its history, tasks and messages.
func (w *Writes) purge(j *job.Job, c *job.Change) error {
	if err := w.purgeable(j, c); err != nil {
		return err
	}
	if c.Person() {
		w.note(job.Audited(c, j))
	}
	gone := w.draft(j, c.At)
	gone.After = nil
	w.add(gone)
	return nil
}

// purgeable checks that the record is the one that the change expects, and that nothing refers to it any more.
func (w *Writes) purgeable(j *job.Job, c *job.Change) error {
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
	case j.Children.Created() > 0 && w.children(j.ID) > 0:
		return job.Errorf(job.Refused, "purge", j.ID, "jobs of this batch are still recorded: purge them first")
	}
	if message := w.unsent(j.ID); message != "" {
		return job.Errorf(job.Refused, "purge", j.ID, "its message %q is still pending", message)
	}
	return nil
}

// children returns how many jobs of a batch that has ended are recorded after the writes, up to a limit.
func (w *Writes) children(of job.ID) int {
	n := 0
	for _, c := range w.known.children {
		if c.of == of {
			n = c.n
		}
	}
	for _, j := range w.Jobs {
		if j.After == nil && j.Before.Parent == of {
			n--
		}
	}
	return n
}

// unsent returns the key of a pending message of a job, or "".
func (w *Writes) unsent(of job.ID) string {
	for i := range w.Messages {
		if m := &w.Messages[i]; m.Job == of && m.Settled == job.Pending {
			return m.Key
		}
	}
	for _, u := range w.known.unsent {
		if u.of == of {
			return u.key
		}
	}
	return ""
}

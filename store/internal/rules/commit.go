package rules

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Commit applies one change of [job.Jobs.Commit]. It returns the record after it, which is valid until the writes are
// reset and changes if a claim is granted. With an error, it returns the record before the change, nil if there is
// none.
func Commit(w *Writes, c *job.Change) (*job.Job, error) {
	before, err := w.job(c.Job)
	if err != nil {
		return nil, err
	}
	if c.Purge {
		return before, w.purge(before, c)
	}
	m := w.mark()
	after, err := w.change(before, c, m)
	if err != nil {
		w.back(m)
		return before, err
	}
	return after, nil
}

func (w *Writes) change(before *job.Job, c *job.Change, from mark) (*job.Job, error) {
	j := w.draft(before, c.At)
	entered, err := job.ApplyTo(&j.after, &j.event, c)
	if err != nil {
		return nil, err
	}
	if err := checkTasks(c.Job, c.Tasks); err != nil {
		return nil, err
	}
	if err := checkPosted("commit", c.Outbox); err != nil {
		return nil, err
	}
	if err := checkSet(c); err != nil {
		return nil, err
	}
	if entered {
		j.Event = &j.event
	}
	if c.Set.Data != nil || c.Set.Tags != nil {
		j.after.Own()
	}
	if err := c.Require.Hold(before, j.After, w.Holds, c.At); err != nil {
		return nil, err
	}
	parent, err := w.parent(before, j.After, c)
	if err != nil {
		return nil, err
	}
	j.Tasks, j.Chain = c.Tasks, c.Chain
	w.post(c.Outbox)
	if c.Person() {
		w.note(job.Audited(c, before))
	}
	for i := range c.Spawn {
		if child := &c.Spawn[i].Job; child.Parent != c.Job {
			return nil, job.Errorf(job.Invalid, "commit", c.Job, "it cannot spawn %s, whose parent is %q", child.ID,
				child.Parent)
		}
		if _, err := w.create(&c.Spawn[i], j, from); err != nil {
			return nil, err
		}
	}
	w.add(j)
	if parent != nil {
		w.add(parent)
	}
	return j.After, nil
}

// parent checks what the change requires and returns the write of the parent with its new counts, or nil if they do
// not change. A parent whose last child ended is due at once: it may wait for that.
func (w *Writes) parent(before, after *job.Job, c *job.Change) (*JobWrite, error) {
	moved := recount(before, after, job.Children{}) != job.Children{}
	if before.Parent == "" || !moved && len(c.Require.ParentIn) == 0 {
		return nil, c.Require.Holds(before, nil)
	}
	p, err := w.job(before.Parent)
	if err != nil {
		return nil, err
	}
	if err := c.Require.Holds(before, p); err != nil || !moved {
		return nil, err
	}
	j := w.draft(p, c.At)
	j.after.Version++
	j.after.Changed = c.At
	j.after.Children = recount(before, after, p.Children)
	if !p.Ended && j.after.Children.Settled() {
		j.after.Due = time.Time{}
	}
	return j, nil
}

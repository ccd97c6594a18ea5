package ledger

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Commit implements job.Store for one change.
func (l *Ledger) Commit(r Records, c *job.Change) (job.Job, error) {
	if c.Purge {
		return l.purge(r, c)
	}
	before, after := &l.before, &l.after // reused: this is the most frequent operation
	var err error
	if *before, err = r.Job(c.Job); err != nil {
		return job.Job{}, err
	}
	var event *job.Event
	*after = *before
	switch entered, err := job.ApplyTo(after, &l.event, c); {
	case err != nil:
		return *before, err
	case entered:
		event = &l.event
	}
	if c.Set.Data != nil || c.Set.Tags != nil {
		after.Own()
	}
	if err := c.Require.Hold(before, after, l.holds, c.At); err != nil {
		return *before, err
	}
	parent, err := l.parent(r, before, after, c)
	if err != nil {
		return *before, err
	}
	children, err := l.spawn(r, after, c)
	if err != nil {
		return *before, err
	}
	if err := l.write(r, c, before, after, event, children); err != nil {
		return *before, err
	}
	committed := *after
	if parent != nil {
		if err := l.update(r, &parent.before, &parent.after); err != nil {
			return *before, err
		}
	}
	return committed, nil
}

// parent checks what the change requires and returns the parent with its new counts, or nil if they do not change. A
// parent whose last child ended is due at once: it may wait for that.
func (l *Ledger) parent(r Records, before, after *job.Job, c *job.Change) (*family, error) {
	if before.Parent == "" {
		return nil, c.Require.Holds(before, nil)
	}
	moved := before.Ended != after.Ended || before.Gone != after.Gone ||
		(after.Ended && before.Outcome != after.Outcome)
	if !moved && len(c.Require.ParentIn) == 0 {
		return nil, c.Require.Holds(before, nil)
	}
	p, err := r.Job(before.Parent)
	if err != nil {
		return nil, err
	}
	if err := c.Require.Holds(before, &p); err != nil || !moved {
		return nil, err
	}
	f := &family{before: p, after: p}
	f.after.Version++
	f.after.Changed = c.At
	f.after.Children.Add(before, -1)
	f.after.Children.Add(after, 1)
	if !p.Ended && f.after.Children.Settled() {
		f.after.Due = time.Time{}
	}
	return f, nil
}

// spawn plans the children of the change and adds them to the parent's counts.
func (l *Ledger) spawn(r Records, after *job.Job, c *job.Change) (*plan, error) {
	if len(c.Spawn) == 0 {
		return nil, nil
	}
	for i := range c.Spawn {
		if j := &c.Spawn[i].Job; j.Parent != after.ID {
			return nil, job.Errorf(job.Invalid, "commit", after.ID, "it cannot spawn %s, whose parent is %q", j.ID,
				j.Parent)
		}
	}
	f := &family{before: *after, after: *after}
	p, err := l.plan(r, c.Spawn, map[job.ID]*family{after.ID: f})
	if err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	after.Children = f.after.Children
	return p, nil
}

func (l *Ledger) write(r Records, c *job.Change, before, after *job.Job, event *job.Event, children *plan) error {
	if event != nil {
		if err := r.Append(event); err != nil {
			return err
		}
	}
	for i := range c.Tasks {
		if err := r.PutTask(c.Job, &c.Tasks[i]); err != nil {
			return err
		}
	}
	if err := l.post(r, c.Outbox); err != nil {
		return err
	}
	if c.Person() {
		if err := l.note(r, job.Audited(c, before)); err != nil {
			return err
		}
	}
	if children != nil {
		if err := l.carryOut(r, children); err != nil {
			return err
		}
	}
	l.enter(before, after, c.Chain, c.At)
	if err := r.Update(before, after); err != nil {
		return err
	}
	l.touched = append(l.touched, *after)
	return nil
}

func take(j *job.Job, worker string, until time.Time) {
	j.Worker, j.Until = worker, until
	j.Epoch++
	j.Starts++
}

// Claim implements job.Store.
func (l *Ledger) Claim(r Records, c *job.Claim) ([]job.Job, error) {
	if c.Worker == "" {
		return nil, job.Errorf(job.Invalid, "claim", "", "the worker of the claim is missing")
	}
	ids := l.queue.Claim(c)
	claimed := make([]job.Job, 0, len(ids))
	for _, id := range ids {
		before, err := r.Job(id)
		if err != nil {
			return nil, err
		}
		after := before
		after.Version++
		after.Due, after.Changed = time.Time{}, c.Now
		take(&after, c.Worker, c.Now.Add(c.Lease))
		if err := l.update(r, &before, &after); err != nil {
			return nil, err
		}
		claimed = append(claimed, after)
	}
	return claimed, nil
}

// Peek implements job.Store.
func (l *Ledger) Peek(c *job.Claim, id job.ID) job.Forecast { return l.queue.Peek(c, id) }

// Renew implements job.Store.
func (l *Ledger) Renew(r Records, c *job.Renewal) ([]job.Lease, error) {
	var lost []job.Lease
	for _, lease := range c.Leases {
		before, err := r.Job(lease.Job)
		// a damaged record does not prevent the renewal of other leases
		if kind := job.KindOf(err); err != nil && kind != job.NotFound && kind != job.Internal {
			return nil, err
		}
		if err != nil || before.Epoch != lease.Epoch || before.Worker != c.Worker || before.Worker == "" {
			lost = append(lost, lease)
			continue
		}
		after := before
		after.Until = c.Now.Add(c.Lease)
		if err := l.update(r, &before, &after); err != nil {
			return nil, err
		}
	}
	return lost, nil
}

package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/job"
)

// Bounds of times that lie in the future.
const (
	clockSlack = time.Minute    // records may be ahead of the clock by this much without being examined
	mostPause  = 24 * time.Hour // until a message is tried again
	mostLease  = time.Hour      // of a claim by a remote worker
)

// reanchor adjusts the times of records to the clock, before anything is claimed. If the clock was ahead and has been
// corrected, pauses, leases and timeouts that were set in between lie far in the future: they are moved back and keep
// their length. If the clock has moved forward by more than Retention.Away, open jobs keep the time that they had left.
// Times that a person or a depositor set do not change.
func (e *Engine) reanchor(ctx context.Context) error {
	now := e.clock.Now()
	forward := now.Sub(e.latest)
	switch {
	case e.latest.IsZero():
		return nil
	case forward > e.options.Retain.Away:
		return e.eachJob(ctx, false, func(j *job.Job) error { return e.extend(ctx, j, forward, now) })
	case forward > -clockSlack:
		return nil
	}
	e.log.Warn("the clock was ahead: due times, timeouts and leases are set anew", "by", -forward.Round(time.Second))
	err := e.eachJob(ctx, true, func(j *job.Job) error {
		if err := e.returnLease(ctx, j, now); err != nil {
			return err
		}
		return e.pull(ctx, j, now)
	})
	if err != nil {
		return err
	}
	return e.pullMessages(ctx, now)
}

// eachJob calls do with all jobs, or all open ones. Jobs that change concurrently are skipped.
func (e *Engine) eachJob(ctx context.Context, ended bool, do func(*job.Job) error) error {
	open := false
	q := job.Query{Oldest: true, Limit: 1000}
	if !ended {
		q.Ended = &open
	}
	for {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			switch err := do(&page.Jobs[i]); job.KindOf(err) {
			case "", job.Conflict, job.Stale, job.NotFound:
			case job.Unavailable:
				return err
			default: // one record must not keep the engine from starting
				e.log.Error("set times anew", "job", page.Jobs[i].ID, "error", err)
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

// pull moves the times of a record that was changed in the future back by the same amount.
func (e *Engine) pull(ctx context.Context, j *job.Job, now time.Time) error {
	if !j.Changed.After(now) {
		return nil
	}
	back := func(at time.Time) time.Time { return now.Add(at.Sub(j.Changed)) }
	t := e.adjustment(j, now)
	if !j.Ended {
		paused := j.Epoch > 0 && j.Due.After(now) && !j.Due.Equal(block.Never)
		if paused {
			t.setDue(back(j.Due))
		}
		if !j.Expires.IsZero() && !j.Expires.Equal(j.Deadline) {
			t.setExpires(back(j.Expires))
		}
	}
	_, err := e.one(ctx, t)
	return err
}

// adjustment begins a change of a record's times alone, for the record as it was read.
func (e *Engine) adjustment(j *job.Job, now time.Time) *transition {
	t := newTransition(e.workOf(j.Kind), j, now)
	t.asRead(e.name)
	t.Keep = true
	return t
}

// returnLease sets a lease that lies in the future again: to the time that it had left when the wrong clock was last
// stored. That is at least one lease of the engine, because the worker may still be at work, and at most the longest
// lease.
func (e *Engine) returnLease(ctx context.Context, j *job.Job, now time.Time) error {
	most := max(mostLease, e.options.Lease)
	if !j.Claimed() || !j.Changed.After(now) && !j.Until.After(now.Add(most)) {
		return nil
	}
	return e.renewBy(ctx, j, now, min(max(j.Until.Sub(e.latest), e.options.Lease), most))
}

// renewFor renews a claim for one lease from now.
func (e *Engine) renewFor(ctx context.Context, j *job.Job, now time.Time) error {
	return e.renewBy(ctx, j, now, e.options.Lease)
}

func (e *Engine) renewBy(ctx context.Context, j *job.Job, now time.Time, lease time.Duration) error {
	_, err := e.store.Renew(ctx, job.Renewal{
		Worker: j.Worker, Leases: []job.Lease{{Job: j.ID, Epoch: j.Epoch}}, Lease: lease, Now: now,
	})
	return err
}

// pullMessages makes messages due that would wait for longer than the longest pause.
func (e *Engine) pullMessages(ctx context.Context, now time.Time) error {
	pending := job.Pending
	q := job.MessageQuery{Settled: &pending, Limit: 1000}
	for {
		page, err := e.store.Messages(ctx, q)
		if err != nil || len(page) == 0 {
			return err
		}
		q.Before = page[len(page)-1].Number
		var late []job.Message
		for _, m := range page {
			if m.Due.After(now.Add(mostPause)) {
				m.Due, m.Tried = now, nil
				late = append(late, m)
			}
		}
		if len(late) > 0 {
			if err := e.store.Settle(ctx, late...); err != nil {
				return err
			}
		}
	}
}

// extend adds the time that passed, or seemed to pass, while no engine worked to an open job's time in its state. A
// second call changes nothing: the record has then changed after the jump.
func (e *Engine) extend(ctx context.Context, j *job.Job, by time.Duration, now time.Time) error {
	if j.Claimed() && j.Until.Before(now) { // its worker may still be at work
		if err := e.renewFor(ctx, j, now); err != nil {
			return err
		}
	}
	if j.Expires.IsZero() || j.Changed.After(e.latest.Add(by/2)) {
		return nil
	}
	t := e.adjustment(j, now)
	t.setExpires(j.Expires.Add(by))
	_, err := e.one(ctx, t)
	return err
}

// meetDeadlines makes open jobs expire at their deadlines again, once the clock is confirmed.
func (e *Engine) meetDeadlines(ctx context.Context) error {
	now := e.clock.Now()
	return e.eachJob(ctx, false, func(j *job.Job) error {
		if j.Deadline.IsZero() || !j.Expires.After(j.Deadline) {
			return nil
		}
		t := e.adjustment(j, now)
		t.setExpires(j.Deadline)
		_, err := e.one(ctx, t)
		return err
	})
}

package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
)

// renewals renews the claims of all running steps until ctx ends, and cancels the steps whose claims are over.
func (e *Engine) renewals(ctx context.Context) {
	tick := time.NewTicker(e.options.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			e.renew(ctx)
		}
	}
}

func (e *Engine) renew(ctx context.Context) {
	r := job.Renewal{Worker: e.name, Lease: e.options.Lease, Now: e.clock.Now()}
	listening := map[job.Lease]*running{}
	e.mu.Lock()
	for id, one := range e.running {
		lease := job.Lease{Job: id, Epoch: one.epoch.Load()}
		r.Leases = append(r.Leases, lease)
		if one.listening() {
			listening[lease] = one
		}
	}
	e.mu.Unlock()
	if len(r.Leases) == 0 {
		return
	}
	for lease, one := range listening { // hints can be lost
		if j, err := e.store.Get(ctx, lease.Job); err == nil && j.Epoch == lease.Epoch && j.Claimed() {
			one.heed(&j)
		}
	}
	lost, err := e.store.Renew(ctx, r)
	if err != nil {
		if ctx.Err() == nil {
			e.log.Error("renew", "error", err)
		}
		return
	}
	for _, l := range lost {
		if j, err := e.store.Get(ctx, l.Job); err == nil && j.Worker == e.name {
			continue // it has moved to its next state under a newer claim of this engine
		}
		e.mu.Lock()
		if one := e.running[l.Job]; one != nil && one.epoch.Load() == l.Epoch {
			one.cancel(errLost)
		}
		e.mu.Unlock()
	}
}

// reclaim ends the claims of earlier processes of this engine. On a store for one process none of them can still run.
func (e *Engine) reclaim(ctx context.Context) error {
	if !e.store.Properties().Exclusive {
		return nil
	}
	for {
		page, err := e.store.List(ctx, job.Query{Worker: e.options.Name + "/", Kinds: e.Kinds(), Limit: 1000})
		if err != nil {
			return err
		}
		moved := 0
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if strings.HasPrefix(j.Worker, e.name) {
				continue
			}
			switch err := e.releaseLost(ctx, j, e.clock.Now()); job.KindOf(err) {
			case "":
				moved++
			case job.Unavailable:
				return err
			default: // continue: one record must not keep the engine from starting
				e.log.Error("reclaim", "job", j.ID, "state", j.State, "error", err)
			}
		}
		if moved == 0 {
			return nil
		}
	}
}

// sweeps finds at intervals what no event reports: expired leases and timeouts, and jobs that became due.
func (e *Engine) sweeps(ctx context.Context) {
	tick := time.NewTicker(e.options.Sweep)
	defer tick.Stop()
	defer e.headway.Store(0)
	for {
		e.sweepAdvanced()
		select {
		case <-ctx.Done():
			return
		case <-e.parking:
			e.park(ctx) // also if another engine leads: a hold takes effect at once
			continue
		case <-tick.C:
		}
		if e.Leads() {
			e.park(ctx)
			if err := e.overdue(ctx); err != nil && ctx.Err() == nil {
				e.log.Error("sweep", "error", err)
			}
		}
		e.wakeDispatcher()
		e.wakeDeliveries()
	}
}

// overdue moves the jobs of this engine's kinds whose lease or timeout has expired. Jobs that cannot be moved must not
// block those of other kinds.
func (e *Engine) overdue(ctx context.Context) error {
	kinds := e.Kinds()
	stuck, err := e.overdueOf(ctx, kinds)
	for i := 0; err == nil && stuck && i < len(kinds); i++ {
		_, err = e.overdueOf(ctx, kinds[i:i+1])
	}
	return err
}

// overduePage is how many overdue jobs are read at once.
const overduePage = 1000

// overdueOf moves the overdue jobs of some kinds. stuck reports that no job of a full page could be moved; there may be
// more jobs after it.
func (e *Engine) overdueOf(ctx context.Context, kinds []job.Kind) (stuck bool, err error) {
	for {
		now := e.clock.Now()
		overdue, err := e.store.Overdue(ctx, now, kinds, overduePage)
		if err != nil {
			return false, err
		}
		moved := 0
		for i := range overdue {
			j := &overdue[i]
			e.sweepAdvanced()
			switch err := e.overdueOne(ctx, j, now); job.KindOf(err) {
			case "":
				moved++
			case job.Conflict, job.Stale: // another commit was first
			case job.Unavailable:
				return false, err
			default: // continue: one record must not block the others
				e.log.Error("sweep", "job", j.ID, "state", j.State, "error", err)
			}
		}
		if moved == 0 || len(overdue) < overduePage {
			return moved == 0 && len(overdue) == overduePage, nil
		}
	}
}

// overdueOne moves a job that the store found overdue. The time of a shared store may be later than now, which was read
// before the query: then the earlier of the two times of the job has passed.
func (e *Engine) overdueOne(ctx context.Context, j *job.Job, now time.Time) error {
	leaseOver := j.Claimed() && (!j.Until.After(now) || j.Expires.IsZero() || j.Until.Before(j.Expires))
	switch {
	case !leaseOver:
		return e.expire(ctx, j)
	case e.holds(j): // the machine was suspended: the step still runs
		return e.renewFor(ctx, j, now)
	}
	return e.releaseLost(ctx, j, time.Time{})
}

// releaseLost ends the claim of a worker that is lost, which may have had other jobs. A suspect becomes due at the
// given time; zero: after a pause.
func (e *Engine) releaseLost(ctx context.Context, j *job.Job, due time.Time) error {
	alone, err := e.hadOneJob(ctx, j)
	if err != nil {
		return err
	}
	return e.endClaim(ctx, j, alone, due)
}

// holds reports whether a step of this engine runs under the job's claim.
func (e *Engine) holds(j *job.Job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.running[j.ID]
	return r != nil && r.epoch.Load() == j.Epoch && j.Worker == e.name
}

// endClaim ends a claim whose lease has expired. If the worker had no other job, the claim counts towards poison, and
// too many of them fail the job.
func (e *Engine) endClaim(ctx context.Context, j *job.Job, alone bool, at time.Time) (err error) {
	w := e.workOf(j.Kind)
	if w == nil {
		return nil
	}
	now := e.clock.Now()
	defer func() {
		if err == nil {
			e.meter.Lost(meter.Lost{Kind: j.Kind, State: j.State, Silent: true})
		}
	}()
	p, starts := w.policyFor(j.State), j.Starts
	if !alone {
		starts = uncounted(starts, p.MaxStarts)
	}
	stage, _ := w.Life.Stage(j.State)
	poison := alone && j.Starts >= p.MaxStarts && !w.OwnEnds && stage.Endures == "" && w.supports(j)
	crashes := fmt.Errorf("%d workers in turn let their lease expire while %s", j.Starts, j.State)
	o := &outcome{cause: cause.Poison, err: crashes}
	if poison {
		if ev, by, ok := w.poisoned(j.Position); ok {
			if err = e.commitUnreported(ctx, w, j, ev, by, now, func(t *transition) { t.explain(o) }); err == nil {
				e.meter.Attempted(meter.Attempt{Kind: j.Kind, State: j.State, Ending: meter.Poisoned,
					Cause: cause.Poison})
			}
			return err
		}
	}
	due := now
	switch {
	case poison: // there is no failure exit: a person ends the wait, see [operator.Acts]
		due = block.Never
		o.err = fmt.Errorf("%w, and %s has no failure exit", o.err, j.State)
		defer func() {
			if err == nil {
				e.poisonHeld(j, o)
			}
		}()
	case j.Starts > 1 && !at.IsZero(): // it runs alone
		due = at
	case j.Starts > 1: // a job that crashes its workers must not crash all of them
		due = now.Add(w.policyFor(j.State).Backoff.Pause(j.Starts-1, e.chance()))
		defer e.alarm(due)
	}
	note := fmt.Sprintf("the lease of worker %s expired", j.Worker)
	fill := func(t *transition) {
		t.Set.Starts, t.Note = &starts, note
		t.setDue(due)
		if poison {
			t.explain(o)
		}
	}
	if _, ok := w.Life.Transition(j.State, lifecycle.Lost); !ok { // a state that is not a worker's has no loops
		t := newTransition(w, j, now)
		t.asRead(e.name)
		t.underClaim(e.name)
		fill(t)
		t.Note = "" // without an event there is no history entry for it
		_, err = e.one(ctx, t)
		return err
	}
	return e.commitUnreported(ctx, w, j, lifecycle.Lost, lifecycle.Timer, now, fill)
}

// poisonHeld reports a job whose workers crashed in a state without a failure exit, and which waits for a person.
func (e *Engine) poisonHeld(j *job.Job, o *outcome) {
	e.log.Error("held as poison: it waits for an operator", "job", j.ID, "state", j.State, "starts", j.Starts, "error",
		o.err)
	e.meter.Attempted(meter.Attempt{Kind: j.Kind, State: j.State, Ending: meter.Poisoned, Cause: cause.Poison})
}

// expire takes a job out of a state whose time is up.
func (e *Engine) expire(ctx context.Context, j *job.Job) error {
	w := e.workOf(j.Kind)
	if w == nil {
		return nil
	}
	now := e.clock.Now()
	if !w.supports(j) { // only its own definition has its timer event: check again later
		return e.expireAt(ctx, w, j, now, now.Add(time.Minute))
	}
	ev, ok := w.timerEvent(j.Position, late(j, now))
	if !ok { // the definition has changed: no timer leaves the state
		return e.expireAt(ctx, w, j, now, time.Time{})
	}
	why := fmt.Sprintf("more than %s in %s", quantity.FormatDuration(allowed(j)), j.State)
	if late(j, now) {
		why = "the job's deadline " + j.Deadline.UTC().Format(time.RFC3339) + " passed"
	}
	o := w.late(j, why)
	err := e.commitUnreported(ctx, w, j, ev, lifecycle.Timer, now, func(t *transition) {
		if a, _ := w.Life.Transition(j.State, ev); a.Class == lifecycle.Fail || ev == block.TimedOut ||
			o.cause != cause.Timeout {
			t.explain(o)
		}
	})
	if err == nil {
		e.meter.Attempted(meter.Attempt{Kind: j.Kind, State: j.State, Ending: meter.TimedOut, Cause: o.cause})
	}
	return err
}

// allowed returns the time that a job had for its state, in whole seconds if it is one or more.
func allowed(j *job.Job) time.Duration {
	d := j.Expires.Sub(j.Entered).Round(time.Millisecond)
	if d < time.Second {
		return d
	}
	return d.Truncate(time.Second)
}

// expireAt sets when a timer takes a job out of its state; zero: never.
func (e *Engine) expireAt(ctx context.Context, w *Work, j *job.Job, now, at time.Time) error {
	t := newTransition(w, j, now)
	t.asRead("")
	t.setExpires(at)
	_, err := e.one(ctx, t)
	return err
}

// late reports whether the deadline of the job has passed.
func late(j *job.Job, now time.Time) bool { return !j.Deadline.IsZero() && !now.Before(j.Deadline) }

package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Retention says how ended jobs are cleared away. What is old goes by the wall clock, and the wall clock may be wrong: a look is left out
// while the clock has jumped, and one look takes no more than a share of what there is (reliability rule R12).
type Retention struct {
	Every time.Duration // between looks; defaults to 1 h
	Share int           // percent of a kind's ended jobs that one look may take; defaults to 20, but never fewer than 100 jobs
	Jump  time.Duration // difference between wall and steady clock that freezes retention; defaults to 1 h

	Records time.Duration // how long tombstones are kept before they are purged from the store. Zero: for ever
	Logs    time.Duration // how long the logs of ended jobs are kept, if they are files ([LogFiles]). Zero: as long as the record

	// Clear removes what else belongs to a job whose record is about to be purged: directories, references. After an error the record stays
	// until the next look. Defaults to nothing.
	Clear func(ctx context.Context, j *job.Job) error
}

// LogFiles is what job logs can do whose files retention may remove; package joblog can.
type LogFiles interface {
	// Remove deletes the log of a job; there may be none.
	Remove(id job.ID) error
	// Each gives the jobs that have logs and when these were last written, in no order, until do says that it is enough.
	Each(do func(id job.ID, written time.Time) (goOn bool)) error
}

// JumpGuard notices that the wall clock was set while the process lives, by comparing it with the steady one. Whatever removes things by their age
// asks it first.
type JumpGuard struct {
	clock Clock
	most  time.Duration
	apart time.Duration // wall minus steady time at the start
}

// NewJumpGuard makes a guard that tolerates jumps up to most; 0 means 1 h.
func NewJumpGuard(c Clock, most time.Duration) *JumpGuard {
	if most <= 0 {
		most = time.Hour
	}
	return &JumpGuard{clock: c, most: most, apart: c.Wall().Sub(c.Now())}
}

// Jumped tells whether the wall clock is further off than it may be, and by how much it is.
func (g *JumpGuard) Jumped() (by time.Duration, jumped bool) {
	by = g.clock.Wall().Sub(g.clock.Now()) - g.apart
	return by, by.Abs() > g.most
}

type retention struct {
	Retention
	clock Clock
	guard *JumpGuard
	next  time.Time
}

func newRetention(o Retention, c Clock) *retention {
	if o.Every <= 0 {
		o.Every = time.Hour
	}
	if o.Share <= 0 {
		o.Share = 20
	}
	return &retention{Retention: o, clock: c, guard: NewJumpGuard(c, o.Jump), next: c.Now().Add(o.Every)}
}

// run looks again and again until ctx ends. It has a goroutine of its own: a look may take minutes, and what ran out of time meanwhile must not wait.
func (r *retention) run(ctx context.Context, e *Engine) {
	tick := time.NewTicker(e.options.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.sweep(ctx, e)
		}
	}
}

// sweep takes the timer's arrow out of ends for jobs that are kept long enough, purges tombstones and removes old logs. Only run calls it.
func (r *retention) sweep(ctx context.Context, e *Engine) {
	now := r.clock.Now()
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(r.Every)
	if jump, jumped := r.guard.Jumped(); jumped {
		e.log.Warn("the clock jumped; nothing is cleared away until it agrees again", "jump", jump)
		return
	}
	for _, w := range e.works {
		if w.Keep > 0 {
			if err := r.clear(ctx, e, w, now.Add(-w.Keep)); err != nil && ctx.Err() == nil {
				e.log.Error("retention", "kind", w.Life.Name(), "error", err)
			}
		}
		if r.Records > 0 {
			if err := r.purge(ctx, e, w, now.Add(-r.Records)); err != nil && ctx.Err() == nil {
				e.log.Error("purge", "kind", w.Life.Name(), "error", err)
			}
		}
	}
	if err := r.clearLogs(ctx, e, now); err != nil && ctx.Err() == nil {
		e.log.Error("retention of job logs", "error", err)
	}
}

func (r *retention) clear(ctx context.Context, e *Engine, w *Work, before time.Time) error {
	ends := map[job.ID][]lifecycle.State{} // of batches that were asked for
	return r.each(ctx, e, w, before, func(s lifecycle.Stage) bool { return s.Kind == lifecycle.End && leftByTimer(w, s) }, func(j *job.Job) (bool, error) {
		if j.Children.Open > 0 {
			return false, nil // a job was sent back and still needs its batch
		}
		in, known := ends[j.Parent]
		if !known && j.Parent != "" {
			var err error
			if in, err = e.endsOf(ctx, j.Parent); err != nil {
				return false, err
			}
			ends[j.Parent] = in
		}
		if j.Parent != "" && in == nil {
			return false, nil // the report of its batch will tell of it
		}
		err := e.clean(ctx, w, j, in)
		return err == nil, err
	})
}

// endsOf gives the states in which a batch has ended, or none while it has not.
func (e *Engine) endsOf(ctx context.Context, batch job.ID) ([]lifecycle.State, error) {
	b, err := e.store.Get(ctx, batch)
	if err != nil || !b.Ended {
		return nil, err
	}
	ends := []lifecycle.State{b.State}
	if w := e.works[b.Kind]; w != nil {
		for _, s := range w.Life.Stages() {
			if s.Kind == lifecycle.End {
				ends = append(ends, s.State)
			}
		}
	}
	return ends, nil
}

// each goes through the jobs of the wanted states that have not changed since a time, the oldest first, and stops after its share of what there is.
// do tells whether it did anything.
func (r *retention) each(ctx context.Context, e *Engine, w *Work, before time.Time, wanted func(lifecycle.Stage) bool, do func(*job.Job) (bool, error)) error {
	tallies, err := e.store.Count(ctx)
	if err != nil {
		return err
	}
	var states []lifecycle.State
	there := int64(0)
	for _, s := range w.Life.Stages() {
		if !wanted(s) {
			continue
		}
		states = append(states, s.State)
		for _, t := range tallies {
			if t.Kind == w.kind() && t.State == s.State {
				there += t.Jobs
			}
		}
	}
	if len(states) == 0 || there == 0 {
		return nil
	}
	left := max(100, int(there)*r.Share/100)
	q := job.Query{Kinds: []job.Kind{w.kind()}, States: states, Before: before, Oldest: true, Limit: 500}
	for left > 0 {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if left == 0 {
				return nil
			}
			done, err := do(&page.Jobs[i])
			switch kind := job.KindOf(err); {
			case kind == job.Unavailable || ctx.Err() != nil:
				return err
			case err != nil && kind != job.Conflict && kind != job.Refused && kind != job.NotFound: // one record must not keep the others
				e.log.Error("retention", "job", page.Jobs[i].ID, "error", err)
			}
			if done {
				left--
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
	return nil
}

func leftByTimer(w *Work, s lifecycle.Stage) bool {
	for _, a := range s.Arrows {
		if a.By&lifecycle.Timer != 0 {
			return true
		}
	}
	return false
}

// clean takes the timer's arrow out of an end, unless jobs of the batch were sent back meanwhile; the job's own batch must be in one of the states.
func (e *Engine) clean(ctx context.Context, w *Work, j *job.Job, batchIn []lifecycle.State) error {
	ev, ok := w.Life.Choose(j.Position, lifecycle.Move, lifecycle.Timer)
	if !ok || !w.knows(j) {
		return nil
	}
	return e.untold(ctx, w, j, ev, lifecycle.Timer, e.clock.Now(), func(c *job.Change) {
		c.Note = "kept long enough"
		c.Require.Idle, c.Require.ParentIn = true, batchIn
	})
}

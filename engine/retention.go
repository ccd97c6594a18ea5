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
}

type retention struct {
	Retention
	clock Clock
	apart time.Duration // wall minus steady time at the start
	next  time.Time
}

func newRetention(o Retention, c Clock) *retention {
	if o.Every <= 0 {
		o.Every = time.Hour
	}
	if o.Share <= 0 {
		o.Share = 20
	}
	if o.Jump <= 0 {
		o.Jump = time.Hour
	}
	return &retention{Retention: o, clock: c, apart: c.Wall().Sub(c.Now()), next: c.Now().Add(o.Every)}
}

// sweep takes the timer's arrow out of ends for jobs that are kept long enough. Only the engine's sweep calls it.
func (r *retention) sweep(ctx context.Context, e *Engine) {
	now := r.clock.Now()
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(r.Every)
	if jump := r.clock.Wall().Sub(now) - r.apart; jump.Abs() > r.Jump {
		e.log.Warn("the clock jumped; nothing is cleared away until it agrees again", "jump", jump)
		return
	}
	for _, w := range e.works {
		if w.Keep > 0 {
			if err := r.clear(ctx, e, w, now.Add(-w.Keep)); err != nil && ctx.Err() == nil {
				e.log.Error("retention", "kind", w.Life.Name(), "error", err)
			}
		}
	}
}

func (r *retention) clear(ctx context.Context, e *Engine, w *Work, before time.Time) error {
	tallies, err := e.store.Count(ctx)
	if err != nil {
		return err
	}
	var ends []lifecycle.State
	ended := int64(0)
	for _, s := range w.Life.Stages() {
		if s.Kind != lifecycle.End || !leftByTimer(w, s) {
			continue
		}
		ends = append(ends, s.State)
		for _, t := range tallies {
			if t.Kind == w.kind() && t.State == s.State {
				ended += t.Jobs
			}
		}
	}
	if len(ends) == 0 {
		return nil
	}
	left := max(100, int(ended)*r.Share/100)
	q := job.Query{Kinds: []job.Kind{w.kind()}, States: ends, Before: before, Oldest: true, Limit: 500}
	for left > 0 {
		page, err := e.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if left == 0 {
				return nil
			}
			if err := e.clean(ctx, w, &page.Jobs[i]); err != nil && job.KindOf(err) != job.Conflict {
				return err
			}
			left--
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

func (e *Engine) clean(ctx context.Context, w *Work, j *job.Job) error {
	ev, ok := w.Life.Choose(j.Position, lifecycle.Move, lifecycle.Timer)
	if !ok || !w.knows(j) {
		return nil
	}
	return e.untold(ctx, w, j, ev, lifecycle.Timer, e.clock.Now(), func(c *job.Change) { c.Note = "kept long enough" })
}

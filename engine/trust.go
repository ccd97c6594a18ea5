package engine

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// guardClock compares the clock with the time in the store, and sets e.clock and e.guard.
func (e *Engine) guardClock(ctx context.Context, o *Options) error {
	kept, err := e.keptClock(ctx)
	if err != nil {
		return err
	}
	wall := o.Clock.Now()
	e.clock = o.Clock
	if behind := kept.Trusted.Sub(wall); behind > o.Retain.Jump && !o.Retain.Unattended {
		e.clock = clock.Shifted(o.Clock, behind)
	}
	e.guard = clock.NewGuard(e.clock, o.Retain.Jump)
	e.guard.Compare(wall, kept, o.Retain.Away)
	if e.latest = kept.Latest; o.Retain.Unattended && e.frozen() {
		e.guard.Confirm()
	}
	return nil
}

// keptClock reads the time from the store. A store without one has the time of its newest job.
func (e *Engine) keptClock(ctx context.Context) (job.KeptClock, error) {
	clocks, ok := e.store.(job.ClockStore)
	if !ok {
		return job.KeptClock{}, nil
	}
	kept, err := clocks.KeptClock(ctx)
	if err != nil || !kept.Trusted.IsZero() {
		return kept, err
	}
	page, err := e.store.List(ctx, job.Query{Limit: 1})
	if err == nil && len(page.Jobs) > 0 {
		kept.Trusted = page.Jobs[0].Changed
		kept.Latest = kept.Trusted
	}
	return kept, err
}

// keepClock writes the time to the store.
func (e *Engine) keepClock(ctx context.Context) error {
	if clocks, ok := e.store.(job.ClockStore); ok {
		return clocks.KeepClock(ctx, e.guard.Kept())
	}
	return nil
}

// frozen reports whether retention removes nothing because the clock is in doubt.
func (e *Engine) frozen() bool {
	_, jumped := e.guard.Jumped()
	return jumped
}

// ConfirmClock is part of operator.Acts.
func (e operators) ConfirmClock(ctx context.Context, actor, note string) (clock.State, error) {
	s := e.guard.State()
	switch {
	case note == "":
		return s, job.Errorf(job.Invalid, "clock", "", "it needs a note: the audit log records why")
	case s.Doubt == "":
		return s, job.Errorf(job.Refused, "clock", "", "the clock is not in doubt: there is nothing to confirm")
	}
	what := s.Doubt + " by " + s.By.Round(time.Second).String() + ", now " + s.Wall.UTC().Format(time.RFC3339)
	if err := e.Audit(ctx, operator.Entry{Actor: actor, Event: "confirm-clock", Object: what, Note: note}); err != nil {
		return s, err
	}
	e.guard.Confirm()
	s = e.guard.State()
	if err := e.keepClock(ctx); err != nil {
		return s, err
	}
	return s, e.meetDeadlines(ctx)
}

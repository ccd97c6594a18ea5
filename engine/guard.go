package engine

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Doubts about the clock.
const (
	ClockAhead  = "ahead"  // at the start it was further on than the last trusted time by more than Retention.Away
	ClockBehind = "behind" // at the start it was before the last trusted time
	ClockJumped = "jumped" // it was set while the process runs
)

// ClockState is what an engine knows of the time.
type ClockState struct {
	Wall      time.Time     `json:"wall"`               // what the machine says
	Now       time.Time     `json:"now"`                // what records get
	Trusted   time.Time     `json:"trusted"`            // the true time is not before it; ages are counted by it
	Doubt     string        `json:"doubt,omitempty"`    // why nothing is removed by its age; empty: nothing speaks against it
	By        time.Duration `json:"-"`                  // how far the wall clock is off, if there is a doubt
	Confirmed time.Time     `json:"confirmed,omitzero"` // when a person confirmed a clock that had gone forward
	Restart   bool          `json:"restart,omitempty"`  // records get another time than the machine's until the next start
}

// JumpGuard knows whether ages can be told. It compares the wall clock with the steady one, and at the start with the last time that an earlier
// process trusted (reliability rule R12). Everything that removes things by their age asks it first.
type JumpGuard struct {
	clock Clock
	most  time.Duration

	mu      sync.Mutex // guards the rest
	apart   time.Duration
	doubt   string // at the start; it ends when the wall clock agrees with the trusted time
	away    time.Duration
	trusted time.Time // at began
	began   time.Time // by clock
	since   time.Time // job.KeptClock.Confirmed
}

// newJumpGuard makes a guard that tolerates jumps up to most; 0 means 1 h. It trusts the time of its creation.
func newJumpGuard(c Clock, most time.Duration) *JumpGuard {
	if most <= 0 {
		most = time.Hour
	}
	now := c.Now()
	return &JumpGuard{clock: c, most: most, apart: c.Wall().Sub(now), trusted: now, began: now}
}

// Jumped tells whether the wall clock is further off than it may be, and by how much it is.
func (g *JumpGuard) Jumped() (by time.Duration, jumped bool) {
	s := g.State()
	return s.By, s.Doubt != ""
}

// State tells what is known of the time.
func (g *JumpGuard) State() ClockState {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := ClockState{Wall: g.clock.Wall(), Now: g.clock.Now(), Confirmed: g.since}
	s.Trusted = g.trusted.Add(s.Now.Sub(g.began))
	if g.doubt == "" {
		if by := s.Wall.Sub(s.Now) - g.apart; by.Abs() > g.most {
			s.Doubt, s.By = ClockJumped, by
		}
	} else if by := s.Wall.Sub(s.Trusted); by < -g.most || by > g.away {
		s.Doubt, s.By = g.doubt, by
	}
	s.Restart = s.Doubt == "" && s.Wall.Sub(s.Now).Abs() > g.most
	return s
}

// Before gives the time before which something must have changed last to be older than age. ok is false when nothing may be removed: while the
// clock is in doubt, and for as long as age after a person confirmed a clock that had gone forward, because what is from before the jump may look
// older than it is.
func (g *JumpGuard) Before(age time.Duration) (before time.Time, ok bool) {
	s := g.State()
	if before = s.Trusted; s.Now.Before(before) {
		before = s.Now
	}
	before = before.Add(-age)
	return before, s.Doubt == "" && !before.Before(s.Confirmed)
}

// doubts notes at the start what an earlier process knew. away is how long there may have been none.
func (g *JumpGuard) doubts(wall time.Time, kept job.KeptClock, away time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since, g.away = kept.Confirmed, away
	if kept.Trusted.IsZero() {
		return
	}
	switch by := wall.Sub(kept.Trusted); {
	case by > away:
		g.doubt, g.trusted = ClockAhead, kept.Trusted
	case by < -g.most:
		g.doubt, g.trusted = ClockBehind, kept.Trusted
	}
}

// confirm trusts what the wall clock says now. forward tells whether it had gone forward.
func (g *JumpGuard) confirm() (forward bool) {
	s := g.State()
	g.mu.Lock()
	defer g.mu.Unlock()
	forward = s.Wall.Sub(s.Trusted) > g.most
	if forward {
		g.since = s.Wall
	}
	g.doubt = ""
	g.trusted, g.began, g.apart = s.Wall, s.Now, s.Wall.Sub(s.Now)
	return forward
}

// kept is what the store is to keep.
func (g *JumpGuard) kept() job.KeptClock {
	s := g.State()
	return job.KeptClock{Trusted: s.Trusted, Latest: s.Now, Confirmed: s.Confirmed}
}

// anchored is a clock that is ahead of another by so much: the machine's is behind the last trusted time, and what is recorded must not seem
// older than what is there.
type anchored struct {
	Clock
	ahead time.Duration
}

// Now is part of Clock.
func (a anchored) Now() time.Time { return a.Clock.Now().Add(a.ahead) }

// guardClock compares the clock with what the store kept of the time, and sets e.clock and e.guard.
func (e *Engine) guardClock(ctx context.Context, o *Options) error {
	kept, err := e.keptClock(ctx)
	if err != nil {
		return err
	}
	wall := o.Clock.Now()
	e.clock = o.Clock
	if behind := kept.Trusted.Sub(wall); behind > o.Retain.Jump && !o.Retain.Unattended {
		e.clock = anchored{o.Clock, behind}
	}
	e.guard = newJumpGuard(e.clock, o.Retain.Jump)
	e.guard.doubts(wall, kept, o.Retain.Away)
	if e.latest = kept.Latest; o.Retain.Unattended && e.Frozen() {
		e.guard.confirm()
	}
	return nil
}

// keptClock reads what the store kept. One that has never been asked to is as old as its newest job.
func (e *Engine) keptClock(ctx context.Context) (job.KeptClock, error) {
	keeper, ok := e.store.(job.ClockStore)
	if !ok {
		return job.KeptClock{}, nil
	}
	kept, err := keeper.KeptClock(ctx)
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

// keepClock has the store keep the time.
func (e *Engine) keepClock(ctx context.Context) error {
	if keeper, ok := e.store.(job.ClockStore); ok {
		return keeper.KeepClock(ctx, e.guard.kept())
	}
	return nil
}

// Guard gives what knows whether ages can be told.
func (e *Engine) Guard() *JumpGuard { return e.guard }

// Frozen tells whether retention removes nothing because the clock is in doubt.
func (e *Engine) Frozen() bool {
	_, jumped := e.guard.Jumped()
	return jumped
}

// ConfirmClock trusts the wall clock as it is now, in the name of a person who looked at it; the reason is entered in the audit list. After a jump
// forward everything that has ended is kept for its full time from now on. Errors: Invalid without a note, Refused when there is no doubt.
func (e *Engine) ConfirmClock(ctx context.Context, actor, note string) (ClockState, error) {
	s := e.guard.State()
	switch {
	case note == "":
		return s, job.Errorf(job.Invalid, "clock", "", "it needs a note: the audit list records why")
	case s.Doubt == "":
		return s, job.Errorf(job.Refused, "clock", "", "the clock is not in doubt: there is nothing to confirm")
	}
	what := s.Doubt + " by " + s.By.Round(time.Second).String() + ", now " + s.Wall.UTC().Format(time.RFC3339)
	if err := e.Audit(ctx, Entry{Actor: actor, Event: "confirm-clock", Object: what, Note: note}); err != nil {
		return s, err
	}
	e.guard.confirm()
	s = e.guard.State()
	if err := e.keepClock(ctx); err != nil {
		return s, err
	}
	return s, e.meetDeadlines(ctx)
}

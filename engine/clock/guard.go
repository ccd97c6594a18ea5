package clock

import (
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Doubts about the clock.
const (
	Ahead  = "ahead"  // at the start it was further on than the last trusted time by more than Retention.Away
	Behind = "behind" // at the start it was before the last trusted time
	Jumped = "jumped" // it was set while the process runs
)

// State describes the time as an engine sees it.
type State struct {
	Wall    time.Time `json:"wall"`    // the time of the machine
	Now     time.Time `json:"now"`     // what records get
	Trusted time.Time `json:"trusted"` // the true time is not before it; ages are counted by it
	// why nothing is removed by its age; empty: nothing speaks against it
	Doubt     string        `json:"doubt,omitempty"`
	By        time.Duration `json:"-"`                  // how far the wall clock is off, if there is a doubt
	Confirmed time.Time     `json:"confirmed,omitzero"` // when a person confirmed a clock that had gone forward
	// records get another time than the machine's until the next start
	Restart bool `json:"restart,omitempty"`
}

// Guard decides whether ages can be computed. It compares the wall clock with the steady one, and at the start with the
// last time that an earlier process trusted. Everything that removes things by their age asks it first.
type Guard struct {
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

// NewGuard makes a guard that tolerates jumps up to most; 0 means 1 h. It trusts the time of its creation.
func NewGuard(c Clock, most time.Duration) *Guard {
	if most <= 0 {
		most = time.Hour
	}
	now := c.Now()
	return &Guard{clock: c, most: most, apart: c.Wall().Sub(now), trusted: now, began: now}
}

// Now is part of Clock.
func (g *Guard) Now() time.Time { return g.clock.Now() }

// Wall is part of Clock.
func (g *Guard) Wall() time.Time { return g.clock.Wall() }

// Jumped reports whether the wall clock is further off than it may be, and by how much it is.
func (g *Guard) Jumped() (by time.Duration, jumped bool) {
	s := g.State()
	return s.By, s.Doubt != ""
}

// State returns the state of the clock now.
func (g *Guard) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{Wall: g.clock.Wall(), Now: g.clock.Now(), Confirmed: g.since}
	s.Trusted = g.trusted.Add(s.Now.Sub(g.began))
	if g.doubt == "" {
		if by := s.Wall.Sub(s.Now) - g.apart; by.Abs() > g.most {
			s.Doubt, s.By = Jumped, by
		}
	} else if by := s.Wall.Sub(s.Trusted); by < -g.most || by > g.away {
		s.Doubt, s.By = g.doubt, by
	}
	s.Restart = s.Doubt == "" && s.Wall.Sub(s.Now).Abs() > g.most
	return s
}

// Before returns the time before which something must have changed last to be older than age. ok is false when nothing
// may be removed: while the clock is in doubt, and for the duration age after a person confirmed a clock that had gone
// forward, because what is from before the jump may appear older than it is.
func (g *Guard) Before(age time.Duration) (before time.Time, ok bool) {
	s := g.State()
	if before = s.Trusted; s.Now.Before(before) {
		before = s.Now
	}
	before = before.Add(-age)
	return before, s.Doubt == "" && !before.Before(s.Confirmed)
}

// Compare notes at the start what an earlier process stored. away is how long there may have been none.
func (g *Guard) Compare(wall time.Time, kept job.KeptClock, away time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since, g.away = kept.Confirmed, away
	if kept.Trusted.IsZero() {
		return
	}
	switch by := wall.Sub(kept.Trusted); {
	case by > away:
		g.doubt, g.trusted = Ahead, kept.Trusted
	case by < -g.most:
		g.doubt, g.trusted = Behind, kept.Trusted
	}
}

// Confirm trusts the wall clock as it is now. forward reports whether it had gone forward.
func (g *Guard) Confirm() (forward bool) {
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

// Kept returns what the store is to keep.
func (g *Guard) Kept() job.KeptClock {
	s := g.State()
	return job.KeptClock{Trusted: s.Trusted, Latest: s.Now, Confirmed: s.Confirmed}
}

// Shifted is a clock that is ahead of another by a duration: the machine's clock is behind the last trusted time, and
// new records must not seem older than those that exist.
func Shifted(c Clock, ahead time.Duration) Clock { return shifted{c, ahead} }

type shifted struct {
	Clock
	ahead time.Duration
}

// Now is part of Clock.
func (s shifted) Now() time.Time { return s.Clock.Now().Add(s.ahead) }

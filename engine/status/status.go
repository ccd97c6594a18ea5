// Package status describes the state of an engine that is not part of any record.
package status

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Engine is the state of an engine now.
type Engine struct {
	Worker   string        // the name under which it claims
	Labels   []string      // of its slots
	Open     bool          // it takes jobs: Run is under way and not stopping
	Running  int           // steps
	Slots    int           // steps that may run at once, of all kinds
	Stalled  time.Duration // time since the sweep made progress; 0 while Run is not under way
	Alone    job.ID        // a suspect of poison that runs alone; empty: none
	Draining bool          // no job is begun until a suspect can run alone
	Shared   Pool          // of the kinds without slots of their own
	Own      map[job.Kind]Pool

	Impairment *Impairment // nil: none
	Checked    bool        // the program reports impairments to the engine
}

// Pool is a number of slots.
type Pool struct {
	Slots int
	Busy  int
	Next  job.Claim // the engine's next claim for these slots; N and Until are zero
}

// Impairment keeps the whole server from working, such as a full disk.
type Impairment struct {
	Since time.Time
	Err   error // its text is the sentence of the blocker
}

// Pool returns the slots in which jobs of a kind run.
func (e *Engine) Pool(k job.Kind) Pool {
	if p, ok := e.Own[k]; ok {
		return p
	}
	return e.Shared
}

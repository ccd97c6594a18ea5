package engine

import (
	"github.com/stagepost/stagepost/job"
)

// pool is a number of slots and the positions from which jobs are taken into them. Most kinds share one; a kind that
// must not wait for others has its own ([Work.Slots]).
type pool struct {
	places []job.KindState
	total  int
	free   int  // the engine's mu guards it; a search for jobs takes slots and gives back those that stay empty
	busy   int  // with a step in them; mu guards it
	hungry bool // there may be jobs to claim; mu guards it
}

// take takes up to n free slots. The caller holds mu.
func (e *Engine) take(p *pool, n int) int {
	n = max(min(n, p.free), 0)
	p.free -= n
	e.steps.Add(n)
	return n
}

// reserve takes up to n of the shared slots, so that new jobs can be claimed in the commit that creates them.
func (e *Engine) reserve(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open || e.suspects.closed() {
		return 0
	}
	return e.take(e.shared, n)
}

func (e *Engine) unreserve(p *pool) {
	e.mu.Lock()
	p.free++
	e.mu.Unlock()
	e.steps.Done()
	signal(e.wake)
}

// occupy notes that a step runs in a slot, vacate that it ended.
func (e *Engine) occupy(p *pool) {
	e.mu.Lock()
	p.busy++
	e.mu.Unlock()
}

func (e *Engine) vacate(p *pool) {
	e.mu.Lock()
	p.busy--
	e.mu.Unlock()
	e.unreserve(p)
}

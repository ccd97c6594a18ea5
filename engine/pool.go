package engine

import (
	"math"

	"github.com/stagepost/stagepost/job"
)

// pool is a number of slots and the states from which jobs are claimed for them. Most kinds share one; a kind that must
// not wait for others has its own ([Work.Slots]).
type pool struct {
	states []job.KindState
	total  int
	free   int // the engine's mu guards it; a claim takes slots and frees those that stay empty
	busy   int // with a step in them; mu guards it
	// how many jobs may be claimable, at most unknown; mu guards it. A claim takes no more slots, because those that it
	// has are missing to new jobs, which are claimed in the commit that creates them
	waiting int
}

// unknown is any number of jobs.
const unknown = math.MaxInt32

// expect adds jobs that may be claimable. The caller holds mu.
func (p *pool) expect(n int) { p.waiting = min(p.waiting+n, unknown) }

// expectAll notes that any number of jobs of all kinds may be claimable. The caller holds mu.
func (k *kinds) expectAll() {
	for _, p := range k.pools {
		p.expect(unknown)
	}
}

// takeSlots takes up to n free slots. The caller holds mu.
func (e *Engine) takeSlots(p *pool, n int) int {
	n = max(min(n, p.free), 0)
	p.free -= n
	e.steps.Add(n)
	return n
}

// reserve takes up to n shared slots, so that new jobs can be claimed in the commit that creates them.
func (e *Engine) reserve(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open.Load() || e.suspects.closed() {
		return 0
	}
	return e.takeSlots(e.shared, n)
}

func (e *Engine) unreserve(p *pool) {
	e.mu.Lock()
	p.free++
	e.mu.Unlock()
	e.steps.Done()
	signal(e.wake)
}

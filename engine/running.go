package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

// running is a job that this engine works on. It compares versions of the record to distinguish changes by other
// parties from those of its own step.
type running struct {
	epoch    atomic.Int64 // of the claim under which it works
	cancel   context.CancelCauseFunc
	changed  chan struct{}   // has space for one
	stopping <-chan struct{} // closed when the engine begins to stop
	ended    bool            // it has ended, and its waiters are not notified yet; the engine's mu guards it

	mu      sync.Mutex // guards the rest
	listens bool       // the step asked for changed
	commits bool       // a change by the step is on its way
	version int64      // of the record as the step has it
	hinted  int64      // the newest version of a hint
	term    *term      // of the attempt that is under way
	nudges  []string   // codes of nudges since the attempt began
}

// listen makes the renewals read the record too, because hints can be lost.
func (r *running) listen() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listens = true
	return r.changed
}

func (r *running) listening() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listens
}

// serve notes that an attempt begins with a version of the record, and its term.
func (r *running) serve(version int64, t *term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listens, r.term, r.version = false, t, max(r.version, version)
	r.nudges = nil
}

// nudge notes what may have happened during the attempt, which may be about to wait for it.
func (r *running) nudge(code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.nudges, code) {
		r.nudges = append(r.nudges, code)
	}
}

// nudged returns the codes of the nudges since the last attempt began.
func (r *running) nudged() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nudges
}

// saw notes the version of a record that the step was given.
func (r *running) saw(version int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = max(r.version, version)
}

// committing notes that a change by the step is on its way to the store: hints of it are no news.
func (r *running) committing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits = true
}

// committed notes the result of a change by the step. before is the version that the step had, after that of the record
// now, or 0 if that is unknown. If they differ by more than one, another party changed the record too.
func (r *running) committed(before, after int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits = false
	news := after > before+1 || r.hinted > max(r.version, after)
	r.version = max(r.version, after)
	if news {
		signal(r.changed)
	}
}

// heed handles a hint about the record under the claim. j is nil if the hint has no record.
func (r *running) heed(j *job.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j != nil {
		r.hinted = max(r.hinted, j.Version)
	}
	if r.commits || j != nil && j.Version <= r.version {
		return
	}
	if j != nil && r.term != nil {
		r.term.set(j.Expires) // a new state has its own timeout
	}
	signal(r.changed)
}

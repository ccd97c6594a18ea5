package engine

import (
	"context"
	"sync"

	"github.com/stagepost/stagepost/job"
)

// running is a job in the passes of this engine. By the versions of the record it reports the changes of others from
// those of its own step.
type running struct {
	epoch    int64 // the engine's mu guards it
	cancel   context.CancelCauseFunc
	changed  chan struct{}   // has space for one
	stopping <-chan struct{} // closed when the engine begins to stop

	mu      sync.Mutex // guards the rest
	listens bool       // the step asked for changed
	commits bool       // a change by the step is on its way
	version int64      // of the record as the step has it
	heard   int64      // the newest version that anybody notified of
	term    *term      // of the attempt that is under way
}

// listen makes the renewals search for changes that no hint notified of.
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

// serve notes that an attempt begins with a record, and whose time it is.
func (r *running) serve(version int64, t *term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listens, r.term, r.version = false, t, max(r.version, version)
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

// committed notes what became of a change by the step that knew version before: after is that of the record then, 0 if
// no one has. A record that is further on than by this one change was changed by others too.
func (r *running) committed(before, after int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits = false
	news := after > before+1 || r.heard > max(r.version, after)
	r.version = max(r.version, after)
	if news {
		signal(r.changed)
	}
}

// heed takes a hint about the record under the claim, nil for one that states no more.
func (r *running) heed(j *job.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j != nil {
		r.heard = max(r.heard, j.Version)
	}
	if r.commits || j != nil && j.Version <= r.version {
		return
	}
	if j != nil && r.term != nil {
		r.term.set(j.Expires) // the one who changed the state changed its time
	}
	signal(r.changed)
}

package engine

import (
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

type progressBoard struct {
	some atomic.Bool // a job may be in now; mu guards its changes
	mu   sync.Mutex  // guards now
	now  map[job.ID]job.Progress
}

func (b *progressBoard) set(id job.ID, p job.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now[id] = p
	b.some.Store(true)
}

func (b *progressBoard) drop(id job.ID) {
	if !b.some.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.now, id)
	b.some.Store(len(b.now) > 0)
}

// Progress returns the progress of a job that runs in this engine, and whether its step reported any.
func (e *Engine) Progress(id job.ID) (job.Progress, bool) {
	e.progress.mu.Lock()
	defer e.progress.mu.Unlock()
	p, ok := e.progress.now[id]
	return p, ok
}

package engine

import (
	"sync"

	"github.com/stagepost/stagepost/job"
)

type progressBoard struct {
	mu  sync.Mutex
	now map[job.ID]job.Progress
}

func (b *progressBoard) set(id job.ID, p job.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now[id] = p
}

func (b *progressBoard) drop(id job.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.now, id)
}

// Progress returns the progress of a job that runs in this engine, and whether its step reported any.
func (e *Engine) Progress(id job.ID) (job.Progress, bool) {
	e.progress.mu.Lock()
	defer e.progress.mu.Unlock()
	p, ok := e.progress.now[id]
	return p, ok
}

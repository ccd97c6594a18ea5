package engine

import (
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Progress reports how far the work of a running step has come.
type Progress struct {
	State lifecycle.State `json:"state"`
	Done  int64           `json:"done"`
	Total int64           `json:"total,omitempty"` // 0: not known
	Unit  string          `json:"unit"`            // "bytes", "files"
	At    time.Time       `json:"at"`
}

type progressBoard struct {
	mu  sync.Mutex
	now map[job.ID]Progress
}

func (b *progressBoard) set(id job.ID, p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now[id] = p
}

func (b *progressBoard) drop(id job.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.now, id)
}

// Progress gives how far a job that runs in this engine has come, and whether it notified.
func (e *Engine) Progress(id job.ID) (Progress, bool) {
	e.progress.mu.Lock()
	defer e.progress.mu.Unlock()
	p, ok := e.progress.now[id]
	return p, ok
}

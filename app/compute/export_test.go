package compute

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Sweep is one search for what earlier processes left.
func (a *App) Sweep(ctx context.Context) error { return a.sweep(ctx) }

// DirOf is where a job's files lie, below the application's directory.
func DirOf(id job.ID) string { return dirOf(id) }

// Usage reports what an owner has.
func (a *App) Usage(owner string) int64 {
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	return a.usage.total[owner]
}

// Calls is how many steps deal with an executor.
func (a *App) Calls(name string) int {
	a.registry.mu.Lock()
	defer a.registry.mu.Unlock()
	return a.registry.members[name].calls
}

// Waiting is how many jobs are in line for an executor.
func (a *App) Waiting() int {
	a.registry.mu.Lock()
	defer a.registry.mu.Unlock()
	return len(a.registry.waiting.jobs)
}

// Fill pretends that an upload has so many files.
func (u *Upload) Fill(n int) {
	for i := range n {
		u.files[time.Unix(int64(i), 0).String()] = File{}
	}
}

// Abandoned is after how long what no one owns is removed.
const Abandoned = abandoned

// Loads is how many jobs fetch their inputs.
func (a *App) Loads() int {
	a.loads.mu.Lock()
	defer a.loads.mu.Unlock()
	return len(a.loads.of)
}

package engine

import (
	"context"
	"log/slog"

	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// surroundings are what runs use of their process, be it that of an engine or that of a remote worker.
type surroundings struct {
	clock    clock.Clock
	log      *slog.Logger
	logs     JobLogs // nil: none
	progress progressBoard
}

// backend commits what a step sets in the middle of its work, and reads for it: an engine by its store, a remote
// worker by requests to the server. The methods of [Run] with the same names state what they do.
type backend interface {
	// save commits what was set; the claim stays.
	save(ctx context.Context, r *Run) error
	// takes is Move, or Rest if there is a blocker.
	takes(ctx context.Context, r *Run, e lifecycle.Event, b *job.Blocker) error
	// read returns the record as it is now.
	read(ctx context.Context, r *Run) (job.Job, error)
	tasks(ctx context.Context, r *Run) ([]job.Task, error)
	// spawn commits children together with what was set; first is the number of the first of them.
	spawn(ctx context.Context, r *Run, first int, orders []Order) error
	// adopt sets what a report states besides its outcome, and commits its children.
	adopt(ctx context.Context, r *Run, p *remote.Report) error
}

// local is the backend of an engine's own runs.
type local struct{ *Engine }

func (e local) save(ctx context.Context, r *Run) error { return r.commit(ctx, r.update()) }

func (e local) takes(ctx context.Context, r *Run, ev lifecycle.Event, b *job.Blocker) error {
	return r.takes(ctx, ev, b)
}

func (e local) read(ctx context.Context, r *Run) (job.Job, error) { return e.store.Get(ctx, r.id) }

func (e local) tasks(ctx context.Context, r *Run) ([]job.Task, error) {
	return e.store.Tasks(ctx, r.id)
}

// spawn is part of backend. No kind is removed concurrently.
func (e local) spawn(ctx context.Context, r *Run, first int, orders []Order) error {
	e.defining.RLock()
	defer e.defining.RUnlock()
	return r.create(ctx, first, orders)
}

// adopt is part of backend. No kind is removed concurrently.
func (e local) adopt(ctx context.Context, r *Run, p *remote.Report) error {
	e.defining.RLock()
	defer e.defining.RUnlock()
	return r.adopt(ctx, p)
}

// create creates children in one commit; first is the number of the first of them.
func (r *Run) create(ctx context.Context, first int, orders []Order) error {
	spawn := make([]job.Created, 0, len(orders))
	for i, one := range orders {
		one.Parent, one.ID = r.job.ID, ""
		spawn = append(spawn, job.Created{})
		if err := r.engine.prepare(&spawn[i], &one, first+i, r.job.Created); err != nil {
			return err
		}
	}
	t := r.update()
	t.Spawn = spawn
	return r.commit(ctx, t)
}

package flow

import (
	"context"

	"github.com/stagepost/stagepost/lifecycle"
)

// What tests outside the package need of its inside.

// Watching gives options with which a test is notified when the machine enters a state.
func (o Options) Watching(machine func(string)) Options {
	o.machine = machine
	return o
}

// ClearInjected reverts every value of the flow, as if no one had ever given one.
func (r *Runner) ClearInjected(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return err
	}
	r.injected = map[string]Value{}
	return storageErr(r.save(ctx, &Commit{Injected: r.injected}))
}

// MoveFrom asks a flow that is in a state to come to another by an event, as the Runner does itself.
func (r *Runner) MoveFrom(ctx context.Context, from lifecycle.State, e lifecycle.Event, to lifecycle.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from != Resuming { // loading goes on from there at once
		if err := r.load(ctx); err != nil {
			return err
		}
	}
	r.state = from
	return r.move(ctx, e, to, nil)
}

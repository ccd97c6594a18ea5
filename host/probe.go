package host

import (
	"context"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// stalledFor is how long the engine's sweep may get nothing done before the server counts as unhealthy: many sweeps,
// so that a slow disk or a loaded machine does not.
func stalledFor(sweep time.Duration) time.Duration { return max(10*sweep, 30*time.Second) }

// healthy returns why the server cannot work: it failed, or the engine's sweep makes no progress.
func (r *Server) healthy() error {
	if err := r.alive(); err != nil {
		return err
	}
	if d := r.Engine.Status().Stalled; d > r.stalls {
		return fmt.Errorf("the engine's sweep has got nothing done for %s",
			quantity.FormatDuration(d.Round(time.Second)))
	}
	return nil
}

// serves returns why the server cannot do what requests ask for: it is not healthy, or its store refuses operations. A
// restart would not help against the latter.
func (r *Server) serves() error {
	err := r.healthy()
	if err == nil && r.store.Fault != nil {
		err = r.store.Fault()
	}
	return err
}

// Probe asks whether the server really works: the sweep gets on, and the store's commit loop answers before ctx ends.
func (r *Server) Probe(ctx context.Context) error {
	if err := r.healthy(); err != nil {
		return err
	}
	if _, err := r.Engine.Store().Holds(ctx); err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	return nil
}

// Status is a sentence for the service manager.
func (r *Server) Status() string {
	s := r.Engine.Status()
	return fmt.Sprintf("%d of %d steps at work, %s", s.Running, s.Slots, r.URL)
}

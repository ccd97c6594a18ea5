// Package measured is the work that benchmarks measure, J8: a job with 200 B that is accepted, moved through six
// durable transitions and completed. The benchmarks of this module and those of bench/market share it.
package measured

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

// Kind is the kind of the jobs.
const Kind job.Kind = "bench.j8"

// Stages are the states that have a step. A job enters the first when it is accepted, and Completed after the last.
const Stages = 7

// Text is what a job carries.
type Text struct{ Text string }

// Payload has 200 bytes as JSON.
var Payload = Text{fmt.Sprintf("%0189d", 7)}

// Life has one queue, six further stages and two ends.
var Life = func() *lc.Table {
	var stages []lc.Stage
	for i := range Stages {
		next := state(i + 1)
		if i == Stages-1 {
			next = "Completed"
		}
		transitions := []lc.Transition{
			lc.OnPass("next", next, lc.Worker, "the stage is done"),
			lc.OnFail("fail", "Failed", lc.Worker|lc.Timer, "the stage failed"),
		}
		if i == 0 {
			stages = append(stages, lc.OnQueue(state(i), "accepted", transitions...))
		} else {
			stages = append(stages, lc.OnWork(state(i), "under way", transitions...))
		}
	}
	return lc.Must(string(Kind), append(stages,
		lc.OnEnd("Completed", lc.OK, "done"), lc.OnEnd("Failed", lc.Failed, "failed"))...)
}()

func state(i int) lc.State { return lc.State(fmt.Sprint("Stage", i)) }

// Work has steps that do nothing. The first one calls begin, if it is not nil.
func Work(begin func()) engine.Work {
	steps := map[lc.State]engine.Step{}
	for i := range Stages {
		steps[state(i)] = func(context.Context, *engine.Run) error { return nil }
	}
	if begin != nil {
		steps[state(0)] = func(context.Context, *engine.Run) error {
			begin()
			return nil
		}
	}
	return engine.Work{Life: Life, Prefix: "j8", Steps: steps}
}

// Store is what an engine needs, and how it is closed.
type Store interface {
	job.Store
	Close() error
}

// Engine is a running engine with a store of its own. Call Open or Run.
type Engine struct {
	store  Store
	engine *engine.Engine
	cancel context.CancelFunc
	done   chan error
}

// Open makes an embedded store in dir, with the default options, and runs an engine as Run does.
func Open(dir string, callers int, begin func()) (*Engine, error) {
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return Run(store, callers, begin)
}

// Run runs an engine with slots for that many callers. The first step of each job calls begin. Close closes the store,
// and so does an error.
func Run(store Store, callers int, begin func()) (*Engine, error) {
	e, err := engine.New(store, []engine.Work{Work(begin)}, engine.Options{Slots: 2*callers + 2})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Engine{store: store, engine: e, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- e.Run(ctx) }()
	return r, nil
}

// Do submits a job and waits until its end is on disk.
func (e *Engine) Do(ctx context.Context) error {
	j, err := e.engine.Complete(ctx, engine.Order{Kind: Kind, Spec: Payload})
	switch {
	case err != nil:
		return err
	case j.Outcome != lc.OK:
		return fmt.Errorf("%s ended in %s: %s", j.ID, j.State, j.Message)
	}
	return nil
}

// Close stops the engine and closes the store.
func (e *Engine) Close() error {
	e.cancel()
	return errors.Join(<-e.done, e.store.Close())
}

package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Start runs an engine inside a synctest bubble until stop is called. Its chance is the same each time.
func Start(t *testing.T, store job.Store, o engine.Options, works ...engine.Work) (e *engine.Engine, stop func()) {
	t.Helper()
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(1, 2))
	}
	e, err := engine.New(store, works, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Post submits an order, of a letter if it states no kind.
func Post(t *testing.T, e *engine.Engine, o engine.Order) job.Job {
	t.Helper()
	if o.Kind == "" {
		o.Kind = job.Kind(Letter.Name())
	}
	j, err := e.Submit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// End waits until a job has ended, for a day at most.
func End(t *testing.T, e *engine.Engine, id job.ID) job.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	j, err := e.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		t.Fatalf("%v (it is %s: %s)", err, j.State, j.Message)
	}
	return j
}

// Run runs an engine in real time until stop is called or the test ends, and closes then what is to be closed after it.
func Run(t testing.TB, e *engine.Engine, closers ...func() error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		err := <-done
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		for _, c := range closers {
			err = errors.Join(err, c())
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

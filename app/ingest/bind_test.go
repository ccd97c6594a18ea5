package ingest

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// registrations counts the registrations for changes of a store.
type registrations struct {
	job.Store
	n atomic.Int32
}

func (r *registrations) Watch(ctx context.Context, wake func([]job.Hint)) {
	r.n.Add(1)
	r.Store.Watch(ctx, wake)
}

// TestBindRegisters: when Bind returns, the application is registered for the ends of jobs. The engine may run at once,
// and the locks of a job that ends before a registration stay until a sweep.
func TestBindRegisters(t *testing.T) {
	s := &registrations{Store: mem.New()}
	a, err := New(options(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(s, a.Works(), engine.Options{Deliver: a.Deliver()})
	if err != nil {
		t.Fatal(err)
	}
	// One processor, and no goroutine begins before this one waits.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	before := s.n.Load()
	a.Bind(e)
	if got := s.n.Load() - before; got != 2 {
		t.Errorf("%d registrations, want 2", got)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

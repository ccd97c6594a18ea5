//go:build !race

package bench

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

// Bounds of what a J8 allocates on the heap, in the engine and the store together: 14,800 bytes in 60 allocations, and
// a tenth more for a machine under load, on which fewer jobs share a transaction. They are counted, not timed.
const (
	mostBytes       = 16_300
	mostAllocations = 70
)

// TestAllocationsOfJ8 bounds the memory of a job that is accepted, moved through its transitions and completed. The
// engine sweeps and renews nothing meanwhile, however long the test takes. What the store allocates once is not
// counted: it has had jobs before.
func TestAllocationsOfJ8(t *testing.T) {
	const callers, jobs = 64, 1000
	store, err := sqlite.Open(t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	e, err := engine.New(store, []engine.Work{j8Work()}, engine.Options{Slots: 2*callers + 2, Lease: time.Hour,
		Sweep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	complete := func(int) {
		if j, err := e.Complete(ctx, engine.Order{Kind: "bench.j8", Spec: payload}); err != nil || j.Outcome != lc.OK {
			t.Errorf("%s: %v", j.State, err)
		}
	}
	drive(callers, jobs/2, complete)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	drive(callers, jobs, complete)
	runtime.ReadMemStats(&after)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	bytes, allocations := (after.TotalAlloc-before.TotalAlloc)/jobs, (after.Mallocs-before.Mallocs)/jobs
	t.Logf("a J8 takes %d bytes in %d allocations", bytes, allocations)
	if bytes > mostBytes || allocations > mostAllocations {
		t.Errorf("a J8 takes %d bytes in %d allocations, want at most %d and %d. This shows where: go test ./bench "+
			"-run xxx -bench 'BenchmarkEngine$' -benchtime 20000x -memprofile mem.out -memprofilerate 512",
			bytes, allocations, mostBytes, mostAllocations)
	}
}

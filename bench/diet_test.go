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

// diet bounds what a J8 allocates on the heap, in the engine and the store together: a tenth more than on a machine
// without other load, on which more jobs share a transaction. It is counted, not timed.
type diet struct {
	name        string
	options     sqlite.Options
	bytes       uint64
	allocations uint64
}

// With a log the rows that the database does not have yet are in memory, anew for each turn of the applier.
var diets = []diet{
	{"log", sqlite.Options{}, 20_000, 32},
	{"database", sqlite.Options{NoLog: true}, 4_600, 32},
}

// TestAllocationsOfJ8 bounds the memory of a job that is accepted, moved through its transitions and completed. The
// engine sweeps and renews nothing meanwhile, however long the test takes. What the store allocates once is not
// counted: it has had jobs before.
func TestAllocationsOfJ8(t *testing.T) {
	for _, d := range diets {
		t.Run(d.name, func(t *testing.T) { testDiet(t, d) })
	}
}

func testDiet(t *testing.T, d diet) {
	const callers, jobs = 64, 1000
	store, err := sqlite.Open(t.TempDir(), d.options)
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
	if bytes > d.bytes || allocations > d.allocations {
		t.Errorf("a J8 takes %d bytes in %d allocations, want at most %d and %d. This shows where: go test ./bench "+
			"-run xxx -bench 'BenchmarkEngine$' -benchtime 20000x -memprofile mem.out -memprofilerate 512",
			bytes, allocations, d.bytes, d.allocations)
	}
}

package durable_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// TestManyWaitingFlows lets 10,000 flows wait for a signal: they hold no goroutine and little memory, and a signal
// makes one of them go on at once.
func TestManyWaitingFlows(t *testing.T) {
	const n = 10_000
	arrived := make(chan struct{}, n)
	var mu sync.Mutex // guards received
	heard := map[string]time.Time{}
	o := one(func() flow.Item {
		return flow.Linear("deploy", &flow.Task{Name: "a", Result: flow.One("a")}, flow.Wait("approval", "approved", 0),
			&flow.Task{Name: "c"})
	})
	o.Listeners = []flow.Listener{func(e flow.Event) {
		switch {
		case e.Within == flow.Waits:
			arrived <- struct{}{}
		case e.Atom == "approval" && e.New == flow.Success && e.Within == "":
			mu.Lock()
			heard[e.ID] = time.Now()
			mu.Unlock()
		}
	}}
	w := start(t, mem.New(), o, engine.Options{})
	measure := func() (goroutines int, heap uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapInuse
	}
	goroutines, heap := measure()
	ids := make([]job.ID, n)
	began := time.Now()
	for i := range ids {
		ids[i] = w.submit(order)
	}
	for range ids {
		<-arrived
	}
	for _, id := range ids {
		w.waits(id, durable.BlockSignal)
	}
	took := time.Since(began)
	more, used := measure()
	grown := max(int64(used)-int64(heap), 0)
	if more > goroutines+20 || grown > 200<<20 {
		t.Errorf("%d goroutines grew to %d, the heap by %d MiB", goroutines, more, grown>>20)
	}
	var late []time.Duration
	for i := range 100 {
		id, sent := ids[i*(n/100)], time.Now()
		w.signal(id, "approved", i)
		w.until(id, func(j *job.Job) bool { return j.Ended })
		mu.Lock()
		late = append(late, heard[string(id)].Sub(sent))
		mu.Unlock()
	}
	slices.Sort(late)
	t.Logf("%d flows wait after %s; %d goroutines before, %d after; heap +%.1f MiB; from signal to the task's success: median %s, p99 %s", n, took.Round(time.Millisecond),
		goroutines, more, float64(grown)/(1<<20), late[50].Round(time.Microsecond), late[98].Round(time.Microsecond))
	if late[50] > time.Second {
		t.Errorf("a signal takes %s", late[50])
	}
}

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// flowOf makes a flow of n tasks that do nothing: in a line, all at once, or in layers of ten.
func flowOf(shape string, n int) flow.Item {
	nothing := func(context.Context, *flow.Call) (any, error) { return nil, nil }
	tasks := make([]flow.Item, n)
	for i := range tasks {
		tasks[i] = &flow.Task{Name: "task-" + strconv.Itoa(i), Execute: nothing}
	}
	switch shape {
	case "unordered":
		return flow.Unordered(shape, tasks...)
	case "layers":
		var layers []flow.Item
		for i := 0; i < n; i += 10 {
			layers = append(layers, flow.Unordered("layer-"+strconv.Itoa(i/10), tasks[i:min(i+10, n)]...))
		}
		return flow.Linear(shape, layers...)
	}
	return flow.Linear(shape, tasks...)
}

// flowRate runs a flow in memory and gives tasks a second: of the run alone, and with building, compiling and
// validating.
func flowRate(b *testing.B, shape string, n int, workers *flow.Pool) (run, total float64) {
	b.Helper()
	runtime.GC()
	begin := time.Now()
	r, err := flow.New(flowOf(shape, n), flow.Options{Workers: workers})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := r.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	return float64(n) / time.Since(began).Seconds(), float64(n) / time.Since(begin).Seconds()
}

// flowsOn starts an engine for flows on a store; the factory's arguments are shape and number.
func flowsOn(b testing.TB, store job.Store, slots int) (*durable.Flows, *engine.Engine, func()) {
	b.Helper()
	flows, err := durable.New(durable.Options{Factories: map[string]durable.Factory{"bench": func(
		args json.RawMessage) (flow.Item, error) {
		var a struct {
			Shape string
			N     int
		}
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		if a.Shape == "wait" {
			return flow.Linear("wait", flow.Wait("approve", "approved", 0)), nil
		}
		return flowOf(a.Shape, a.N), nil
	}}})
	if err != nil {
		b.Fatal(err)
	}
	e, stop := running(b, store, slots, flows.Work())
	flows.Bind(e)
	return flows, e, stop
}

func benchOrder(shape string, n int) durable.Order {
	return durable.Order{Factory: "bench", Args: json.RawMessage(fmt.Sprintf(`{"shape": %q, "n": %d}`, shape, n))}
}

// finished submits a flow and waits for its SUCCESS.
func finished(ctx context.Context, flows *durable.Flows, e *engine.Engine, o durable.Order) error {
	j, err := flows.Submit(ctx, e, o)
	if err == nil {
		j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended })
	}
	if err == nil && j.State != flow.Success {
		err = fmt.Errorf("%s ended in %s: %s", j.ID, j.State, j.Message)
	}
	return err
}

// durableRate runs n tasks in one flow on a store, and gives tasks a second from submission to end.
func durableRate(b *testing.B, flows *durable.Flows, e *engine.Engine, shape string, n int) float64 {
	b.Helper()
	began := time.Now()
	if err := finished(b.Context(), flows, e, benchOrder(shape, n)); err != nil {
		b.Fatal(err)
	}
	return float64(n) / time.Since(began).Seconds()
}

func sqliteIn(b testing.TB, dir string) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkFlow measures flows beside TaskFlow, in turns, in up to three rounds: medians in tasks a second and how many
// times the peer's they are. In memory: the run alone. On SQLite: from submission to end, every state and result synced
// to disk, as the peer's.
func BenchmarkFlow(b *testing.B) {
	for _, c := range []struct {
		shape   string
		n       int
		backend string
		peers   int // tasks of the peer, which would take minutes for more
	}{
		{"linear", 1000, "memory", 1000}, {"unordered", 1000, "memory", 1000}, {"layers", 1000, "memory", 40},
		{"linear", 1000, "sqlite", 200}, {"unordered", 1000, "sqlite", 200}, {"layers", 1000, "sqlite", 40},
	} {
		b.Run(fmt.Sprintf("%s=%d/%s", c.shape, c.n, c.backend), func(b *testing.B) {
			dir := b.TempDir()
			flows, e, stop := flowsOn(b, sqliteIn(b, dir), 16)
			defer stop()
			var ours, parallel, theirs, disk []float64
			for range min(b.N, 3) {
				if c.backend == "memory" {
					for range 5 {
						run, _ := flowRate(b, c.shape, c.n, nil)
						two, _ := flowRate(b, c.shape, c.n, flow.NewPool(2))
						ours, parallel = append(ours, run), append(parallel, two)
					}
				} else {
					ours = append(ours, durableRate(b, flows, e, c.shape, c.n))
				}
				disk = append(disk, syncs(b, dir))
				if r := peer(b, dir, peerWork{shape: c.shape, backend: c.backend, n: c.peers}); r.Finished {
					theirs = append(theirs, r.Run)
				}
			}
			b.ReportMetric(median(ours), "tasks/s")
			if len(parallel) > 0 {
				b.ReportMetric(median(parallel), "parallel-tasks/s")
			}
			if len(theirs) > 0 {
				b.ReportMetric(median(theirs), "peer-tasks/s")
				b.ReportMetric(median(ours)/median(theirs), "times-peer")
			}
			b.ReportMetric(median(disk), "syncs/s")
			b.ReportMetric(0, "ns/op") // b.N is not what was measured
		})
	}
}

// BenchmarkFlowGrowth measures one flow of 100 to 100,000 tasks: what a task costs must not depend on how many there
// are.
func BenchmarkFlowGrowth(b *testing.B) {
	for _, backend := range []string{"memory", "sqlite"} {
		for _, shape := range []string{"linear", "unordered", "layers"} {
			for _, n := range []int{100, 1000, 10_000, 100_000} {
				if backend == "sqlite" && n > 10_000 {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s=%d", backend, shape, n), func(b *testing.B) {
					var rates []float64
					var flows *durable.Flows
					var e *engine.Engine
					if backend == "sqlite" {
						var stop func()
						flows, e, stop = flowsOn(b, sqliteIn(b, b.TempDir()), 16)
						defer stop()
					}
					for range min(b.N, 3) {
						if backend == "sqlite" {
							rates = append(rates, durableRate(b, flows, e, shape, n))
							continue
						}
						_, total := flowRate(b, shape, n, nil)
						rates = append(rates, total)
					}
					b.ReportMetric(median(rates), "tasks/s")
					b.ReportMetric(1e6/median(rates), "us/task")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkFlows measures flows of five tasks, one after the other and 64 at once, beside TaskFlow's one after the
// other.
func BenchmarkFlows(b *testing.B) {
	const most = 2000
	for _, backend := range []string{"memory", "sqlite"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/c=%d", backend, callers), func(b *testing.B) {
				dir := b.TempDir()
				var store job.Store = mem.New()
				if backend == "sqlite" {
					store = sqliteIn(b, dir)
				}
				flows, e, stop := flowsOn(b, store, max(callers, 16))
				defer stop()
				var ours, theirs, disk []float64
				for range min(b.N, 3) {
					ours = append(ours, manyFlows(b, flows, e, callers, most))
					disk = append(disk, syncs(b, dir))
					if r := peer(b, dir, peerWork{shape: "flows", backend: backend, n: 40}); r.Finished {
						theirs = append(theirs, r.Total/5)
					}
				}
				b.ReportMetric(median(ours), "flows/s")
				if len(theirs) > 0 {
					b.ReportMetric(median(theirs), "peer-flows/s")
					b.ReportMetric(median(ours)/median(theirs), "times-peer")
				}
				b.ReportMetric(median(disk), "syncs/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// manyFlows runs n flows of five tasks for so many callers and gives flows a second.
func manyFlows(b *testing.B, flows *durable.Flows, e *engine.Engine, callers, n int) float64 {
	b.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < n; i += callers {
				if err := finished(b.Context(), flows, e, benchOrder("linear", 5)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// BenchmarkFlowsWaiting measures 10,000 flows that wait for a signal, on SQLite: what they take in memory and
// goroutines, and how long a flow takes from the signal to its end (median and the slowest of a hundred).
func BenchmarkFlowsWaiting(b *testing.B) {
	const n = 10_000
	flows, e, stop := flowsOn(b, sqliteIn(b, b.TempDir()), 64)
	defer stop()
	before, goroutines := heap(), runtime.NumGoroutine()
	ids := make([]job.ID, n)
	var all sync.WaitGroup
	for c := range 64 {
		all.Go(func() {
			for i := c; i < n; i += 64 {
				j, err := flows.Submit(b.Context(), e, benchOrder("wait", 1))
				if err == nil {
					ids[i] = j.ID
					_, err = e.Await(b.Context(), j.ID, func(j *job.Job) bool {
						return j.Cause == durable.BlockSignal && !j.Claimed()
					})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
	var took []float64
	for _, id := range ids[n-100:] {
		began := time.Now()
		if err := flows.Signal(b.Context(), e, id, durable.Signal{Name: "approved"}); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Await(b.Context(), id, func(j *job.Job) bool { return j.State == flow.Success }); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	slowest := 0.0
	for _, t := range took {
		slowest = max(slowest, t)
	}
	b.ReportMetric(median(took), "ms-p50")
	b.ReportMetric(slowest, "ms-most")
	b.ReportMetric(0, "ns/op")
}

// heap gives the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

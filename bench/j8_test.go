package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/bench/internal/bare"
	"github.com/stagepost/stagepost/bench/internal/measured"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

// callers are the numbers of concurrent callers that are measured.
var callers = []int{1, 16, 128, 1024}

// j8 is the life of the measured work: accepted, six durable transitions, completed.
var j8 = measured.Life

// payload is 200 bytes, as in the definition of the measured work.
var payload = measured.Payload

func j8Work() engine.Work { return measured.Work(nil) }

// running starts an engine with so many slots and gives what stops it.
func running(b testing.TB, store job.Store, slots int, works ...engine.Work) (*engine.Engine, func()) {
	e, err := engine.New(store, works, engine.Options{Slots: slots})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// drive lets c callers do n calls in all.
func drive(c, n int, call func(i int)) time.Duration {
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range c {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				call(int(i))
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func engineJobs(b testing.TB, c, n int) time.Duration {
	store, err := sqlite.Open(b.TempDir(), storeOptions())
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	e, stop := running(b, store, 2*c+2, j8Work())
	defer stop()
	ctx := context.Background()
	return drive(c, n, func(int) {
		j, err := e.Complete(ctx, engine.Order{Kind: "bench.j8", Spec: payload})
		if err != nil || j.Outcome != lc.OK {
			b.Errorf("%s: %v", j.State, err)
		}
	})
}

// bareJobs writes the rows of n jobs without an engine: eight commits each.
func bareJobs(b testing.TB, c, n int, single bool) time.Duration {
	loop, err := bare.Open(b.TempDir(), bare.Options{Single: single})
	if err != nil {
		b.Fatal(err)
	}
	defer loop.Close()
	return drive(c, n, func(i int) {
		for version := range int64(8) {
			r := bare.Row{
				Job: int64(i), New: version == 0, ID: fmt.Sprintf("j8_%026d", i), Spec: payload.Text,
				State: version, Version: version + 1,
				At: version, Actor: 1,
			}
			if err := loop.Commit(r); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkJ8 measures the work of the engine against a bare group-commit loop that writes the same rows and against
// one transaction for each transition, in rounds that take turns. It reports medians in jobs a second, and the part of
// the bare loop that the engine reaches.
func BenchmarkJ8(b *testing.B) {
	for _, c := range callers {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			const rounds = 3
			n := max(b.N, 10)
			var engines, bares, singles []float64
			for range rounds {
				rate := func(took time.Duration, n int) float64 { return float64(n) / took.Seconds() }
				engines = append(engines, rate(engineJobs(b, c, n), n))
				bares = append(bares, rate(bareJobs(b, c, n, false), n))
				few := max(n/20, 10)
				singles = append(singles, rate(bareJobs(b, c, few, true), few))
			}
			b.ReportMetric(median(engines), "engine-jobs/s")
			b.ReportMetric(median(bares), "bare-jobs/s")
			b.ReportMetric(median(singles), "single-jobs/s")
			b.ReportMetric(100*median(engines)/median(bares), "%-of-bare")
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkBatch measures jobs that are handed in a hundred to a call.
func BenchmarkBatch(b *testing.B) {
	store, err := sqlite.Open(b.TempDir(), storeOptions())
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	e, stop := running(b, store, 128, j8Work())
	defer stop()
	ctx := context.Background()
	const size = 100
	calls := max(b.N/size, 1)
	b.ResetTimer()
	took := drive(8, calls, func(int) {
		orders := make([]engine.Order, size)
		for i := range orders {
			orders[i] = engine.Order{Kind: "bench.j8", Spec: payload}
		}
		jobs, err := e.SubmitAll(ctx, orders...)
		if err != nil {
			b.Error(err)
		}
		for _, j := range jobs {
			if _, err := e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(calls*size)/took.Seconds(), "jobs/s")
}

// BenchmarkEngine is the engine's part of J8 alone, at 128 callers, for profiles.
func BenchmarkEngine(b *testing.B) {
	b.ReportAllocs()
	took := engineJobs(b, 128, b.N)
	b.ReportMetric(float64(b.N)/took.Seconds(), "jobs/s")
}

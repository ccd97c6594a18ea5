package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

// callers are the numbers of concurrent callers that are measured.
var callers = []int{1, 16, 128, 1024}

// j8 is the life of the measured work: accepted, six durable transitions, completed.
var j8 = func() *lc.Table {
	var stages []lc.Stage
	for i := range 7 {
		next := lc.State(fmt.Sprint("Stage", i+1))
		if i == 6 {
			next = "Completed"
		}
		arrows := []lc.Arrow{
			lc.OnPass("next", next, lc.Worker, "the stage is done"),
			lc.OnFail("fail", "Failed", lc.Worker|lc.Timer, "the stage failed"),
		}
		if i == 0 {
			stages = append(stages, lc.OnQueue("Stage0", "accepted", arrows...))
		} else {
			stages = append(stages, lc.OnWork(lc.State(fmt.Sprint("Stage", i)), "under way", arrows...))
		}
	}
	return lc.Must("bench.j8", append(stages,
		lc.OnEnd("Completed", lc.OK, "done"), lc.OnEnd("Failed", lc.Failed, "failed"))...)
}()

// payload is 200 bytes, as in the definition of the measured work.
var payload = struct{ Text string }{string(make([]byte, 0)) + fmt.Sprintf("%0186d", 7)}

func j8Work() engine.Work {
	steps := map[lc.State]engine.Step{}
	for i := range 7 {
		steps[lc.State(fmt.Sprint("Stage", i))] = func(context.Context, *engine.Run) error { return nil }
	}
	return engine.Work{Life: j8, Prefix: "j8", Steps: steps}
}

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
	store, err := sqlite.Open(b.TempDir(), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	e, stop := running(b, store, max(c, 2), j8Work())
	defer stop()
	ctx := context.Background()
	return drive(c, n, func(int) {
		j, err := e.Complete(ctx, engine.Order{Kind: "bench.j8", Priority: 50, Spec: payload})
		if err != nil || j.Outcome != lc.OK {
			b.Errorf("%s: %v", j.State, err)
		}
	})
}

func BenchmarkJ8(b *testing.B) {
	for _, c := range callers {
		b.Run(fmt.Sprintf("engine/c=%d", c), func(b *testing.B) {
			took := engineJobs(b, c, b.N)
			b.ReportMetric(float64(b.N)/took.Seconds(), "jobs/s")
		})
	}
}

package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/meter"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/store/sqlite"
)

// meteredJobs is engineJobs with metrics, or without, and gives jobs a second of time and of the processors' time.
func meteredJobs(b testing.TB, c, n int, metered bool) (rate, cpu float64) {
	var so sqlite.Options
	var eo engine.Options
	if metered {
		m := metrics.New(metrics.Options{})
		so.OnCommit, eo.Meter = m.Committed, m
	}
	store, err := sqlite.Open(b.TempDir(), so)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	eo.Slots = 2*c + 2
	e, err := engine.New(store, []engine.Work{j8Work()}, eo)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	before := processors(b)
	took := drive(c, n, func(int) {
		j, err := e.Complete(ctx, engine.Order{Kind: "bench.j8", Spec: payload})
		if err != nil || j.Outcome != lc.OK {
			b.Errorf("%s: %v", j.State, err)
		}
	})
	spent := processors(b) - before
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
	return float64(n) / took.Seconds(), float64(n) / spent.Seconds()
}

// processors is the time that this process has spent on all processors. Others on the machine change it less than they
// change the clock on the wall.
func processors(b testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMeter measures the work of the engine with metrics and without, in rounds that take turns, and reports the
// medians in jobs a second and what the metrics cost in percent, by the clock and by the processors' time.
func BenchmarkMeter(b *testing.B) {
	for _, c := range []int{1, 128} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			const rounds = 21
			n := max(b.N, 10)
			var with, without, withCPU, withoutCPU []float64
			for i := range rounds {
				for turn := range 2 { // who goes first changes, for what comes second may find a warmer machine
					if metered := (i+turn)%2 == 0; metered {
						rate, cpu := meteredJobs(b, c, n, true)
						with, withCPU = append(with, rate), append(withCPU, cpu)
					} else {
						rate, cpu := meteredJobs(b, c, n, false)
						without, withoutCPU = append(without, rate), append(withoutCPU, cpu)
					}
				}
			}
			b.ReportMetric(cost(with, without), "%-cost")
			b.ReportMetric(cost(withCPU, withoutCPU), "%-cpu")
			b.ReportMetric(median(with), "metered-jobs/s") // sorts: last
			b.ReportMetric(median(without), "plain-jobs/s")
		})
	}
}

// cost is by how many percent the metered rates are below the others, as the median of the rounds: both rates of a
// round were measured one after the other, on a machine that was as busy.
func cost(with, without []float64) float64 {
	var ratios []float64
	for i := range with {
		ratios = append(ratios, 100*(1-with[i]/without[i]))
	}
	return median(ratios)
}

// BenchmarkAttempted is what one stage costs in the metrics: its end and the claim of the next.
func BenchmarkAttempted(b *testing.B) {
	m := metrics.New(metrics.Options{})
	b.ReportAllocs()
	for range b.N {
		m.Attempted(meter.Attempt{Kind: "ingest.job", State: "Storing", Ending: meter.Passed, Took: 1e6})
		m.Claimed(meter.Claimed{Kind: "ingest.job", State: "Recording", Chain: true})
	}
}

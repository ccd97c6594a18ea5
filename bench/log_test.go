package bench

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/engine"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

var storeLog = flag.Bool("store.log", true, "J8, Batch, Start, HTTP, HTTPStart, Backlog, Growth and Ingest have a log in "+
	"front of the database")

var profiled = flag.Int("callers", 128, "concurrent callers of EngineLog")

func storeOptions() sqlite.Options { return sqlite.Options{NoLog: !*storeLog} }

// loggedJobs is engineJobs with a log in front of the database, or without. It gives jobs a second of time and of the
// processors' time, with what the applier writes after the last answer.
func loggedJobs(b testing.TB, c, n int, logged bool) (rate, cpu float64) {
	before := processors(b)
	store, err := sqlite.Open(b.TempDir(), sqlite.Options{NoLog: !logged})
	if err != nil {
		b.Fatal(err)
	}
	e, stop := running(b, store, 2*c+2, j8Work())
	ctx := context.Background()
	took := drive(c, n, func(int) {
		j, err := e.Complete(ctx, engine.Order{Kind: "bench.j8", Spec: payload})
		if err != nil || j.Outcome != lc.OK {
			b.Errorf("%s: %v", j.State, err)
		}
	})
	stop()
	if err := store.Close(); err != nil {
		b.Error(err)
	}
	return float64(n) / took.Seconds(), float64(n) / (processors(b) - before).Seconds()
}

// BenchmarkLog measures the work of the engine with a log in front of the database and without, in rounds that take
// turns, and reports the medians in jobs a second and how many times as many the log allows, by the clock and by the
// processors' time.
func BenchmarkLog(b *testing.B) {
	for _, c := range callers {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			const rounds = 5
			n := max(b.N, 10)
			var with, without, withCPU, withoutCPU []float64
			for i := range rounds {
				for turn := range 2 {
					rate, cpu := loggedJobs(b, c, n, (i+turn)%2 == 0)
					if (i+turn)%2 == 0 {
						with, withCPU = append(with, rate), append(withCPU, cpu)
					} else {
						without, withoutCPU = append(without, rate), append(withoutCPU, cpu)
					}
				}
			}
			b.ReportMetric(median(with), "log-jobs/s")
			b.ReportMetric(median(without), "strict-jobs/s")
			b.ReportMetric(median(with)/median(without), "log/strict")
			b.ReportMetric(1e6/median(withCPU), "log-cpu-us/job")
			b.ReportMetric(1e6/median(withoutCPU), "strict-cpu-us/job")
		})
	}
}

// BenchmarkEngineLog is the engine's part of J8 alone, at -callers callers, with a log in front of the database and
// without, for profiles.
func BenchmarkEngineLog(b *testing.B) {
	for _, logged := range []bool{true, false} {
		b.Run(fmt.Sprintf("log=%t", logged), func(b *testing.B) {
			b.ReportAllocs()
			rate, cpu := loggedJobs(b, *profiled, b.N, logged)
			b.ReportMetric(rate, "jobs/s")
			b.ReportMetric(1e6/cpu, "cpu-us/job")
		})
	}
}

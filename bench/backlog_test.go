package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

// backlogs are the numbers of queued jobs that are compared.
var backlogs = []int{1_000, 1_000_000}

// queued makes a store with n queued jobs of the measured work.
func queued(b *testing.B, n int) (dir string) {
	dir = b.TempDir()
	store, err := sqlite.Open(dir, storeOptions())
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	e, err := engine.New(store, []engine.Work{j8Work()}, engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	enqueued(b, e, n, 10)
	return dir
}

func reopen(b *testing.B, dir string) *sqlite.Store {
	store, err := sqlite.Open(dir, storeOptions())
	if err != nil {
		b.Fatal(err)
	}
	return store
}

// BenchmarkBacklog measures, with so many jobs queued: the restart, the rate at which an engine works them off, single
// claims, pages, and explanations of a job that waits for a limit and for others.
func BenchmarkBacklog(b *testing.B) {
	for _, n := range backlogs {
		b.Run(fmt.Sprintf("queued=%d", n), func(b *testing.B) {
			dir := queued(b, n)
			b.ResetTimer()
			start := time.Now()
			store := reopen(b, dir)
			b.ReportMetric(time.Since(start).Seconds(), "restart-s")
			claims(b, store)
			pages(b, store)
			explains(b, store)
			b.ReportMetric(worked(b, store, min(n-500, 20_000)), "jobs/s")
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// claims takes 300 jobs one by one and gives them back.
func claims(b *testing.B, store job.Store) {
	ctx := context.Background()
	var took []time.Duration
	for i := range 300 {
		now := time.Now()
		jobs, err := store.Claim(ctx, job.Claim{
			Worker: "bench", From: []job.KindState{{Kind: "bench.j8", State: "Stage0"}}, N: 1,
			Now: now, Lease: time.Minute,
		})
		took = append(took, time.Since(now))
		if err != nil || len(jobs) != 1 {
			b.Fatal(i, len(jobs), err)
		}
		if _, err := store.Commit(ctx, job.Change{Job: jobs[0].ID, Epoch: jobs[0].Epoch, At: now}); err != nil {
			b.Fatal(err)
		}
	}
	report(b, took, "claim")
}

func pages(b *testing.B, store job.Store) {
	ctx := context.Background()
	var took, counts []time.Duration
	for range 100 {
		now := time.Now()
		page, err := store.List(ctx, job.Query{Kinds: []job.Kind{"bench.j8"}, States: []lc.State{"Stage0"},
			Owner: "owner3"})
		took = append(took, time.Since(now))
		if err != nil || len(page.Jobs) != 50 {
			b.Fatal(len(page.Jobs), err)
		}
		now = time.Now()
		if _, err := store.Count(ctx); err != nil {
			b.Fatal(err)
		}
		counts = append(counts, time.Since(now))
	}
	report(b, took, "page")
	report(b, counts, "count")
}

// explains asks why jobs wait while a limit of their owners is full, and once for the stuck jobs.
func explains(b *testing.B, store job.Store) {
	ctx := context.Background()
	w := j8Work()
	w.Limits = []job.Limit{{Name: "mine", Kind: "bench.j8", PerOwner: true, Max: 1},
		{Name: "all", Kind: "bench.j8", Max: 10}}
	e, err := engine.New(store, []engine.Work{w}, engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	claimed, err := store.Claim(ctx, job.Claim{
		Worker: "other", From: []job.KindState{{Kind: "bench.j8", State: "Stage0"}}, N: 10, Now: now, Lease: time.Hour,
	})
	if err != nil || len(claimed) != 10 {
		b.Fatal(len(claimed), err)
	}
	page, err := store.List(ctx, job.Query{Kinds: []job.Kind{"bench.j8"}, States: []lc.State{"Stage0"}, Limit: 100})
	if err != nil {
		b.Fatal(err)
	}
	why := explain.New(e)
	var took []time.Duration
	for i := range page.Jobs {
		began := time.Now()
		x, err := why.Why(ctx, page.Jobs[i].ID, time.Time{})
		took = append(took, time.Since(began))
		limits := 0
		for _, blocker := range x.Blockers {
			if blocker.Code == explain.BlockLimit {
				limits++
			}
		}
		if err != nil || limits != 2 {
			b.Fatal(x.Blockers, err)
		}
	}
	report(b, took, "why")
	began := time.Now()
	if _, err := why.Stuck(ctx, explain.StuckQuery{Limit: 100}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds()), "stuck-us")
	for i := range claimed {
		change := job.Change{Job: claimed[i].ID, Epoch: claimed[i].Epoch, At: now}
		if _, err := store.Commit(ctx, change); err != nil {
			b.Fatal(err)
		}
	}
}

// report gives median and 99th percentile in microseconds.
func report(b *testing.B, took []time.Duration, what string) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), what+"-p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), what+"-p99-us")
}

// worked lets an engine with 128 slots work off n jobs and gives jobs per second.
func worked(b *testing.B, store job.Store, n int) float64 {
	w, done := countedWork(n)
	start := time.Now()
	_, stop := running(b, store, 128, w)
	<-done
	took := time.Since(start)
	stop()
	return float64(n) / took.Seconds()
}

// countedWork is the work of jobs, and a channel that is closed when n of them are in their last step.
func countedWork(n int) (w engine.Work, done <-chan struct{}) {
	var ended atomic.Int64
	all := make(chan struct{})
	w = j8Work()
	last := w.Steps["Stage6"]
	w.Steps["Stage6"] = func(ctx context.Context, r *engine.Run) error {
		if ended.Add(1) == int64(n) {
			close(all)
		}
		return last(ctx, r)
	}
	return w, all
}

// BenchmarkBytes measures what a job with its whole history takes on disk.
func BenchmarkBytes(b *testing.B) {
	dir := queued(b, 20_500)
	store := reopen(b, dir)
	before := size(b, store, dir)
	store = reopen(b, dir)
	worked(b, store, 20_000)
	after := size(b, store, dir)
	b.ReportMetric(float64(before)/20_500, "bytes/queued-job")
	b.ReportMetric(float64(after)/20_500, "bytes/ended-job")
}

// size closes the store, so that the log is in the database, and gives the database's size.
func size(b *testing.B, store *sqlite.Store, dir string) int64 {
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	var sum int64
	files, _ := filepath.Glob(filepath.Join(dir, "stagepost.db*"))
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			b.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// BenchmarkStart measures the time from the call of Submit to the first line of the step, on an idle engine.
func BenchmarkStart(b *testing.B) {
	store := reopen(b, b.TempDir())
	defer store.Close()
	started := make(chan time.Time, 1)
	w := j8Work()
	w.Steps["Stage0"] = func(context.Context, *engine.Run) error {
		started <- time.Now()
		return engine.Fail("enough", context.Canceled)
	}
	e, stop := running(b, store, 4, w)
	defer stop()
	var took []time.Duration
	for range 1000 {
		now := time.Now()
		if _, err := e.Complete(context.Background(), engine.Order{Kind: "bench.j8", Spec: payload}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-started).Sub(now))
	}
	report(b, took, "start")
}

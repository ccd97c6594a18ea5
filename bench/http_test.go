package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/store/sqlite"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/worker"
)

// served starts the API over an engine on a store, whose jobs are for workers outside.
func served(b *testing.B, store job.Store) (e *engine.Engine, url string) {
	return servedBy(b, store, server.Options{})
}

// servedBy does it with options of the server, and with pages.
func servedBy(b *testing.B, store job.Store, o server.Options) (e *engine.Engine, url string) {
	e, stop := running(b, store, 1, engine.Work{Life: j8, Prefix: "j8", Outside: true})
	o.Engine = e
	s := server.New(o)
	s.Add(web.Part(s))
	listener, err := listen.Open(b.Context(), "127.0.0.1:0", 0, false)
	if err != nil {
		b.Fatal(err)
	}
	h := listen.HTTP(s, slog.New(slog.DiscardHandler))
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(listener) })
	b.Cleanup(func() {
		_ = h.Close()
		serving.Wait()
		s.Close()
		stop()
		if c, ok := store.(io.Closer); ok {
			_ = c.Close()
		}
	})
	return e, "http://" + listener.Addr().String()
}

// opened opens an empty database for a benchmark.
func opened(b *testing.B, o sqlite.Options) job.Store {
	store, err := sqlite.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	return store
}

var places = func() (all []job.KindState) {
	for i := range 7 {
		all = append(all, job.KindState{Kind: "bench.j8", State: lc.State(fmt.Sprint("Stage", i))})
	}
	return all
}()

// BenchmarkHTTP measures durable transitions a second by workers over HTTP, one or a hundred to a request.
func BenchmarkHTTP(b *testing.B) {
	for _, batch := range []int{1, 100} {
		for _, workers := range []int{16, 64} {
			b.Run(fmt.Sprintf("batch=%d/workers=%d", batch, workers), func(b *testing.B) {
				e, url := served(b, opened(b, storeOptions()))
				enqueued(b, e, max(b.N, batch*workers), 0)
				b.ResetTimer()
				start := time.Now()
				moved := labourers(b, url, workers, batch)
				b.ReportMetric(float64(moved)/time.Since(start).Seconds(), "transitions/s")
			})
		}
	}
}

// BenchmarkWorkers measures durable transitions a second by programs with package worker, whose steps do nothing. Each
// has many slots; what its steps report at the same time is one request.
func BenchmarkWorkers(b *testing.B) {
	for _, slots := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			e, url := served(b, opened(b, storeOptions()))
			n := max(b.N, 10*slots)
			enqueued(b, e, n, 0)
			var moved atomic.Int64
			left := make(chan struct{})
			work := j8Work()
			all := int64(n * len(work.Steps))
			for state := range work.Steps {
				work.Steps[state] = func(context.Context, *engine.Run) error {
					if moved.Add(1) == all {
						close(left)
					}
					return nil
				}
			}
			c, err := client.New(url, client.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			w, err := worker.New(c, []engine.Work{work}, nil, worker.Options{Name: "w", Slots: slots})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ResetTimer()
			start := time.Now()
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			<-left
			cancel()
			if err := <-ended; err != nil { // the last reports are answered
				b.Fatal(err)
			}
			b.ReportMetric(float64(moved.Load())/time.Since(start).Seconds(), "transitions/s")
		})
	}
}

// labour works until nothing is left: claims, and reports success until the jobs have ended.
func labour(url, name string, batch int) (moved int64, err error) {
	c, err := client.New(url, client.Options{})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx := context.Background()
	for {
		jobs, err := c.Claim(ctx, client.Claim{Worker: name, From: places, N: batch})
		if err != nil || len(jobs) == 0 {
			return moved, err
		}
		reports := make([]client.Report, 0, batch)
		for _, j := range jobs {
			reports = append(reports, client.Report{Job: j.ID, Epoch: j.Epoch, Again: true})
		}
		for len(reports) > 0 {
			results, err := c.Report(ctx, client.Reports{Worker: name, Reports: reports})
			if err != nil {
				return moved, err
			}
			moved += int64(len(results))
			reports = reports[:0]
			for _, r := range results {
				if r.Held {
					reports = append(reports, client.Report{Job: r.Job, Epoch: r.Epoch, Again: true})
				}
			}
		}
	}
}

// labourers let a number of workers work until nothing is left, and return how many transitions they reported.
func labourers(b testing.TB, url string, workers, batch int) int64 {
	var moved atomic.Int64
	var crew sync.WaitGroup
	for i := range workers {
		crew.Go(func() {
			n, err := labour(url, fmt.Sprint("worker", i), batch)
			if moved.Add(n); err != nil {
				b.Error(err)
			}
		})
	}
	crew.Wait()
	return moved.Load()
}

// enqueued submits jobs for labourers, of so many owners in turn; 0: of none.
func enqueued(b testing.TB, e *engine.Engine, n, owners int) {
	for done := 0; done < n; done += 1000 {
		orders := make([]engine.Order, min(1000, n-done))
		for i := range orders {
			orders[i] = engine.Order{Kind: "bench.j8", Spec: payload}
			if owners > 0 {
				orders[i].Owner = fmt.Sprint("owner", i%owners)
			}
		}
		if _, err := e.SubmitAll(context.Background(), orders...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHTTPStart measures the time from a submission in the server to its arrival at a worker that waits by long
// poll.
func BenchmarkHTTPStart(b *testing.B) {
	e, url := served(b, opened(b, storeOptions()))
	c, err := client.New(url, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var took []time.Duration
	arrived := make(chan time.Time)
	ctx := context.Background()
	ready := make(chan struct{}, 1)
	go func() {
		for range 500 {
			ready <- struct{}{}
			jobs, err := c.Claim(ctx, client.Claim{Worker: "waiting", From: places, N: 1, Wait: 30})
			if err != nil || len(jobs) != 1 {
				b.Error(len(jobs), err)
			}
			arrived <- time.Now()
		}
	}()
	for range 500 {
		<-ready
		<-time.After(2 * time.Millisecond) // let the poll arrive; what is measured begins after it
		now := time.Now()
		if _, err := e.Submit(ctx, engine.Order{Kind: "bench.j8", Spec: payload}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-arrived).Sub(now))
	}
	slices.Sort(took)
	report(b, took, "start")
}

package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/store/sqlite"
)

// BenchmarkOperator measures a batch of ten thousand jobs through the whole lifecycle of ingest with steps that do
// nothing, while an operator asks over HTTP for the list of its jobs, for single jobs and for why they wait: jobs a
// second from the submission to the batch's end, and the 50th and 99th percentile of each question in milliseconds.
func BenchmarkOperator(b *testing.B) {
	const jobs = 10_000
	for range max(1, b.N/jobs) {
		e, url := noop(b, jobs)
		ctx, stop := context.WithCancel(context.Background())
		start := time.Now()
		batch, err := e.Submit(ctx, engine.Order{Kind: record.BatchKind, Group: "maps"})
		if err != nil {
			b.Fatal(err)
		}
		q := &questions{b: b, batch: batch.ID, took: map[string][]time.Duration{}}
		var asking sync.WaitGroup
		asking.Go(func() { q.ask(ctx, url) })
		end, err := e.Await(ctx, batch.ID, func(j *job.Job) bool { return j.Ended })
		took := time.Since(start)
		stop()
		asking.Wait()
		if err != nil || end.Outcome != lc.OK || end.Children.OK != jobs {
			b.Fatalf("%s with %+v, %v", end.State, end.Children, err)
		}
		b.ReportMetric(jobs/took.Seconds(), "jobs/s")
		for what, times := range q.took {
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, what+"-p50-ms")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, what+"-p99-ms")
		}
	}
}

// noop starts an engine with the lifecycles of ingest and steps that do nothing, and the API over it.
func noop(b *testing.B, jobs int) (*engine.Engine, string) {
	steps := func(t *lc.Table) map[lc.State]engine.Step {
		all := map[lc.State]engine.Step{}
		for _, s := range t.Stages() {
			if s.Kind == lc.Queue || s.Kind == lc.Work {
				all[s.State] = func(context.Context, *engine.Run) error { return nil }
			}
		}
		return all
	}
	batch := engine.Work{Life: record.BatchLife, Prefix: "bat", Steps: steps(record.BatchLife)}
	batch.Steps[record.Processing] = func(ctx context.Context, r *engine.Run) error {
		if r.Job().Children.Created() < jobs {
			err := r.Spawn(ctx, jobs, func(i int) (engine.Order, error) {
				return engine.Order{Kind: record.JobKind, Priority: new(97), Group: "maps",
					Tags: []string{ingest.QueueTag}, Bytes: 6, Spec: payload}, nil
			})
			if err != nil {
				return err
			}
		}
		return r.WaitChildren()
	}
	store, err := sqlite.Open(b.TempDir(), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, stop := running(b, store, 64, batch,
		engine.Work{Life: record.JobLife, Prefix: "ing", Steps: steps(record.JobLife)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := server.New(server.Options{Engine: e})
	h := &http.Server{Handler: s}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(listener) })
	b.Cleanup(func() {
		_ = h.Close()
		serving.Wait()
		s.Close()
		stop()
		_ = store.Close()
	})
	return e, "http://" + listener.Addr().String()
}

// questions are what an operator asks again and again, one after the other.
type questions struct {
	b     *testing.B
	batch job.ID
	took  map[string][]time.Duration
}

func (q *questions) ask(ctx context.Context, url string) {
	c, err := client.New(url, client.Options{})
	if err != nil {
		q.b.Error(err)
		return
	}
	defer c.Close()
	ids := []job.ID{q.batch}
	for i := 0; ctx.Err() == nil; i++ {
		id := ids[i%len(ids)]
		q.time(ctx, "list", func() error {
			page, err := c.Jobs(ctx, job.Query{Parent: q.batch, Limit: 50, Oldest: i%2 == 0})
			if err == nil && len(page.Jobs) > 0 {
				ids = ids[:1]
				for _, j := range page.Jobs {
					ids = append(ids, j.ID)
				}
			}
			return err
		})
		q.time(ctx, "show", func() error { _, err := c.Job(ctx, id); return err })
		q.time(ctx, "why", func() error { _, err := c.Why(ctx, id, time.Time{}); return err })
		open := false
		q.time(ctx, "open", func() error { _, err := c.Jobs(ctx, job.Query{Group: "maps", Ended: &open}); return err })
	}
}

func (q *questions) time(ctx context.Context, what string, ask func() error) {
	start := time.Now()
	switch err := ask(); {
	case ctx.Err() != nil:
	case err != nil:
		q.b.Error(fmt.Errorf("%s: %w", what, err))
	default:
		q.took[what] = append(q.took[what], time.Since(start))
	}
}

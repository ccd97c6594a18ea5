//go:build unix

package server_test

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// BenchmarkWorkers measures transitions per second through the worker API over loopback: claim, then a report for
// each of three states, going straight on. Server and workers share the machine.
func BenchmarkWorkers(b *testing.B) {
	stores := map[string]func(*testing.B) job.Store{
		"mem": func(*testing.B) job.Store { return mem.New() },
		"sqlite": func(b *testing.B) job.Store {
			s, err := sqlite.Open(b.TempDir(), sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
	for _, name := range []string{"mem", "sqlite"} {
		for _, c := range []struct{ batch, workers int }{{1, 32}, {1, 128}, {10, 32}, {100, 8}, {500, 8}} {
			b.Run(fmt.Sprintf("%s/batch=%d/workers=%d", name, c.batch, c.workers), func(b *testing.B) {
				benchWorkers(b, stores[name](b), c.batch, c.workers)
			})
		}
	}
}

func benchWorkers(b *testing.B, store job.Store, batch, workers int) {
	steps := map[lc.State]engine.Step{"Posted": servertest.Nothing, "Sorting": servertest.Nothing,
		"Riding": servertest.Nothing}
	e, err := engine.New(store, []engine.Work{{Life: servertest.Letter, Prefix: "let", Steps: steps}}, engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := server.New(server.Options{Engine: e})
	defer s.Close()
	web := httptest.NewUnstartedServer(s)
	web.Config = listen.HTTP(s, servertest.Discard)
	web.Start()
	defer web.Close()
	const perJob = 3
	jobs := b.N/perJob + 1
	for made := 0; made < jobs; made += 500 {
		orders := make([]engine.Order, min(500, jobs-made))
		for i := range orders {
			orders[i] = engine.Order{Kind: "test.letter", Spec: map[string]int{"n": made + i}}
		}
		if _, err := e.SubmitAll(b.Context(), orders...); err != nil {
			b.Fatal(err)
		}
	}
	var moved atomic.Int64
	var all sync.WaitGroup
	runtime.GC()
	b.ResetTimer()
	began := cpu(b)
	for n := range workers {
		all.Go(func() {
			c, err := client.New(web.URL, client.Options{})
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			carry(b, c, fmt.Sprintf("w%d", n), batch, &moved)
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(moved.Load())/b.Elapsed().Seconds(), "transitions/s")
	// server and workers together
	b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(moved.Load()), "cpu-µs/transition")
	b.ReportMetric(0, "ns/op")
}

// cpu is the processor time that this process has used: unlike the time that passes, it is the same on a busy machine.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// carry takes jobs through their lives until there are no more.
func carry(b *testing.B, c *client.Client, worker string, batch int, moved *atomic.Int64) {
	for {
		jobs, err := c.Claim(b.Context(), client.Claim{Worker: worker, From: posted, N: batch})
		if err != nil {
			b.Error(err)
			return
		}
		if len(jobs) == 0 {
			return
		}
		reports := make([]client.Report, len(jobs))
		for i, j := range jobs {
			reports[i] = client.Report{Job: j.ID, Epoch: j.Epoch, Again: true}
		}
		for len(reports) > 0 {
			results, err := c.Report(b.Context(), client.Reports{Worker: worker, Reports: reports})
			if err != nil {
				b.Error(err)
				return
			}
			moved.Add(int64(len(results)))
			reports = reports[:0]
			for _, r := range results {
				if r.Held {
					reports = append(reports, client.Report{Job: r.Job, Epoch: r.Epoch, Again: true})
				}
			}
		}
	}
}

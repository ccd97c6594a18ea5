package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// BenchmarkGrowth measures J8 with 1,000 and with 1,000,000 queued jobs, in rounds that take turns: as many jobs are
// submitted as are worked off, so that the queue keeps its length. It reports medians in jobs a second, and the median
// of the ratios of the rounds.
func BenchmarkGrowth(b *testing.B) {
	const rounds = 5
	n := max(b.N, 1000)
	var stores []job.Store
	for _, backlog := range backlogs {
		store := reopen(b, queued(b, backlog))
		defer store.Close()
		stores = append(stores, store)
	}
	rates := make([][]float64, len(stores))
	var ratios []float64
	for round := range rounds {
		for turn := range stores { // who goes first changes
			i := (round + turn) % len(stores)
			rates[i] = append(rates[i], steady(b, stores[i], n))
		}
		ratios = append(ratios, 100*rates[1][round]/rates[0][round])
	}
	for i, backlog := range backlogs {
		b.ReportMetric(median(rates[i]), fmt.Sprintf("jobs/s-at-%d", backlog))
	}
	b.ReportMetric(median(ratios), "%-of-rate")
	b.ReportMetric(0, "ns/op") // b.N is not what was measured
}

// steady lets an engine work off n jobs while n jobs are submitted, and gives jobs a second.
func steady(b *testing.B, store job.Store, n int) float64 {
	const chunk = 50
	w, done := countedWork(n)
	start := time.Now()
	e, stop := running(b, store, 128, w)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sent := 0; sent < n; sent += chunk {
			orders := make([]engine.Order, min(chunk, n-sent))
			for i := range orders {
				orders[i] = engine.Order{Kind: "bench.j8", Owner: fmt.Sprint("owner", i%10), Spec: payload}
			}
			if _, err := e.SubmitAll(context.Background(), orders...); err != nil {
				b.Error(err)
				return
			}
		}
	})
	<-done
	took := time.Since(start)
	wg.Wait()
	stop()
	return float64(n) / took.Seconds()
}

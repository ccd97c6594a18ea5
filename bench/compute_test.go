package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// What job-orchestrator 2.2.3 needs on a machine of two cores.
const (
	originalNoop    = 1370 // ms from upload to result, median
	originalTiny    = 7900 // ms for 200 jobs over 50 slots
	originalUploads = 313  // a second, one after the other
)

// tiers are the sandboxes that are measured.
var tiers = []string{"native", "none"}

// BenchmarkComputeNoop measures a job that does nothing, over the wire of job-orchestrator, from the first byte of the
// upload to the last of its results: the median and the 99th percentile, and the medians of its stages.
func BenchmarkComputeNoop(b *testing.B) {
	for _, tier := range tiers {
		b.Run("sandbox="+tier, func(b *testing.B) {
			c := newComputing(b, tier, 4)
			c.await(c.upload(1, noopScript), alone) // the first connection, the first of everything
			n := min(max(b.N, 20), 500)
			var took, uploads []float64
			stages := map[string][]float64{}
			b.ResetTimer()
			for range n {
				start := time.Now()
				id := c.upload(1, noopScript)
				uploads = append(uploads, ms(time.Since(start)))
				c.await(id, alone)
				took = append(took, ms(time.Since(start)))
				c.stages(id, stages)
			}
			b.StopTimer()
			b.ReportMetric(0, "ns/op")
			for name, times := range stages {
				b.ReportMetric(median(times), name+"-ms")
			}
			b.ReportMetric(median(uploads), "upload-ms")
			b.ReportMetric(median(c.runner.took), "sandbox-ms")
			b.ReportMetric(median(took), "p50-ms")
			b.ReportMetric(took[len(took)*99/100], "p99-ms")
			b.ReportMetric(originalNoop, "original-p50-ms")
		})
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// stages adds how long a job was in each of its states, and its payload at the agent.
func (c *computing) stages(number int, stages map[string][]float64) {
	ctx := c.b.Context()
	store := c.engine.Store()
	j, err := store.Numbered(ctx, compute.JobKind, int64(number))
	if err != nil {
		c.b.Fatal(err)
	}
	payloads, err := store.List(ctx, job.Query{Kinds: []job.Kind{compute.PayloadKind}, Limit: 1})
	if err != nil || len(payloads.Jobs) != 1 {
		c.b.Fatal(err)
	}
	for side, id := range map[string]job.ID{"job": j.ID, "payload": payloads.Jobs[0].ID} {
		events, err := store.History(ctx, id, 0, 100)
		if err != nil {
			c.b.Fatal(err)
		}
		slices.SortFunc(events, func(a, b job.Event) int { return int(a.Seq - b.Seq) })
		sums := map[lifecycle.State]time.Duration{}
		for i := 1; i < len(events); i++ {
			sums[events[i-1].To] += events[i].At.Sub(events[i-1].At)
		}
		for state, d := range sums {
			if name := string(state); name != "" && !strings.Contains("Completed Cleaned", name) {
				stages[side+"."+name] = append(stages[side+"."+name], ms(d))
			}
		}
	}
}

// BenchmarkComputeTiny measures 200 jobs that do nothing, uploaded by ten users at once, over 50 slots: the time from
// the first upload to the last result.
func BenchmarkComputeTiny(b *testing.B) {
	for _, tier := range tiers {
		b.Run("sandbox="+tier, func(b *testing.B) {
			const jobs, users, rounds = 200, 10, 3
			var took []float64
			for range rounds {
				c := newComputing(b, tier, 50)
				c.await(c.upload(1, noopScript), alone)
				spent := drive(users, jobs, func(i int) { _ = c.upload(i%users, noopScript) })
				b.ReportMetric(ms(spent), "uploads-ms")
				start := time.Now()
				drive(users, jobs, func(i int) { c.await(i+1, crowd) })
				took = append(took, ms(spent+time.Since(start)))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(took), "all-ms")
			b.ReportMetric(originalTiny, "original-ms")
		})
	}
}

// BenchmarkComputeUploads measures accepted uploads a second, each on the disk with its record: one client, and 16 at
// once. What is uploaded is not run meanwhile.
func BenchmarkComputeUploads(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			const rounds = 5
			var rates []float64
			n := min(max(b.N, 200), 2000)
			for range rounds {
				c := newComputing(b, "none", 1)
				for _, a := range c.app.Agents() {
					c.app.Leave(a.Name)
				}
				took := drive(clients, n, func(i int) { _ = c.upload(i%10, noopScript) })
				rates = append(rates, float64(n)/took.Seconds())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(rates), "uploads/s")
			if clients == 1 {
				b.ReportMetric(originalUploads, "original-uploads/s")
			}
		})
	}
}

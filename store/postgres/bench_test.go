package postgres

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

var benchJobs = flag.Int("jobs", 20_000, "jobs in the store for the benchmark of claims")

// chain is a lifecycle of eight states in a row; the store does not ask for more.
var chain = func() (states []lifecycle.Position) {
	for i := range 8 {
		states = append(states, lifecycle.Position{State: lifecycle.State(fmt.Sprintf("State%d", i))})
	}
	states[7].Outcome = lifecycle.OK
	return states
}()

var payload = json.RawMessage(`{"url":"` + strings.Repeat("x", 190) + `"}`)

func benchJob(n int64, at time.Time) job.Created {
	j, e := job.New(job.Job{
		ID: job.ID(fmt.Sprintf("ben_01J9Z%021d", n)), Kind: "bench.job", Position: chain[0], Priority: 50,
		Group: fmt.Sprintf("group%d", n%10), Owner: fmt.Sprintf("owner%d", n%100), Definition: "0123456789abcdef",
		Spec: payload,
	}, lifecycle.Owner, "alice", at)
	return job.Created{Job: j, Event: e}
}

// j8 is one job's life of eight commits.
func j8(b testing.TB, s *Store, n int64) {
	at := time.Now()
	jobs, err := s.Create(b.Context(), benchJob(n, at))
	if err != nil {
		b.Error(err)
		return
	}
	j := jobs[0]
	for i := 1; i < len(chain); i++ {
		results, err := s.Commit(b.Context(), job.Change{Job: j.ID, Version: j.Version, From: j.State, Event: "next",
			To: chain[i], Ended: i == 7, By: lifecycle.Worker, Actor: "worker-1", At: at})
		if err != nil || results[0].Err != nil {
			b.Error(err, results)
			return
		}
		j = results[0].Job
	}
}

// BenchmarkCommit gives commits a second by number of callers.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []int{1, 16, 128, 1024} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			s := openStore(b, newDatabase(b), Options{})
			var next atomic.Int64
			var all sync.WaitGroup
			b.ResetTimer()
			for range c {
				all.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						j8(b, s, n)
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)*8/b.Elapsed().Seconds(), "commits/s")
			closeStore(b, s)
		})
	}
}

// BenchmarkClaim claims one job of many and gives it back, by number of callers.
func BenchmarkClaim(b *testing.B) {
	s := openStore(b, newDatabase(b), Options{})
	at := time.Now()
	for from := 0; from < *benchJobs; from += 1000 {
		var list []job.Created
		for i := from; i < from+1000; i++ {
			owner := func(j *job.Job) { j.Owner = fmt.Sprint("o", i%1000) }
			list = append(list, newJob(storetest.Step, job.ID(fmt.Sprint("tst_", i)), owner))
		}
		_, err := s.Create(b.Context(), list...)
		check(b, err)
	}
	for _, c := range []int{1, 16} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			var next atomic.Int64
			var all sync.WaitGroup
			for range c {
				all.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						got, err := s.Claim(b.Context(), job.Claim{Worker: "w", N: 1, Now: at, Lease: time.Hour,
							From: []job.KindState{{Kind: job.Kind(storetest.Step.Name()), State: "Waiting"}}})
						if err != nil || len(got) != 1 {
							b.Errorf("%v, %v", got, err)
							return
						}
						_, err = s.Commit(b.Context(), job.Change{Job: got[0].ID, Epoch: got[0].Epoch, At: at})
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

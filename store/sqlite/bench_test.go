package sqlite

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

var benchJobs = flag.Int("jobs", 100_000, "jobs in the store for the benchmarks of restart, claim and list")

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

// benchStep is the next transition of a job along the chain.
func benchStep(j *job.Job, i int, at time.Time) job.Change {
	return job.Change{
		Job: j.ID, Version: j.Version, From: j.State, Event: "next", To: chain[i], Ended: i == 7, By: lifecycle.Worker,
		Actor: "worker-1", At: at,
	}
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
		results, err := s.Commit(b.Context(), benchStep(&j, i, at))
		if err != nil || results[0].Err != nil {
			b.Error(err, results)
			return
		}
		j = results[0].Job
	}
}

// BenchmarkCommit gives commits a second by number of callers, and what a job with its history takes on the disk.
func BenchmarkCommit(b *testing.B) { benchCommit(b, Options{NoLog: true}) }

// BenchmarkCommitWithLog is BenchmarkCommit with a log in front of the database.
func BenchmarkCommitWithLog(b *testing.B) { benchCommit(b, Options{}) }

func benchCommit(b *testing.B, o Options) {
	for _, c := range []int{1, 16, 128, 1024} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			dir := b.TempDir()
			s := openStore(b, dir, o)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range c {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						j8(b, s, n)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)*8/b.Elapsed().Seconds(), "commits/s")
			closeStore(b, s)
			b.ReportMetric(float64(size(b, dir))/float64(b.N), "B/job")
		})
	}
}

func size(b testing.TB, dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, database))
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// fill creates jobs in the first state.
func fill(b testing.TB, s *Store, n int) {
	at := time.Now()
	for from := 0; from < n; from += 1000 {
		var batch []job.Created
		for i := from; i < min(n, from+1000); i++ {
			batch = append(batch, benchJob(int64(i+1), at))
		}
		if _, err := s.Create(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen gives the time of a start with -jobs live jobs, and the memory of each afterwards.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := openStore(b, dir, Options{})
	fill(b, s, *benchJobs)
	closeStore(b, s)
	before, after := uint64(0), uint64(0)
	for b.Loop() {
		b.StopTimer()
		before = heap()
		b.StartTimer()
		s := openStore(b, dir, Options{})
		b.StopTimer()
		after = heap()
		closeStore(b, s)
		b.StartTimer()
	}
	b.ReportMetric(float64(after-before)/float64(*benchJobs), "memory-B/job")
}

// heap returns the bytes of memory in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkClaim gives the time of a claim of one job, given back at once, among 1,000 and -jobs queued ones.
func BenchmarkClaim(b *testing.B) {
	for _, n := range []int{1000, *benchJobs} {
		b.Run(fmt.Sprintf("queued=%d", n), func(b *testing.B) {
			s := openStore(b, b.TempDir(), Options{})
			fill(b, s, n)
			now := time.Now()
			c := job.Claim{
				Worker: "w", From: []job.KindState{{Kind: "bench.job", State: chain[0].State}}, N: 100, Now: now,
				Lease: time.Hour,
			}
			claimed := 0
			b.ResetTimer()
			for b.Loop() {
				jobs, err := s.Claim(b.Context(), c)
				if err != nil || len(jobs) == 0 {
					b.Fatal("claim:", err, len(jobs))
				}
				claimed += len(jobs)
				back := make([]job.Change, len(jobs))
				for i, j := range jobs {
					back[i] = job.Change{Job: j.ID, Epoch: j.Epoch, Event: lifecycle.Yield, To: j.Position,
						By: lifecycle.Worker, At: now}
				}
				if _, err := s.Commit(b.Context(), back...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(claimed)/b.Elapsed().Seconds(), "claims+yields/s")
		})
	}
}

// BenchmarkList gives the time of a page of 50 by filter among -jobs jobs.
func BenchmarkList(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	fill(b, s, *benchJobs)
	j := benchJob(1, time.Now()).Job
	if _, err := s.Commit(b.Context(), benchStep(&j, 7, time.Now())); err != nil {
		b.Fatal(err)
	}
	for name, q := range map[string]job.Query{
		"all":              {},
		"group":            {Group: "group3"},
		"owner":            {Owner: "owner33"},
		"rare state":       {States: []lifecycle.State{chain[7].State}},
		"owner and state":  {Owner: "owner33", States: []lifecycle.State{chain[0].State}},
		"group and no one": {Group: "group3", Owner: "owner34"},
		"nothing":          {Group: "group3", States: []lifecycle.State{chain[7].State}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.List(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFsck gives the time of a check of -jobs jobs, and the latency of commits by one caller before and during it.
func BenchmarkFsck(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	fill(b, s, *benchJobs)
	next := int64(*benchJobs)
	create := func() time.Duration {
		next++
		one, began := benchJob(next, time.Now()), time.Now()
		if _, err := s.Create(b.Context(), one); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	var idle, during []time.Duration
	for range 2000 {
		idle = append(idle, create())
	}
	b.ResetTimer()
	for range b.N {
		done := make(chan error)
		go func() {
			report, err := s.Fsck(b.Context(), func(job.Kind) *lifecycle.Table { return storetest.Step }, false)
			if err == nil && !report.Clean() {
				err = fmt.Errorf("%v", report.Faults[0])
			}
			done <- err
		}()
		for running := true; running; {
			during = append(during, create())
			select {
			case err := <-done:
				if running = false; err != nil {
					b.Fatal(err)
				}
			default:
			}
		}
	}
	for what, took := range map[string][]time.Duration{"idle": idle, "during": during} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), what+"-p50-us")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), what+"-p99-us")
		b.ReportMetric(float64(took[len(took)-1].Microseconds()), what+"-max-us")
	}
}

// BenchmarkNumber gives the time of a lookup of a job by its number among -jobs jobs of two kinds.
func BenchmarkNumber(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	at := time.Now()
	for from := 0; from < *benchJobs; from += 1000 {
		var batch []job.Created
		for i := from; i < min(*benchJobs, from+1000); i++ {
			one := benchJob(int64(i+1), at)
			if i%4 == 0 {
				one.Job.Kind = "bench.batch"
			}
			batch = append(batch, one)
		}
		if _, err := s.Create(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	numbers := int64(*benchJobs/4*3 - 10)
	n := int64(0)
	for b.Loop() {
		n = (n*7919+4241)%numbers + 1
		j, err := s.Numbered(b.Context(), "bench.job", n)
		if err != nil || j.Number != n {
			b.Fatal("number", n, j.Number, err)
		}
	}
}

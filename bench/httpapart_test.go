package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// crewVariable is set in the environment of a process of workers: a crew as JSON.
const crewVariable = "STAGEPOST_BENCH_CREW"

// crew is a number of workers at a server.
type crew struct {
	URL            string
	Workers, Batch int
}

// usage is what a process used while its transitions were made.
type usage struct {
	Moved     int64
	Processor time.Duration
	Mallocs   uint64
}

// spending returns what this process uses during a call.
func spending(b testing.TB, call func() (moved int64)) usage {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processors(b)
	moved := call()
	took := processors(b) - began
	runtime.ReadMemStats(&after)
	return usage{Moved: moved, Processor: took, Mallocs: after.Mallocs - before.Mallocs}
}

// TestCrew is the process of workers that BenchmarkHTTPApart starts. It prints what it used.
func TestCrew(t *testing.T) {
	var c crew
	text := os.Getenv(crewVariable)
	if text == "" {
		t.Skip("for BenchmarkHTTPApart")
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	s := spending(t, func() int64 { return labourers(t, c.URL, c.Workers, c.Batch) })
	if text, err := json.Marshal(s); err != nil {
		t.Error(err)
	} else {
		fmt.Printf("%s%s\n", crewVariable, text)
	}
}

// apart starts a process of workers and returns what it used.
func apart(b *testing.B, c crew) (s usage) {
	text, err := json.Marshal(c)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestCrew$")
	cmd.Env = append(os.Environ(), crewVariable+"="+string(text))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	_, result, _ := bytes.Cut(out, []byte(crewVariable))
	result, _, _ = bytes.Cut(result, []byte("\n"))
	if err := json.Unmarshal(result, &s); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return s
}

// BenchmarkHTTPApart measures what a transition over HTTP uses in the process of the server and in that of the
// workers, by the store: in memory, SQLite, and SQLite with a log in front of it.
func BenchmarkHTTPApart(b *testing.B) {
	stores := map[string]func(b *testing.B) job.Store{
		"mem":    func(*testing.B) job.Store { return mem.New() },
		"sqlite": func(b *testing.B) job.Store { return opened(b, sqlite.Options{NoLog: true}) },
		"log":    func(b *testing.B) job.Store { return opened(b, sqlite.Options{}) },
	}
	for _, name := range []string{"mem", "sqlite", "log"} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("store=%s/batch=%d", name, batch), func(b *testing.B) {
				const workers = 64
				e, url := served(b, stores[name](b))
				enqueued(b, e, max(b.N, batch*workers), 0)
				var theirs usage
				b.ResetTimer()
				start := time.Now()
				ours := spending(b, func() int64 {
					theirs = apart(b, crew{URL: url, Workers: workers, Batch: batch})
					return theirs.Moved
				})
				n := float64(theirs.Moved)
				b.ReportMetric(n/time.Since(start).Seconds(), "transitions/s")
				b.ReportMetric(float64(ours.Processor.Microseconds())/n, "server-cpu-us")
				b.ReportMetric(float64(ours.Mallocs)/n, "server-allocs")
				b.ReportMetric(float64(theirs.Processor.Microseconds())/n, "client-cpu-us")
				b.ReportMetric(float64(theirs.Mallocs)/n, "client-allocs")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

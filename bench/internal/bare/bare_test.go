package bare

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCommit(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single=%t", single), func(t *testing.T) {
			l, err := Open(t.TempDir(), Options{Single: single})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for n := range 20 {
				wg.Go(func() { j8(t, l, int64(n+1)) })
			}
			wg.Wait()
			if err := l.Commit(Row{Job: 1, New: true, ID: "again"}); err == nil {
				t.Error("a row number was used twice without an error")
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

var spec = strings.Repeat("x", 200)

// j8 is one job's life of eight commits.
func j8(t testing.TB, l *Loop, n int64) {
	row := Row{Job: n, New: true, ID: fmt.Sprintf("tst_%026d", n), Spec: spec, At: 2_000_000}
	for row.Version = 1; row.Version <= 8; row.Version++ {
		if err := l.Commit(row); err != nil {
			t.Error(err)
			return
		}
		row.New, row.State = false, row.Version
	}
}

// BenchmarkCommit gives commits a second by number of callers.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []int{1, 16, 128, 1024} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			l, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range c {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						j8(b, l, n)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)*8/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

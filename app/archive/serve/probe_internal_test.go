package archiveserve

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestProbeNow: queries of the health at the same time have one probe. One that does not end delays the queries of its
// first second only; the next probe begins after it. The control is a probe that ends at once.
func TestProbeNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &App{}
		a.probeNow(nil) // before Bind
		running, stop := context.WithCancel(t.Context())
		a.running = running
		var n atomic.Int64
		hang := make(chan struct{})
		quick := func(context.Context) error { n.Add(1); return nil }
		took := func(probe func(context.Context) error, want time.Duration, probes int64) {
			t.Helper()
			began := time.Now()
			a.probeNow(probe)
			if d := time.Since(began); d != want || n.Load() != probes {
				t.Errorf("a query took %s with %d probes, want %s with %d", d, n.Load(), want, probes)
			}
		}
		took(quick, 0, 1)
		took(quick, 0, 1)
		time.Sleep(betweenQueries)
		took(quick, 0, 2)
		time.Sleep(betweenQueries)
		a.asked("far")
		took(func(context.Context) error { n.Add(1); <-hang; return nil }, mostWait, 3)
		took(quick, 0, 3)
		time.Sleep(time.Hour)
		took(quick, 0, 3)
		a.asked("far")
		if since := time.Since(a.state.silent["far"]); since != time.Hour+mostWait {
			t.Errorf("it was asked %s ago", since)
		}
		a.answered("far", context.DeadlineExceeded)
		if len(a.state.silent) > 0 || !strings.Contains(a.state.unusable["far"], "deadline") {
			t.Errorf("got %v, %v", a.state.silent, a.state.unusable)
		}
		close(hang)
		synctest.Wait()
		took(quick, 0, 4)
		stop()
		time.Sleep(betweenQueries)
		took(quick, 0, 4)
		a.wait.Wait()
	})
}

package archiveserve

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// TestOnlyTheLeaderRuns: a task of the leader does not run at its times while another server leads, and its failure is
// not reported then; a signal is for its own server. Control: a task of each server runs.
func TestOnlyTheLeaderRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		e, err := engine.New(storetest.Several{Store: mem.New()}, nil, engine.Options{Leads: leads.Load})
		must(t, err)
		a := &App{engine: e, h: &module.Host{Log: slog.New(slog.DiscardHandler)},
			failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "failures"}, []string{"task"})}
		ctx, stop := context.WithCancel(t.Context())
		defer a.wait.Wait()
		defer stop()
		var led, each int
		signal := make(chan struct{})
		a.wait.Go(func() {
			a.loop(ctx, periodic{name: taskHolds, every: time.Hour, signal: signal, led: true,
				run: func(context.Context) error { led++; return errors.New("full") }})
		})
		a.wait.Go(func() {
			a.loop(ctx, periodic{name: taskProbe, every: time.Hour,
				run: func(context.Context) error { each++; return nil }})
		})
		expect := func(want int, failure string) {
			t.Helper()
			synctest.Wait()
			a.state.mu.Lock()
			defer a.state.mu.Unlock()
			if led != want || a.state.failed[taskHolds] != failure {
				t.Errorf("%d runs and the failure %q, want %d and %q", led, a.state.failed[taskHolds], want, failure)
			}
		}
		time.Sleep(10 * time.Hour)
		expect(0, "")
		if each != 11 {
			t.Errorf("control: %d runs of a task of each server", each)
		}
		signal <- struct{}{}
		expect(1, "full")
		leads.Store(true)
		time.Sleep(afterFailure)
		expect(2, "full")
		leads.Store(false)
		time.Sleep(10 * time.Hour)
		expect(2, "")
	})
}

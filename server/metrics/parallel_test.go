package metrics_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server/metrics"
)

// readers is how many read the metrics at once.
const readers = 20

// readAtOnce has that many read the metrics at the same time, and gives how many answers were complete. Gate is
// closed when all requests are there.
func readAtOnce(t *testing.T, h http.Handler, gate chan struct{}) (complete int) {
	t.Helper()
	var arrived atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == readers {
			close(gate)
		}
		h.ServeHTTP(w, r)
	}))
	defer web.Close()
	answers := make(chan string, readers)
	for range readers {
		go func() {
			answer, err := http.Get(web.URL)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusOK {
				answers <- answer.Status
				return
			}
			answers <- string(text)
		}()
	}
	for range readers {
		text := <-answers
		if strings.HasSuffix(text, "\n") && strings.Contains(text, "\nstagepost_things 2\n") &&
			strings.Contains(text, "\nstagepost_jobs{") &&
			strings.Contains(text, "\nstagepost_scrape_errors_total{source=\"things\"} 0\n") {
			complete++
		}
	}
	return complete
}

// TestTwentyReaders: while the engine works, 20 readers at once get everything, and the sources are asked once at a
// time. The control is a handler that answers three at once, as there was.
func TestTwentyReaders(t *testing.T) {
	w := newHarness(t)
	w.lives(t)
	ctx, cancel := context.WithCancel(t.Context())
	working := make(chan struct{})
	go func() {
		defer close(working)
		for ctx.Err() == nil {
			if _, err := w.engine.Submit(ctx, engine.Order{Kind: "test.letter"}); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	defer func() { cancel(); <-working }()

	var now, most, asked atomic.Int32
	var gate atomic.Pointer[chan struct{}]
	m, gauge := metrics.New(metrics.Options{}), metrics.NewGauge("things", "Things.")
	m.Bind(metrics.Sources{Engine: w.engine,
		More: []metrics.Source{{Name: "things", Gauges: []*prometheus.Desc{gauge},
			Collect: func(_ context.Context, put metrics.Putter) error {
				asked.Add(1)
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer now.Add(-1)
				<-*gate.Load()
				put(gauge, 2)
				return nil
			}}}})
	open := make(chan struct{})
	gate.Store(&open)
	if n := readAtOnce(t, m, open); n != readers || most.Load() != 1 {
		t.Errorf("%d of %d answers are complete, and %d readings were under way at once", n, readers, most.Load())
	}
	if asked.Load() > readers {
		t.Errorf("%d readings for %d readers", asked.Load(), readers)
	}

	open = make(chan struct{})
	gate.Store(&open)
	old := promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{MaxRequestsInFlight: 3})
	if n := readAtOnce(t, old, open); n >= readers {
		t.Error("the control: all answers are complete")
	}
}

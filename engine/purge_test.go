package engine_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestPurgeTakesTombstonesInTheirTime checks that the record is removed after Records, with its log, once the
// application has cleared what it stored.
func TestPurgeTakesTombstonesInTheirTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		records time.Duration
		jump    time.Duration
		refuse  bool
		want    int // records left
	}{
		{"kept long enough", 24 * time.Hour, 0, false, 0},
		{"control: unlimited", 0, 0, false, 10},
		{"the clock jumped", 24 * time.Hour, 48 * time.Hour, false, 10},
		{"not cleared", 24 * time.Hour, 0, true, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cleared []job.ID
				clock := &jumpy{Clock: clock.System()}
				logs := &logList{}
				o := engine.Options{Clock: clock, Sweep: time.Minute, JobLogs: logs, Retain: engine.Retention{
					Records: c.records, Logs: 100 * time.Hour,
					Clear: func(_ context.Context, j *job.Job) error {
						if c.refuse {
							return job.Errorf(job.Internal, "clear", j.ID, "the disk is gone")
						}
						cleared = append(cleared, j.ID)
						return nil
					},
				}}
				work := letters(nil)
				work.Keep = time.Hour
				w := start(t, mem.New(), o, work)
				defer w.stop()
				orders := make([]engine.Order, 10)
				for i := range orders {
					orders[i].Kind = "test.letter"
				}
				jobs, err := w.SubmitAll(t.Context(), orders...)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Hour)
				if got := w.burnt(); got != 10 {
					t.Fatalf("%d tombstones", got)
				}
				clock.jump(c.jump)
				time.Sleep(20 * time.Hour)
				if got := w.burnt(); got != c.want || len(cleared) != 10-c.want {
					t.Errorf("%d records are left, %d were cleared, want %d", got, len(cleared), c.want)
				}
				if _, err := w.store.Get(t.Context(), jobs[0].ID); (job.KindOf(err) == job.NotFound) != (c.want == 0) {
					t.Errorf("got %v", err)
				}
				if c.want == 0 && !slices.Contains(logs.gone(), jobs[0].ID) {
					t.Errorf("logs were removed of %v", logs.gone())
				}
			})
		})
	}
}

// TestOldLogsGo checks that the logs of ended and of missing jobs are removed, but not those of open jobs, whatever
// their age.
func TestOldLogsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logList{}
		work := letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
			if r.Job().Group == "indefinitely" {
				return blocked(ctx, r)
			}
			return nil
		}})
		w := start(t, mem.New(), engine.Options{Sweep: time.Minute, JobLogs: logs,
			Retain: engine.Retention{Logs: 24 * time.Hour}}, work)
		defer w.stop()
		ended, open := w.post(engine.Order{}), w.post(engine.Order{Group: "indefinitely"})
		at := time.Now()
		logs.put(map[job.ID]time.Time{ended.ID: at, open.ID: at, "let_nobody": at,
			"let_young": at.Add(1000 * time.Hour)})
		time.Sleep(20 * time.Hour)
		if gone := logs.gone(); len(gone) > 0 {
			t.Errorf("control: %v were removed too early", gone)
		}
		time.Sleep(20 * time.Hour)
		want := []job.ID{ended.ID, "let_nobody"}
		if slices.Sort(want); !slices.Equal(logs.gone(), want) {
			t.Errorf("got %v, want %v", logs.gone(), want)
		}
	})
}

// logList is a list of logs.
type logList struct {
	quiet
	mu      sync.Mutex // guards the rest
	written map[job.ID]time.Time
	removed []job.ID
}

func (l *logList) put(written map[job.ID]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = written
}

// gone returns the jobs whose logs were removed, sorted.
func (l *logList) gone() []job.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.removed))
}

func (l *logList) Remove(id job.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, id)
	l.removed = append(l.removed, id)
	return nil
}

func (l *logList) Each(do func(id job.ID, written time.Time) bool) error {
	l.mu.Lock()
	all := maps.Clone(l.written)
	l.mu.Unlock()
	for id, at := range all {
		if !do(id, at) {
			return nil
		}
	}
	return nil
}

// quiet are logs that discard everything.
type quiet struct{}

func (quiet) Logger(job.ID, int64, lc.State) *slog.Logger { return slog.New(slog.DiscardHandler) }

package trigger

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// submitFunc is a [Submitter].
type submitFunc func(archive.Request, archive.Ordered) (job.Job, error)

func (f submitFunc) Submit(_ context.Context, r archive.Request, o archive.Ordered) (job.Job, error) {
	return f(r, o)
}

// times gives the times of runs, with a mark at those that caught up.
func (h *harness) times(name string) (all []string) {
	for _, j := range h.runs(name) {
		o := decoded[Order](h.t, j.Spec)
		text := o.At.Format("02 15:04")
		if !o.Since.IsZero() {
			text += " since " + o.Since.Format("02 15:04")
		}
		all = append(all, text)
	}
	return all
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("runs at %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("runs at %q, want %q", got, want)
		}
	}
}

// hourly is a schedule with a run in the middle of each hour.
func hourly() Schedule { return Schedule{Source: "campus", Cron: "30 * * * *", TimeZone: "UTC"} }

// TestSchedulerCatchesUpOnce: a schedule that is new has no run of the past. After a stop over several times, one run
// catches up.
func TestSchedulerCatchesUpOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		time.Sleep(45 * time.Minute) // after the time of the first hour
		h.setSchedule("hourly", hourly())
		stop := h.schedule(h.App)
		time.Sleep(time.Hour)
		stop()
		same(t, h.times("hourly"), "01 01:30")
		time.Sleep(3 * time.Hour)
		stop = h.schedule(h.App)
		time.Sleep(time.Minute)
		same(t, h.times("hourly"), "01 01:30", "01 04:30 since 01 01:30")
		time.Sleep(time.Hour)
		stop()
		same(t, h.times("hourly"), "01 01:30", "01 04:30 since 01 01:30", "01 05:30")
	})
}

// TestSchedulerBehindDryRuns: many manual dry runs since the last run do not keep the next one from catching up.
func TestSchedulerBehindDryRuns(t *testing.T) {
	bubble(t, func(h *harness) {
		h.setSchedule("hourly", hourly())
		stop := h.schedule(h.App)
		time.Sleep(time.Hour)
		stop()
		for range pastPage + 1 {
			h.byHand("hourly", true)
		}
		time.Sleep(3 * time.Hour)
		stop = h.schedule(h.App)
		time.Sleep(time.Minute)
		stop()
		if all := h.times("hourly"); all[len(all)-1] != "01 03:30 since 01 00:30" {
			t.Errorf("the last run is at %s", all[len(all)-1])
		}
	})
}

// TestSchedulerChangedTimes: a time that a changed schedule would have had before the change is not caught up, nor is
// one in a pause.
func TestSchedulerChangedTimes(t *testing.T) {
	bubble(t, func(h *harness) {
		s := hourly()
		h.setSchedule("hourly", s)
		defer h.schedule(h.App)()
		time.Sleep(45 * time.Minute)
		s.Cron = "40 * * * *"
		h.setSchedule("hourly", s)
		time.Sleep(time.Hour)
		same(t, h.times("hourly"), "01 00:30", "01 01:40")
		s.Paused = true
		h.setSchedule("hourly", s)
		time.Sleep(2 * time.Hour)
		s.Paused = false
		h.setSchedule("hourly", s)
		time.Sleep(time.Hour)
		same(t, h.times("hourly"), "01 00:30", "01 01:40", "01 04:40")
	})
}

// TestSchedulerOneRunAtATime: while a run is unfinished, the next does not begin. Afterwards one run catches up.
func TestSchedulerOneRunAtATime(t *testing.T) {
	bubble(t, func(h *harness) {
		s := nightly()
		s.Cron = "* * * * *"
		h.setSchedule("minutely", s)
		h.fake.down["5"] = &source.Error{Op: "read", Transient: true, Err: context.DeadlineExceeded}
		defer h.schedule(h.App)()
		time.Sleep(3*time.Minute + time.Second) // the first run retries
		if runs := h.runs("minutely"); len(runs) != 1 || runs[0].Ended {
			t.Fatalf("%d runs", len(runs))
		}
		h.fake.mu.Lock()
		clear(h.fake.down)
		h.fake.mu.Unlock()
		h.end(h.runs("minutely")[0].ID)
		time.Sleep(time.Second)
		if runs := h.runs("minutely"); len(runs) != 2 || decoded[Order](t, runs[1].Spec).Since.IsZero() {
			t.Fatalf("%d runs after it", len(runs))
		}
	})
}

// TestTwoServers: two servers on one store start each run once, and each job once.
func TestTwoServers(t *testing.T) {
	bubble(t, func(h *harness) {
		h.setSchedule("hourly", hourly())
		other, jobs := h.open(t.TempDir(), h.options.Catalog)
		h.stops = append(h.stops, h.serve(other, jobs))
		defer h.schedule(h.App)()
		defer h.schedule(other)()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		same(t, h.times("hourly"), "01 00:30", "01 01:30", "01 02:30")
		if n := len(h.archives()); n != 2 {
			t.Errorf("%d archive jobs", n)
		}
		if n := len(h.list(job.Query{Kinds: []job.Kind{Kind}})); n != 4 {
			t.Errorf("%d records of runs", n)
		}
	})
}

// TestSubmitTwice: two servers that decide the same at once create one run.
func TestSubmitTwice(t *testing.T) {
	bubble(t, func(h *harness) {
		o := Order{Name: "nightly", Schedule: nightly(), At: h.now()}
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if err := h.submit(t.Context(), o, stamp(o.At)+"/after/"); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := len(h.runs("nightly")); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
}

// queriedStore counts the queries for runs of schedules.
type queriedStore struct {
	job.Store
	queries *atomic.Int32
}

func (s queriedStore) List(ctx context.Context, q job.Query) (job.Page, error) {
	if q.Tag == tagOf("hourly") {
		s.queries.Add(1)
	}
	return s.Store.List(ctx, q)
}

// TestOnlyTheLeaderSchedules has two servers on one store. The one that does not lead makes no query for a schedule. It
// takes over within a minute when it leads.
func TestOnlyTheLeaderSchedules(t *testing.T) {
	bubble(t, func(h *harness) {
		h.setSchedule("hourly", hourly())
		var second atomic.Bool
		var queries [2]atomic.Int32
		for i, leads := range []func() bool{func() bool { return !second.Load() }, second.Load} {
			a, jobs := h.open(h.t.TempDir(), h.options.Catalog)
			store := queriedStore{storetest.Several{Store: h.store}, &queries[i]}
			defer h.serveOn(store, engine.Options{Name: string(rune('a' + i)), Leads: leads}, a, jobs)()
			defer h.schedule(a)()
		}
		time.Sleep(45 * time.Minute)
		same(t, h.times("hourly"), "01 00:30")
		if a, b := queries[0].Load(), queries[1].Load(); a == 0 || b > 0 {
			t.Errorf("%d queries of the leader, %d of the other server", a, b)
		}
		second.Store(true)
		before := queries[0].Load()
		time.Sleep(time.Hour)
		same(t, h.times("hourly"), "01 00:30", "01 01:30")
		if queries[0].Load() != before || queries[1].Load() == 0 {
			t.Error("the other server does not schedule after the change")
		}
	})
}

// earlyStore ends pages after two jobs, as a store ends those of large jobs.
type earlyStore struct{ job.Store }

func (s earlyStore) List(ctx context.Context, q job.Query) (job.Page, error) {
	q.Limit = min(q.PageSize(), 2)
	return s.Store.List(ctx, q)
}

// TestPastOfLargeRuns: the run from which the times count is found behind runs that are so large that a page of them
// ends early. The control is a store whose pages do not.
func TestPastOfLargeRuns(t *testing.T) {
	bubble(t, func(h *harness) {
		h.setSchedule("hourly", hourly())
		stop := h.schedule(h.App)
		time.Sleep(time.Hour)
		stop()
		for range 5 {
			h.byHand("hourly", true)
		}
		want, err := h.past(h.t.Context(), "hourly")
		if err != nil || want.last == nil {
			t.Fatalf("the control: %+v, %v", want, err)
		}
		a, jobs := h.open(h.t.TempDir(), h.options.Catalog)
		defer h.serveOn(earlyStore{storetest.Several{Store: h.store}}, engine.Options{Name: "b",
			Leads: func() bool { return false }}, a, jobs)()
		got, err := a.past(h.t.Context(), "hourly")
		if err != nil || got.last == nil || !got.last.At.Equal(want.last.At) || got.newest != want.newest {
			t.Errorf("got %+v, want %+v; %v", got, want, err)
		}
	})
}

package archive

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

const walk = "create enqueue begin next next next next next next finish"

func TestWalk(t *testing.T) {
	bubble(t, newFake(3, 4), nil, func(h *harness) {
		j := h.end(h.submit(Request{}).ID)
		if got := h.events(j.ID); got != walk || j.State != Completed {
			t.Errorf("got %s: %s", j.State, got)
		}
		tasks, err := h.store.Tasks(h.t.Context(), j.ID)
		if err != nil || len(tasks) != 12 { // course, 3 activities, 4 files in 2 locations
			t.Fatalf("got %d tasks, %v", len(tasks), err)
		}
		for _, one := range tasks {
			if one.State != Finished || one.Attempts != 1 {
				t.Errorf("got %+v", one)
			}
		}
	})
}

// away is a source that does not answer until a time.
type away struct {
	*fake
	until time.Time
}

func (s away) Check(ctx context.Context) (source.Facts, error) {
	if time.Now().Before(s.until) {
		return source.Facts{}, errBusy
	}
	return s.fake.Check(ctx)
}

// TestSourceStartsAgain: a source that is away for five minutes when a job begins fails no job; one that stays
// away does.
func TestSourceStartsAgain(t *testing.T) {
	for _, c := range []struct {
		away time.Duration
		want lifecycle.State
	}{{5 * time.Minute, Completed}, {time.Hour, Failure}} {
		src := newFake(1, 1)
		bubble(t, src, nil, func(h *harness) {
			src.self = away{src, time.Now().Add(c.away)}
			if j := h.end(h.submit(Request{}).ID); j.State != c.want {
				t.Errorf("away for %v: got %s: %s", c.away, j.State, j.Message)
			}
		})
	}
}

var errBusy = &source.Error{Op: "fetch", Err: errors.New("the server is busy"), Transient: true}

// TestRecoverable: a phase that fails k times goes through RecoverableError with its attempts counted and its pause
// kept; over the limit, and with an error that another attempt would not help, the job ends in Failure.
func TestRecoverable(t *testing.T) {
	const once = " error recover retry"
	for _, c := range []struct {
		name  string
		fails int
		err   error
		want  string
		after time.Duration
	}{
		{"control: never", 0, errBusy, walk, 0},
		{"twice", 2, errBusy, "create enqueue begin next" + once + once + " next next next next next finish",
			90 * time.Second},
		{"always", 99, errBusy, "create enqueue begin next" + once + once + once + once + " error fail next fail",
			450 * time.Second},
		{"permanent", 99, &source.Error{Op: "fetch", Err: errors.New("no right")},
			"create enqueue begin next error fail next fail", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := newFake(2, 3)
			left := c.fails
			src.onFetch = func(a, item string) {
				if a != "2" || item != "item-1" {
					return
				}
				src.mu.Lock()
				defer src.mu.Unlock()
				if left--; left < 0 {
					delete(src.failures, "2/item-1")
				}
			}
			if left > 0 {
				src.failures["2/item-1"] = c.err
			}
			bubble(t, src, nil, func(h *harness) {
				began := time.Now()
				j := h.end(h.submit(Request{}).ID)
				took := time.Since(began)
				if got := h.events(j.ID); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if took < c.after || took > c.after+c.after/4+10*time.Second {
					t.Errorf("it took %s, want %s and at most a fifth more", took, c.after)
				}
				var d data
				if err := decode(j.Data, &d); err != nil {
					t.Fatal(err)
				}
				if want := min(c.fails, 5); c.err == errBusy && len(d.Errors) != want {
					t.Errorf("got %d errors: %+v", len(d.Errors), d.Errors)
				}
				for key, n := range src.fetched {
					if key != "2/item-1" && n != 1 && key != "2/item-2" {
						t.Errorf("%s was fetched %d times", key, n)
					}
				}
			})
		})
	}
}

// TestDeadlineIsTimeout (defect B1): a job whose deadline passes ends in Timeout and stays there. The time in the queue
// does not count, and 0 is refused (defect B2).
func TestDeadlineIsTimeout(t *testing.T) {
	src := newFake(1, 1)
	src.failures["1/item-0"] = errBusy
	bubble(t, src, nil, func(h *harness) {
		j := h.end(h.submit(Request{Settings: Settings{Deadline: "1m"}}).ID)
		if got := h.events(j.ID); got != "create enqueue begin next error recover retry error recover timeout next timeout" {
			t.Errorf("got %s", got)
		}
		time.Sleep(24 * time.Hour)
		after, err := h.store.Get(h.t.Context(), j.ID)
		if err != nil || after.State != Timeout || after.Outcome != "timed-out" {
			t.Errorf("got %s, %v", after.State, err)
		}
		zero := Request{Source: "campus", Course: "5", Settings: Settings{Deadline: "0s"}}
		_, err = h.Submit(h.t.Context(), zero, Ordered{})
		if job.KindOf(err) != job.Invalid {
			t.Errorf("a deadline of 0: got %v", err)
		}
	})
}

// TestPacks archives with each form of a bag. What is stored is what was gathered and made.
func TestPacks(t *testing.T) {
	for _, pack := range []string{settings.PackTarGz, settings.PackZip, settings.PackNone} {
		bubble(t, newFake(2, 3), nil, func(h *harness) {
			j := h.end(h.submit(Request{Settings: Settings{Pack: pack}}).ID)
			all, err := h.options.Catalog.Copies(h.t.Context(), string(j.ID), "")
			if j.State != Completed || err != nil || (len(all) > 20) != (pack == settings.PackNone) {
				t.Errorf("%s: %s with %d copies, %v", pack, j.State, len(all), err)
			}
		})
	}
}

// TestPanics: a panic of a task or of a step is tried again once, and the second in a row fails the job.
func TestPanics(t *testing.T) {
	const begun = "create enqueue begin next next next backoff"
	for _, c := range []struct {
		name        string
		task, steps int // panics
		want        string
		errors      int
	}{
		{"a task panics once", 1, 0, "create enqueue begin next error recover retry next next next next next finish", 1},
		{"a task panics twice", 2, 0, "create enqueue begin next error recover retry error fail next fail", 2},
		{"a step panics once", 0, 1, begun + " next next next finish", 0},
		{"a step panics twice", 0, 2, begun + " error fail next fail", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := newFake(1, 1)
			left, steps := c.task, c.steps
			src.onFetch = func(string, string) {
				if left > 0 {
					left--
					panic("a defect")
				}
			}
			describes := func(o *Options) {
				describe := o.Describe
				o.Describe = func(location string) packaging.Location {
					if steps--; steps >= 0 {
						panic("a defect")
					}
					return describe(location)
				}
			}
			bubble(t, src, describes, func(h *harness) {
				j := h.end(h.submit(Request{}).ID)
				var d data
				if err := decode(j.Data, &d); err != nil {
					t.Fatal(err)
				}
				if got := h.events(j.ID); got != c.want || len(d.Errors) != c.errors {
					t.Errorf("got %s\nwith %+v", got, d.Errors)
				}
			})
		})
	}
}

// TestProgress: the phases that take long report how far they are, and never more than all of it.
func TestProgress(t *testing.T) {
	src := newFake(2, 8)
	bubble(t, src, nil, func(h *harness) {
		var seen []job.Progress
		id := h.submit(Request{}).ID
		src.onFetch = func(string, string) {
			if p, ok := h.engine.Progress(id); ok {
				src.mu.Lock()
				seen = append(seen, p)
				src.mu.Unlock()
			}
		}
		h.end(id)
		most := int64(0)
		for _, p := range seen {
			if p.Done > p.Total || p.Unit != "parts" {
				t.Errorf("got %+v", p)
			}
			most = max(most, p.Done)
		}
		if most < 8 {
			t.Errorf("at most %d parts were reported: %+v", most, seen)
		}
	})
}

package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// window is a moment at which an engine crashes: at a call to its store, before or after the store executes it.
type window struct {
	call  int
	after bool
}

// fate is that of the calls on the line of an engine that crashes in the window.
func (w window) fate(line *tap) func(string, int) fate {
	return func(string, int) fate {
		switch {
		case line.total < w.call:
			return answered
		case line.total == w.call && w.after:
			return unheard
		}
		return refused
	}
}

// office is a harness for crashes: a batch of three letters, each of which sends a message, with the number of attempts
// at each state.
type office struct {
	store    job.Store
	box      postbox
	mu       sync.Mutex
	attempts map[string]int // by fence
}

func (o *office) options() engine.Options {
	options := o.box.options()
	options.Name, options.Lease, options.Grace = "clerk", 3*time.Second, time.Second
	return options
}

func (o *office) works() []engine.Work {
	step := func(ctx context.Context, r *engine.Run) error {
		o.mu.Lock()
		o.attempts[fmt.Sprint(r.Fence(), " ", r.Job().Attempts)]++
		o.mu.Unlock()
		if r.Job().State == "Riding" {
			if err := r.Send("mail", r.Key(), "on the road"); err != nil {
				return err
			}
		}
		return takes(1500*time.Millisecond)(ctx, r)
	}
	return []engine.Work{letters(map[lc.State]engine.Step{"Sorting": step, "Riding": step}), bagOf(3, "test.letter")}
}

var theBag = engine.Order{Kind: "test.bag", Key: "one"}

// begin lets an engine work until it crashes in the window, and reports whether it came to the end before.
func (o *office) begin(t *testing.T, at window) (whole bool) {
	m := startKillable(t, o.store, o.options(), o.works()...)
	m.line.decide(at.fate(m.line))
	j, err := m.Submit(t.Context(), theBag)
	for range 15 {
		if m.line.count("") > at.call {
			break
		}
		if err == nil {
			if j, err = o.store.Get(t.Context(), j.ID); err == nil && j.Ended {
				whole = true
				break
			}
		}
		time.Sleep(time.Second)
	}
	m.kill()
	return whole
}

// finish lets a new engine go on, and checks everything that must be true in the end.
func (o *office) finish(t *testing.T) {
	w := start(t, o.store, o.options(), o.works()...)
	defer w.stop()
	j := w.end(w.post(theBag).ID)
	time.Sleep(5 * time.Minute) // messages whose delivery was cut off are delivered again
	without := func(id job.ID) []lc.Event {
		var events []lc.Event
		for _, e := range w.events(id) {
			if e != lc.Lost && e != lc.Waiting && e != lc.Backoff && e != lc.Yield {
				events = append(events, e)
			}
		}
		return events
	}
	if diff := cmp.Diff([]lc.Event{"create", "begin", "report"}, without(j.ID)); diff != "" || j.Children.OK != 3 ||
		j.Children.Created() != 3 {
		t.Errorf("the bag has %+v, history (-want +got):\n%s", j.Children, diff)
	}
	w.verify(j.ID)
	page, err := o.store.List(t.Context(), job.Query{Kinds: []job.Kind{"test.letter"}})
	if err != nil || len(page.Jobs) != 3 {
		t.Errorf("%d letters, %v", len(page.Jobs), err)
	}
	for _, l := range page.Jobs {
		if diff := cmp.Diff([]lc.Event{"create", "begin", "next", "finish"}, without(l.ID)); diff != "" {
			t.Errorf("a letter's history (-want +got):\n%s", diff)
		}
		if m := w.messages(l.ID); len(m) != 1 || m[0].Settled != job.Delivered || m[0].Key != string(l.ID)+"/Riding" {
			t.Errorf("messages %+v", m)
		}
		w.verify(l.ID)
	}
	for attempt, n := range o.attempts {
		if n != 1 {
			t.Errorf("attempt %s was made %d times", attempt, n)
		}
	}
}

// TestCrashInEveryWindow kills an engine before and after every call to its store while it works on a batch, starts
// another one, and kills that one too in some of the windows. The result is always the same.
func TestCrashInEveryWindow(t *testing.T) {
	windows, inconsistent := 0, 0
	try := func(first window, second ...window) (whole bool) {
		ok := t.Run(fmt.Sprint(first, second), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &office{store: mem.New(), attempts: map[string]int{}}
				whole = o.begin(t, first)
				for _, w := range second {
					o.begin(t, w)
				}
				o.finish(t)
			})
		})
		if windows++; !ok {
			inconsistent++
		}
		return whole
	}
	for call := 1; call < 500; call++ {
		for _, after := range []bool{false, true} {
			if try(window{call, after}) && !after {
				call = 500 // the whole life had fewer calls
				break
			}
			try(window{call, after}, window{call/2 + 3, !after})
		}
	}
	if windows < 100 || inconsistent > 0 {
		t.Errorf("%d windows tried, %d inconsistent", windows, inconsistent)
	}
	t.Logf("%d windows tried, %d inconsistent", windows, inconsistent)
}

// TestCrashCheckCanFail is the control: with steps that create something in every attempt instead of once under the
// work's key, some window leaves too much.
func TestCrashCheckCanFail(t *testing.T) {
	for call := 1; call < 100; call++ {
		made := 0
		synctest.Test(t, func(t *testing.T) {
			o := &office{store: mem.New(), attempts: map[string]int{}}
			o.begin(t, window{call, true})
			w := start(t, o.store, o.options(), o.works()...)
			defer w.stop()
			w.end(w.post(theBag).ID)
			made = len(o.attempts)
		})
		if made > 6 {
			return
		}
	}
	t.Error("no window makes a step run twice: nothing was tested")
}

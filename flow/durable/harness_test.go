package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// both runs a test on a store in memory and on one on the disk.
func both(t *testing.T, test func(t *testing.T, store job.Store)) {
	t.Run("mem", func(t *testing.T) { test(t, mem.New()) })
	t.Run("sqlite", func(t *testing.T) {
		store, err := sqlite.Open(t.TempDir(), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // after the engines of the test have stopped
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, store)
	})
}

// harness is an engine with flows, and what its tasks did.
type harness struct {
	*engine.Engine
	flows *durable.Flows
	t     *testing.T
	store job.Store
	stop  func()
}

func start(t *testing.T, store job.Store, o durable.Options, eo engine.Options) *harness {
	t.Helper()
	flows, err := durable.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if eo.Sweep == 0 {
		eo.Sweep = 50 * time.Millisecond
	}
	e, err := engine.New(store, []engine.Work{flows.Work()}, eo)
	if err != nil {
		t.Fatal(err)
	}
	flows.Bind(e)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w := &harness{Engine: e, flows: flows, t: t, store: store}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// submit orders a flow.
func (w *harness) submit(o durable.Order) job.ID {
	w.t.Helper()
	j, err := w.flows.Submit(w.t.Context(), w.Engine, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return j.ID
}

// until waits for a moment in a flow's life.
func (w *harness) until(id job.ID, done func(*job.Job) bool) job.Job {
	w.t.Helper()
	return w.untilWithin(id, 10*time.Second, done)
}

func (w *harness) untilWithin(id job.ID, d time.Duration, done func(*job.Job) bool) job.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	j, err := w.Await(ctx, id, done)
	if err != nil {
		w.t.Fatalf("%v (it is %s, %s: %s)", err, j.State, j.Cause, j.Message)
	}
	return j
}

// end waits for the end of a flow and verifies its history.
func (w *harness) end(id job.ID) job.Job {
	w.t.Helper()
	w.until(id, func(j *job.Job) bool { return j.Ended })
	return w.verify(id)
}

func (w *harness) verify(id job.ID) job.Job {
	w.t.Helper()
	j, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	h, err := w.store.History(w.t.Context(), id, 0, 0)
	if err == nil {
		err = job.Verify(j, h, flow.Life)
	}
	if err != nil {
		w.t.Errorf("%s: %v", id, err)
	}
	return j
}

// waits waits until a flow waits unclaimed for something.
func (w *harness) waits(id job.ID, code string) job.Job {
	w.t.Helper()
	return w.until(id, func(j *job.Job) bool { return !j.Claimed() && j.Cause == code })
}

func (w *harness) do(id job.ID, e lc.Event) job.Job {
	w.t.Helper()
	j, err := w.Do(w.t.Context(), operator.Act{Job: id, Event: e, By: lc.Owner, Actor: "ann", Note: "because",
		Confirm: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *harness) signal(id job.ID, name string, value any) {
	w.t.Helper()
	if err := w.flows.Signal(w.t.Context(), w.Engine, id,
		durable.Signal{Name: name, Value: value, Actor: "bob"}); err != nil {
		w.t.Fatal(err)
	}
}

// early sends a signal that no task declares.
func (w *harness) early(id job.ID, name string, value any) {
	w.t.Helper()
	if err := w.flows.Signal(w.t.Context(), w.Engine, id,
		durable.Signal{Name: name, Value: value, Actor: "bob", Early: true}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *harness) view(id job.ID) *durable.View {
	w.t.Helper()
	v, err := w.flows.View(w.t.Context(), w.store, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// states gives the atoms as "name STATE".
func (w *harness) states(id job.ID) string {
	w.t.Helper()
	var all []string
	for _, a := range w.view(id).Atoms {
		all = append(all, a.Name+" "+string(a.State))
	}
	return strings.Join(all, ", ")
}

// events gives the transitions that a flow took.
func (w *harness) events(id job.ID) string {
	w.t.Helper()
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, h := range history {
		all = append(all, string(h.Event))
	}
	return strings.Join(all, " ")
}

// callLog records the executions and reverts of tasks.
type callLog struct {
	mu    sync.Mutex // guards the rest
	lines []string   // "+a" executed, "-a" reverted
	keys  map[string]int
}

func (b *callLog) note(sign string, c *flow.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, sign+c.Atom)
	if b.keys == nil {
		b.keys = map[string]int{}
	}
	b.keys[sign+c.Key()]++
}

func (b *callLog) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, " ")
}

func (b *callLog) times(line string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.lines {
		if l == line {
			n++
		}
	}
	return n
}

var errTask = errors.New("the disk is upside down")

// task makes a task that notes what it does; its result has its own name.
func (b *callLog) task(name string, more ...func(*flow.Task)) *flow.Task {
	t := &flow.Task{Name: name, Result: flow.One(name)}
	t.Execute = func(_ context.Context, c *flow.Call) (any, error) { b.note("+", c); return "did " + name, nil }
	t.Revert = func(_ context.Context, c *flow.Call) (any, error) { b.note("-", c); return nil, nil }
	for _, m := range more {
		m(t)
	}
	return t
}

// failing makes a task fail as long as while states that.
func (b *callLog) failing(while func(c *flow.Call) bool) func(*flow.Task) {
	return func(t *flow.Task) {
		t.Execute = func(_ context.Context, c *flow.Call) (any, error) {
			b.note("+", c)
			if while(c) {
				return nil, errTask
			}
			return "did " + t.Name, nil
		}
	}
}

func always(*flow.Call) bool { return true }

// held makes a task determine that it has begun, and wait until it may end.
func (b *callLog) held(began chan<- string, may <-chan struct{}) func(*flow.Task) {
	return func(t *flow.Task) {
		t.Execute = func(ctx context.Context, c *flow.Call) (any, error) {
			b.note("+", c)
			began <- t.Name
			select {
			case <-may:
				return "did " + t.Name, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

func needs(names ...string) func(*flow.Task) {
	return func(t *flow.Task) { t.Args.Requires = names }
}

// one gives options with a single factory "f".
func one(make func() flow.Item) durable.Options {
	return durable.Options{Factories: map[string]durable.Factory{"f": func(json.RawMessage) (flow.Item, error) {
		return make(), nil
	}}}
}

var order = durable.Order{Factory: "f"}

func kindOf(t *testing.T, err error, want job.ErrorKind) {
	t.Helper()
	if got := job.KindOf(err); got != want {
		t.Errorf("got %v, want kind %s", err, want)
	}
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q is not in %q", part, text)
	}
}

func eq(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

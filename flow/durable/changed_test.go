package durable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// TestChangedFlow begins a flow, stops its engine, and goes on with another version of it.
func TestChangedFlow(t *testing.T) {
	b := &callLog{}
	wait := func() *flow.Task { return flow.Wait("approval", "approved", 0) }
	old := func() flow.Item { return flow.Linear("deploy", b.task("a"), b.task("b"), wait(), b.task("c")) }
	for _, c := range []struct {
		name  string
		now   func() flow.Item
		up    func(*flow.Difference) error
		end   string
		cause string
		part  string
		atoms string
	}{
		{"the same", old, nil, "SUCCESS", "", "", "a SUCCESS, b SUCCESS, approval SUCCESS, c SUCCESS"},
		{"added where nothing was", func() flow.Item {
			return flow.Linear("deploy", b.task("a"), b.task("b"), wait(), b.task("c"), b.task("d"))
		},
			nil, "SUCCESS", "", "", "a SUCCESS, b SUCCESS, approval SUCCESS, c SUCCESS, d SUCCESS"},
		{"removed", func() flow.Item { return flow.Linear("deploy", b.task("b"), wait(), b.task("c")) },
			nil, "FAILURE", durable.CauseChanged, "a is gone, and is SUCCESS", ""},
		{"removed, accepted", func() flow.Item { return flow.Linear("deploy", b.task("b"), wait(), b.task("c")) },
			flow.AcceptChanges, "SUCCESS", "", "", "b SUCCESS, approval SUCCESS, c SUCCESS, a SUCCESS"},
		{"renamed", func() flow.Item {
			return flow.Linear("deploy", b.task("first", func(t *flow.Task) {
				t.Was, t.Result = []string{"a"}, flow.One("a")
			}), b.task("b"), wait(), b.task("c"))
		}, nil, "SUCCESS", "", "", "first SUCCESS, b SUCCESS, approval SUCCESS, c SUCCESS"},
		{"another version", func() flow.Item {
			return flow.Linear("deploy", b.task("a", func(t *flow.Task) { t.Version = "2.0" }), b.task("b"), wait(),
				b.task("c"))
		}, nil, "FAILURE", durable.CauseChanged, "a has version 2.0", ""},
		{"another version, refused by its owner", func() flow.Item {
			return flow.Linear("deploy", b.task("a", func(t *flow.Task) { t.Version = "2.0" }), b.task("b"), wait(),
				b.task("c"))
		}, func(d *flow.Difference) error {
			return errors.New("not now")
		}, "FAILURE", durable.CauseChanged, "not now", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, store job.Store) {
				b.lines = nil
				w := start(t, store, one(old), engine.Options{})
				id := w.submit(order)
				w.waits(id, durable.BlockSignal)
				w.stop()
				o := one(c.now)
				o.Upgrade = c.up
				w = start(t, store, o, engine.Options{})
				w.early(id, "other", 1) // no reason to go on, but to appear
				if c.end == "SUCCESS" {
					w.until(id, func(j *job.Job) bool {
						return !j.Claimed() && j.Cause == durable.BlockSignal && j.Epoch == 2
					})
					w.stop() // what was accepted is accepted once
					w = start(t, store, o, engine.Options{})
					w.signal(id, "approved", true)
				}
				j := w.end(id)
				if string(j.State) != c.end || j.Cause != c.cause {
					t.Errorf("got %s, %s: %s", j.State, j.Cause, j.Message)
				}
				contains(t, j.Message, c.part)
				if c.end == "SUCCESS" {
					eq(t, "atoms", w.states(id), c.atoms)
					eq(t, "executions of b", b.times("+b"), 1)
					return
				}
				w.stop() // the code is right again
				w = start(t, store, one(old), engine.Options{})
				w.do(id, flow.Run)
				w.waits(id, durable.BlockSignal)
				w.signal(id, "approved", true)
				eq(t, "state", w.end(id).State, flow.Success)
				eq(t, "did", b.text(), "+a +b +c")
			})
		})
	}
}

// TestUnknownFactory is K09: the flow waits for a worker that has its factory, and why states that.
func TestUnknownFactory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := mem.New(), &callLog{}
		o := one(func() flow.Item { return flow.Linear("deploy", b.task("a")) })
		knows, err := durable.New(o)
		if err != nil {
			t.Fatal(err)
		}
		w := start(t, store, durable.Options{Factories: map[string]durable.Factory{"g": o.Factories["f"]}},
			engine.Options{})
		j, err := knows.Submit(t.Context(), w.Engine, order)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(65 * time.Second)
		w.waits(j.ID, durable.BlockFactory)
		why, err := explain.New(w.Engine).Why(t.Context(), j.ID, time.Time{})
		if err != nil || len(why.Blockers) != 1 || why.Blockers[0].Code != durable.BlockFactory ||
			!strings.Contains(why.Blockers[0].Sentence, `no factory "f" (known: g)`) {
			t.Errorf("why %+v, %v", why.Blockers, err)
		}
		if v := w.view(j.ID); v.Outline != nil || len(v.Atoms) > 0 {
			t.Errorf("view %+v", v)
		}
		if v, err := knows.View(t.Context(), store, j.ID); err != nil || v.Outline == nil {
			t.Errorf("the factory gives no outline: %v", err)
		}
		if j := w.verify(j.ID); j.State != flow.Pending || j.Attempts != 0 {
			t.Errorf("got %+v", j)
		}
		other := start(t, store, o, engine.Options{Name: "other"})
		other.until(j.ID, func(j *job.Job) bool { return j.Cause == durable.BlockFactory || j.Ended })
		eq(t, "state", other.untilWithin(j.ID, time.Hour, func(j *job.Job) bool { return j.Ended }).State, flow.Success)
		eq(t, "events", other.events(j.ID), "create wait run finish")
	})
}

// TestFactoryFails: a factory that cannot make the flow any more ends it in FAILURE from wherever it stands; it can be
// run again.
func TestFactoryFails(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, calls, bad := &callLog{}, 0, true
		o := durable.Options{Factories: map[string]durable.Factory{"f": func(json.RawMessage) (flow.Item, error) {
			if calls++; calls > 1 && bad {
				return nil, errTask
			}
			return flow.Linear("deploy", b.task("a")), nil
		}}}
		w := start(t, store, o, engine.Options{})
		id := w.submit(order)
		j := w.end(id)
		eq(t, "state", j.State, flow.FailureState)
		eq(t, "cause", j.Cause, durable.CauseFactory)
		contains(t, j.Message, errTask.Error())
		eq(t, "events", w.events(id), "create run fail")
		bad = false
		w.do(id, flow.Run)
		eq(t, "state", w.until(id, func(j *job.Job) bool { return j.Ended && j.Retries == 1 }).State, flow.Success)
	})
}

// TestLargeValues go to files named for their digest, and come back; one that is damaged ends the flow instead of being
// used.
func TestLargeValues(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b, got, at := &callLog{}, "", t.TempDir()
		large := strings.Repeat("large ", 20_000)
		o := one(func() flow.Item {
			return flow.Linear("deploy", b.task("a", func(t *flow.Task) {
				t.Execute = func(context.Context, *flow.Call) (any, error) { return large, nil }
			}), flow.Wait("approval", "approved", 0), b.task("c", needs("a"), func(t *flow.Task) {
				t.Execute = func(_ context.Context, c *flow.Call) (any, error) { return nil, c.Into("a", &got) }
			}))
		})
		o.Blobs = durable.Dir(at)
		w := start(t, store, o, engine.Options{})
		id, other := w.submit(order), w.submit(order)
		w.waits(id, durable.BlockSignal)
		w.waits(other, durable.BlockSignal)
		a := w.view(id).Atoms[0]
		blob := a.Large["result"]
		if a.Result != nil || blob.Size != int64(len(large)+2) {
			t.Errorf("got %+v", a)
		}
		text, err := w.flows.Value(t.Context(), id, blob)
		if want, _ := json.Marshal(large); err != nil || !bytes.Equal(text, want) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		tasks, err := store.Tasks(t.Context(), id)
		for _, task := range tasks {
			if len(task.Data) > 1000 {
				t.Errorf("%s has %d bytes, %v", task.Name, len(task.Data), err)
			}
		}
		w.signal(id, "approved", true)
		eq(t, "state", w.end(id).State, flow.Success)
		if got != large {
			t.Errorf("%d bytes came back", len(got))
		}
		files, err := filepath.Glob(filepath.Join(at, string(other), "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		if err := os.WriteFile(files[0], append([]byte{'"', 'L'}, text[2:]...), 0o600); err != nil {
			t.Fatal(err)
		}
		w.signal(other, "approved", true)
		j := w.end(other)
		eq(t, "state", j.State, flow.FailureState)
		eq(t, "cause", j.Cause, durable.CauseDamaged)
		contains(t, j.Message, "is damaged")
		if n, err := w.flows.Tidy(t.Context(), store); n != 0 || err != nil {
			t.Errorf("%d removed, %v", n, err)
		}
		if n, err := w.flows.Tidy(t.Context(), mem.New()); n != 2 || err != nil {
			t.Errorf("%d removed, %v", n, err)
		}
		if entries, err := os.ReadDir(at); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v", entries, err)
		}
	})
}

// TestDir refuses names that lead elsewhere.
func TestDir(t *testing.T) {
	d, good := durable.Dir(filepath.Join(t.TempDir(), "new")), "sha256:"+strings.Repeat("ab", 32)
	for _, c := range []struct {
		id     job.ID
		digest string
	}{{"", good}, {"..", good}, {"a/b", good}, {"a", "sha256:../../x"}, {"a", "sha256:abcd"},
		{"a", "md5:" + strings.Repeat("ab", 32)}} {
		if err := d.Put(t.Context(), c.id, c.digest, nil); err == nil {
			t.Errorf("put %q %q", c.id, c.digest)
		}
		if _, err := d.Get(t.Context(), c.id, c.digest); err == nil {
			t.Errorf("get %q %q", c.id, c.digest)
		}
	}
	for range 2 {
		if err := d.Put(t.Context(), "a", good, []byte("x")); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Get(t.Context(), "b", good); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

type rude struct{}

func (rude) MarshalJSON() ([]byte, error) { panic("no JSON today") }

// TestLimits: what cannot be stored fails its task, which is reverted as always, with an error that names the type or
// the limit.
func TestLimits(t *testing.T) {
	cycle := map[string]any{}
	cycle["self"] = cycle
	for _, c := range []struct {
		value any
		blobs bool
		part  string
	}{
		{"fine", false, ""},
		{make(chan int), false, "chan int"},
		{func() {}, false, "func()"},
		{math.NaN(), false, "float64"},
		{cycle, false, "cycle"},
		{rude{}, false, "no JSON today"},
		{strings.Repeat("x", 2000), false, "no storage for large values"},
		{strings.Repeat("x", 2000), true, ""},
		{strings.Repeat("x", 9000), true, "limit of 8000"},
	} {
		b := &callLog{}
		o := one(func() flow.Item {
			return flow.Linear("deploy", b.task("a"), b.task("b", func(t *flow.Task) {
				t.Execute = func(context.Context, *flow.Call) (any, error) { return c.value, nil }
			}))
		})
		o.Limits = durable.Limits{Inline: 1000, Value: 8000}
		if c.blobs {
			o.Blobs = durable.Dir(t.TempDir())
		}
		w := start(t, mem.New(), o, engine.Options{})
		j := w.end(w.submit(order))
		if c.part == "" {
			eq(t, "state", j.State, flow.Success)
			continue
		}
		eq(t, "state", j.State, flow.Reverted)
		eq(t, "did", b.text(), "+a -b -a")
		contains(t, j.Message, c.part)
		if f := w.view(j.ID).Atoms[1].Failure; f == nil || f.Type != "CannotBeStored" {
			t.Errorf("%T: failure %+v", c.value, f)
		}
	}
}

// TestTotalLimit bounds the records of a flow as a whole.
func TestTotalLimit(t *testing.T) {
	b := &callLog{}
	o := one(func() flow.Item {
		f := []flow.Item{}
		for i := range 20 {
			f = append(f, b.task(fmt.Sprint("t", i), func(t *flow.Task) {
				t.Execute = func(context.Context, *flow.Call) (any, error) { return strings.Repeat("x", 900), nil }
			}))
		}
		return flow.Linear("deploy", f...)
	})
	o.Limits.Total = 10_000
	w := start(t, mem.New(), o, engine.Options{})
	j := w.end(w.submit(order))
	eq(t, "state", j.State, flow.Reverted)
	contains(t, j.Message, "over the limit of 10000")
}

package durable_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// beside is a store at which something happens right before a commit or a reading of tasks.
type beside struct {
	job.Store
	commit func(changes []job.Change)
	tasks  func() error
}

func (s *beside) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	if s.commit != nil {
		s.commit(changes)
	}
	return s.Store.Commit(ctx, changes...)
}

func (s *beside) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	if s.tasks != nil {
		if err := s.tasks(); err != nil {
			return nil, err
		}
	}
	return s.Store.Tasks(ctx, id)
}

// waitsNow reports whether a change is the commit by which an atom begins to wait.
func waitsNow(changes []job.Change) bool {
	return slices.ContainsFunc(changes, func(c job.Change) bool {
		return slices.ContainsFunc(c.Tasks, func(t job.Task) bool {
			return t.Name == "approval" && t.State == flow.Running && strings.Contains(string(t.Data), `"waits":true`)
		})
	})
}

// TestSignalBesideCommit: a signal that is stored in the moment in which the flow stores that it waits, and that the
// worker cannot read at once, lets it go on in time: the flow does not come to rest with a record whose news no one has
// examined.
func TestSignalBesideCommit(t *testing.T) {
	for name, failures := range map[string]int32{"read at once": 0, "read at the second try": 1,
		"read at the fourth try": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, store := &callLog{}, &beside{Store: mem.New()}
				w := start(t, store, one(func() flow.Item {
					return flow.Linear("deploy", b.task("a"), flow.Wait("approval", "approved", 0), b.task("c"))
				}), engine.Options{})
				var sent atomic.Bool
				var refuse atomic.Int32
				store.commit = func(changes []job.Change) {
					if !waitsNow(changes) || sent.Swap(true) {
						return
					}
					w.signal(changes[0].Job, "approved", "yes")
					refuse.Store(failures)
				}
				store.tasks = func() error {
					if refuse.Load() > 0 && refuse.Add(-1) >= 0 {
						return errors.New("the disk is busy")
					}
					return nil
				}
				id := w.submit(order)
				j := w.untilWithin(id, time.Minute, func(j *job.Job) bool { return j.Ended })
				eq(t, "state", j.State, flow.Success)
				eq(t, "did", b.text(), "+a +c")
				eq(t, "events", w.events(id), "create run finish")
			})
		})
	}
}

// TestStopWhileLoading: a worker that is asked to stop while it reads a flow begins none of its tasks.
func TestStopWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := &callLog{}, &beside{Store: mem.New()}
		o := one(func() flow.Item { return flow.Linear("deploy", b.task("a"), b.task("b")) })
		reading, may := make(chan bool), make(chan bool)
		var calls atomic.Int32
		store.tasks = func() error {
			if calls.Add(1) == 1 {
				reading <- true
				<-may
			}
			return nil
		}
		w := start(t, store, o, engine.Options{})
		id := w.submit(order)
		<-reading
		go w.stop()
		synctest.Wait() // the engine stops, and waits for the step
		close(may)
		synctest.Wait()
		eq(t, "did", b.text(), "")
		w = start(t, store, o, engine.Options{})
		eq(t, "state", w.end(id).State, flow.Success)
		eq(t, "did", b.text(), "+a +b")
	})
}

// TestMessageIsBounded: a flow in which very many tasks fail with long texts names some of them.
func TestMessageIsBounded(t *testing.T) {
	b := &callLog{}
	long := strings.Repeat("x", 10_000)
	var items []flow.Item
	for i := range 200 {
		items = append(items, b.task("t"+string(rune('a'+i%26))+string(rune('a'+i/26)), func(k *flow.Task) {
			k.Execute = func(context.Context, *flow.Call) (any, error) { return nil, errors.New(long) }
		}))
	}
	o := one(func() flow.Item { return flow.Unordered("deploy", items...) })
	w := start(t, mem.New(), o, engine.Options{})
	many := order
	many.Settings = durable.Settings{NeverResolve: true}
	j := w.end(w.submit(many))
	eq(t, "state", j.State, flow.FailureState)
	if len(j.Message) > 20<<10 {
		t.Errorf("the message has %d bytes", len(j.Message))
	}
	contains(t, j.Message, "more failed")
	eq(t, "words", j.Words, "deploy")
}

// TestDamagedValueIsReplaced: a large value whose file was damaged is right again once it is put away anew.
func TestDamagedValueIsReplaced(t *testing.T) {
	dir := t.TempDir()
	blobs, content := durable.Dir(dir), []byte("a large value")
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	file := filepath.Join(dir, "flw_1", strings.Replace(digest, ":", "-", 1))
	for _, damage := range []string{"", "A large value", "a large"} {
		if damage != "" {
			if err := os.WriteFile(file, []byte(damage), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := blobs.Put(t.Context(), "flw_1", digest, content); err != nil {
			t.Fatal(err)
		}
		got, err := blobs.Get(t.Context(), "flw_1", digest)
		if err != nil || string(got) != string(content) {
			t.Errorf("after %q: got %q, %v", damage, got, err)
		}
	}
}

// ticking is a clock that advances by 1 ms with each call.
type ticking struct{ looks atomic.Int64 }

func (c *ticking) Now() time.Time {
	return time.Now().Add(time.Duration(c.looks.Add(1)) * time.Millisecond)
}

func (c *ticking) Wall() time.Time { return time.Now() }

// TestShortPause: a flow whose time comes while it is found out that it waits is not left for as long as one that does
// not know its time. Of so many pauses one ends then.
func TestShortPause(t *testing.T) {
	for pause := range 40 {
		synctest.Test(t, func(t *testing.T) {
			b, d := &callLog{}, time.Duration(pause+1)*time.Millisecond
			w := start(t, mem.New(), one(func() flow.Item {
				return flow.Linear("deploy", b.task("a"), flow.Sleep("nap", d))
			}), engine.Options{Clock: &ticking{}})
			began := time.Now()
			eq(t, "state", w.end(w.submit(order)).State, flow.Success)
			if took := time.Since(began); took > time.Second {
				t.Errorf("a pause of %s took %s", d, took)
			}
		})
	}
}

// TestStormOfSignals: signals that come faster than the tasks of a large flow can be read leave its worker time for its
// commits, and the last one is received.
func TestStormOfSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store, began, may := &callLog{}, &beside{Store: mem.New()}, make(chan string, 1), make(chan struct{})
		var reads atomic.Int32
		store.tasks = func() error {
			reads.Add(1)
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		o := one(func() flow.Item {
			return flow.Linear("deploy", b.task("a", b.held(began, may)), flow.Wait("approval", "s99", 0), b.task("c"))
		})
		w := start(t, store, o, engine.Options{})
		id := w.submit(order)
		<-began
		for i := range 100 {
			w.early(id, fmt.Sprintf("s%d", i), i)
			time.Sleep(40 * time.Millisecond)
		}
		if n := reads.Load(); n < 5 || n > 15 { // in four seconds
			t.Errorf("the tasks were read %d times", n)
		}
		close(may)
		eq(t, "state", w.end(id).State, flow.Success)
		eq(t, "events", w.events(id), "create run finish")
	})
}

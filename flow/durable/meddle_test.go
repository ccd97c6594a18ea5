package durable_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// meddler calls before right before the nth commit of a worker, and can refuse the commit or its reply.
type meddler struct {
	job.Store
	at     int
	before func()
	lost   bool // the commit is not made, and its worker gets an error
	mute   bool // it is made, and its worker gets an error all the same

	mu      sync.Mutex // guards the rest
	commits int
	busy    bool // before is under way: its own commits are not counted
}

func (m *meddler) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	m.mu.Lock()
	if m.busy {
		m.mu.Unlock()
		return m.Store.Commit(ctx, changes...)
	}
	m.commits++
	now := m.commits == m.at
	m.busy = now && m.before != nil
	m.mu.Unlock()
	if now && m.before != nil {
		m.before()
		m.mu.Lock()
		m.busy = false
		m.mu.Unlock()
	}
	if now && m.lost {
		return nil, job.Errorf(job.Unavailable, "commit", "", "the disk is busy")
	}
	results, err := m.Store.Commit(ctx, changes...)
	if now && m.mute {
		return nil, job.Errorf(job.Unavailable, "commit", "", "the disk is busy")
	}
	return results, err
}

// meddled makes a flow with a line of tasks beside one that waits.
func meddled(b *callLog) flow.Item {
	return flow.Unordered("deploy", flow.Linear("line", b.task("a"), b.task("b"), b.task("c")),
		flow.Wait("approval", "approved", 0))
}

// meddle runs the flow with a user before the nth commit until it rests; then people send the signal and run it,
// until it ends.
func meddle(t *testing.T, m *meddler, b *callLog, what func(w *harness, id job.ID)) (met bool) {
	w := start(t, m, one(func() flow.Item { return meddled(b) }), engine.Options{Lease: time.Hour, Sweep: time.Hour})
	var id job.ID
	if what != nil {
		m.before = func() { what(w, id) }
	}
	o := order
	o.ID = "flw_one"
	id = o.ID
	if _, err := w.flows.Submit(t.Context(), w.Engine, o); err != nil {
		t.Fatal(err)
	}
	j := rest(w, id)
	for range 10 { // what people do here may be what is meddled with: they do it again
		switch {
		case j.State == flow.Suspended:
			_, _ = w.Do(t.Context(), operator.Act{Job: id, Event: flow.Run, By: lc.Owner, Actor: "ann"})
		case !j.Ended:
			_ = w.flows.Signal(t.Context(), w.Engine, id, durable.Signal{Name: "approved", Value: true})
		}
		time.Sleep(time.Minute)
		j = rest(w, id)
	}
	if w.verify(id); j.State != flow.Success {
		t.Errorf("got %s by %s: %s", j.State, w.events(id), j.Message)
	}
	for key, n := range b.keys {
		if n != 1 {
			t.Errorf("%s was used %d times", key, n)
		}
	}
	w.stop()
	return m.commits >= m.at
}

// TestMeddling has others do something right before each commit of a worker: the flow pauses or goes on, and nothing is
// done twice or missed.
func TestMeddling(t *testing.T) {
	suspend := func(w *harness, id job.ID) {
		// refused while PENDING
		_, _ = w.Do(context.Background(), operator.Act{Job: id, Event: flow.Suspend, By: lc.Owner, Actor: "ann"})
	}
	signal := func(w *harness, id job.ID) {
		_ = w.flows.Signal(context.Background(), w.Engine, id, durable.Signal{Name: "approved", Value: true})
	}
	for _, c := range []struct {
		name       string
		lost, mute bool
		what       func(w *harness, id job.ID)
	}{
		{"suspend", false, false, suspend},
		{"signal", false, false, signal},
		{"both", false, false, func(w *harness, id job.ID) { signal(w, id); suspend(w, id) }},
		{"priority", false, false, func(w *harness, id job.ID) {
			_, _ = w.Operator().SetPriority(context.Background(), id, 0, 7, "ann", "")
		}},
		{"a commit that is lost", true, false, nil}, // K08
		{"a commit whose result is unknown", false, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, met := 1, true
			for ; met && at < 50; at++ {
				synctest.Test(t, func(t *testing.T) {
					met = meddle(t, &meddler{Store: mem.New(), at: at, lost: c.lost, mute: c.mute}, &callLog{}, c.what)
				})
				if t.Failed() {
					t.Fatalf("before commit %d", at)
				}
			}
			if at < 5 {
				t.Errorf("only %d commits", at)
			}
		})
	}
}

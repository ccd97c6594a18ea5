package flow_test

import (
	"errors"
	"testing"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// moveOf moves a flow from one state to another by an event, as its Runner does. It returns the state, the stored state
// and the number of events.
func moveOf(t *testing.T, from lifecycle.State, e lifecycle.Event, to lifecycle.State) (after, stored lifecycle.State,
	reported int, err error) {
	t.Helper()
	m := flow.NewMemory()
	m.Change(func(s *flow.Snapshot) { s.State, s.Live = from, true })
	r, err := flow.New(flow.Linear("f"), flow.Options{Storage: m,
		Listeners: []flow.Listener{func(flow.Event) { reported++ }}})
	if err != nil {
		t.Fatal(err)
	}
	err = r.MoveFrom(t.Context(), from, e, to)
	snap, failed := m.Load(t.Context())
	if failed != nil {
		t.Fatal(failed)
	}
	return r.State(), snap.State, reported, err
}

// TestFlowTableScenarios holds what a Runner does with the state of its flow against the table: every pair, by every
// event that leads to the second state.
func TestFlowTableScenarios(t *testing.T) {
	table, has := scenarios(t).Tables["flow"]
	if !has {
		return
	}
	leading := map[lifecycle.State][]lifecycle.Event{}
	for _, s := range flow.Life.Stages() {
		for _, a := range s.Transitions {
			if a.Class != lifecycle.Loop {
				leading[a.To] = append(leading[a.To], a.Event)
			}
		}
	}
	pairs := 0
	each := func(kind string, all [][2]string, check func(t *testing.T, from, to lifecycle.State, e lifecycle.Event)) {
		for _, pair := range all {
			from, to := lifecycle.State(pair[0]), lifecycle.State(pair[1])
			pairs++
			allowed, ignored := flow.Allowed(from, to), flow.Ignored(from, to)
			if allowed != (kind == "allowed") || ignored != (kind == "ignored") {
				t.Errorf("%s to %s is allowed: %v, ignored: %v, want %s", from, to, allowed, ignored, kind)
			}
			for _, e := range leading[to] {
				check(t, from, to, e)
			}
		}
	}
	each("allowed", table.Allowed, func(t *testing.T, from, to lifecycle.State, e lifecycle.Event) {
		a, legal := flow.Life.Transition(from, e)
		after, stored, reported, err := moveOf(t, from, e, to)
		if legal && a.To == to && (err != nil || after != to || stored != to || reported != 1) {
			t.Errorf("%s to %s by %s: %s, stored %s, reported %d times, %v", from, to, e, after, stored, reported, err)
		}
	})
	each("ignored", table.Ignored, func(t *testing.T, from, to lifecycle.State, e lifecycle.Event) {
		if after, stored, reported, err := moveOf(t, from, e, to); err != nil || after != from || stored != from ||
			reported != 0 {
			t.Errorf("%s to %s by %s: %s, stored %s, reported %d times, %v", from, to, e, after, stored, reported, err)
		}
	})
	each("forbidden", table.Forbidden, func(t *testing.T, from, to lifecycle.State, e lifecycle.Event) {
		if a, ours := flow.Life.Transition(from, e); ours && a.To == to {
			return // a reset of a failed or suspended flow, and the end of one that never started
		}
		after, stored, reported, err := moveOf(t, from, e, to)
		var refused *flow.StateError
		if !errors.As(err, &refused) || refused.From != from || refused.To != to || !errors.Is(err, flow.ErrState) ||
			after != from || stored != from || reported != 0 {
			t.Errorf("%s to %s by %s: %s, stored %s, reported %d times, %v", from, to, e, after, stored, reported, err)
		}
	})
	if pairs != 64 {
		t.Errorf("the table has %d pairs, want 64", pairs)
	}
}

// TestAtomTableScenarios holds the tables of tasks and retry controllers against ours.
func TestAtomTableScenarios(t *testing.T) {
	tables := scenarios(t).Tables
	for name, life := range map[string]*lifecycle.Table{"task": flow.TaskLife, "retry": flow.RetryLife} {
		table, has := tables[name]
		if !has {
			continue
		}
		leads := func(from, to string) bool {
			stage, known := life.Stage(lifecycle.State(from))
			if !known {
				t.Errorf("%s: there is no state %s", name, from)
			}
			for _, a := range stage.Transitions {
				if a.Class != lifecycle.Loop && string(a.To) == to {
					return true
				}
			}
			return false
		}
		for _, pair := range table.Allowed {
			if !leads(pair[0], pair[1]) {
				t.Errorf("%s: %s to %s is not allowed", name, pair[0], pair[1])
			}
		}
		for _, pair := range table.NotAllowed {
			if leads(pair[0], pair[1]) {
				t.Errorf("%s: %s to %s is allowed", name, pair[0], pair[1])
			}
		}
		states := 8
		if name == "retry" {
			states = 9
		}
		if n := len(table.Allowed) + len(table.NotAllowed); n != states*states {
			t.Errorf("%s: the table has %d pairs, want %d", name, n, states*states)
		}
	}
}

package docs

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagepost/stagepost/lifecycle"
)

// TestEveryStateEveryEvent asks every table, at every position it can stand in, for every event by every actor: Next
// agrees with Can, refuses with a reason, and never leaves the table.
func TestEveryStateEveryEvent(t *testing.T) {
	for _, table := range All() {
		t.Run(table.Name(), func(t *testing.T) {
			for _, p := range positions(table) {
				for _, by := range lifecycle.Actors() {
					can := table.Can(p, by)
					for _, e := range append(table.Events(), "unheard-of") {
						askOne(t, table, p, e, by, slices.Contains(can, e))
					}
					chooseAll(t, table, p, by, can)
				}
			}
		})
	}
}

func askOne(t *testing.T, table *lifecycle.Table, p lifecycle.Position, e lifecycle.Event, by lifecycle.Actor,
	can bool) {
	t.Helper()
	next, err := table.Next(p, e, by)
	transition, has := table.Transition(p.State, e)
	var illegal *lifecycle.Illegal
	switch {
	case err != nil && (!errors.As(err, &illegal) || illegal.Why == "" || next != p):
		t.Errorf("%s at %+v by %s: %v and position %+v, want a refusal with a reason and no change", e, p, by, err,
			next)
	case has && transition.Class == lifecycle.Loop:
		if err == nil && (next != p || can == transition.Stays()) {
			t.Errorf("%s at %+v stays, but gives %+v (can: %v)", e, p, next, can)
		}
	case (err == nil) != can:
		t.Errorf("%s at %+v by %s: error %v, but Can reports %v", e, p, by, err, can)
	case err == nil && !slices.Contains(transition.Targets(), next.State):
		t.Errorf("%s at %+v leads to %s, which is not one of its targets", e, p, next.State)
	}
}

// chooseAll holds Choose against Can: it gives the only transition of its class, or none.
func chooseAll(t *testing.T, table *lifecycle.Table, p lifecycle.Position, by lifecycle.Actor, can []lifecycle.Event) {
	t.Helper()
	for _, class := range []lifecycle.Class{lifecycle.Pass, lifecycle.Fail, lifecycle.Move, lifecycle.Reenter} {
		var of []lifecycle.Event
		for _, e := range can {
			if a, _ := table.Transition(p.State, e); a.Class == class {
				of = append(of, e)
			}
		}
		e, ok := table.Choose(p, class, by)
		if ok != (len(of) == 1) || ok && e != of[0] {
			t.Errorf("at %+v class %s by %s: Choose gives %q, %v of %v", p, class, by, e, ok, of)
		}
	}
}

// positions gives every position that legal moves lead to.
func positions(table *lifecycle.Table) []lifecycle.Position {
	all := []lifecycle.Position{table.Start()}
	seen := map[lifecycle.Position]bool{table.Start(): true}
	for i := 0; i < len(all); i++ {
		for _, by := range lifecycle.Actors() {
			for _, e := range table.Can(all[i], by) {
				if next, err := table.Next(all[i], e, by); err == nil && !seen[next] {
					seen[next] = true
					all = append(all, next)
				}
			}
		}
	}
	return all
}

// TestReplayEndsWhereNextDoes replays random legal walks, and a false step at the end of each.
func TestReplayEndsWhereNextDoes(t *testing.T) {
	for _, table := range All() {
		t.Run(table.Name(), func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, uint64(len(table.Stages()))))
			for range 300 {
				moves, want := walk(table, random)
				got, err := table.Replay(moves)
				if err != nil || got != want {
					t.Fatalf("%v ends at %+v, %v; want %+v", moves, got, err, want)
				}
				if got, err := table.Replay(append(moves,
					lifecycle.Taken{Event: "unheard-of", By: lifecycle.Operator})); err == nil || got != want {
					t.Fatalf("a false step after %v: %+v, %v", moves, got, err)
				}
			}
		})
	}
}

func walk(table *lifecycle.Table, random *rand.Rand) ([]lifecycle.Taken, lifecycle.Position) {
	p := table.Start()
	var moves []lifecycle.Taken
	for range random.IntN(40) {
		by := lifecycle.Actors()[random.IntN(5)]
		events := table.Events()
		e := events[random.IntN(len(events))]
		if can := table.Can(p, by); len(can) > 0 {
			e = can[random.IntN(len(can))]
		}
		next, err := table.Next(p, e, by)
		if err != nil {
			continue
		}
		p, moves = next, append(moves, lifecycle.Taken{Event: e, By: by})
	}
	return moves, p
}

// cleansUp are the lifecycles whose outcome is decided before they clean up.
var cleansUp = map[string]bool{"archive.job": true, "archive.quiz": true}

// TestSuccessMeansOK and that every end has its outcome, whatever the way there.
func TestSuccessMeansOK(t *testing.T) {
	for _, table := range All() {
		for _, p := range positions(table) {
			s, _ := table.Stage(p.State)
			switch {
			case s.Kind != lifecycle.End && p.Outcome == lifecycle.OK && !cleansUp[table.Name()]:
				t.Errorf("%s: outcome ok in %s, which is no end", table.Name(), p.State)
			case s.Kind == lifecycle.End && s.Outcome != lifecycle.None && p.Outcome != s.Outcome:
				t.Errorf("%s: %s is reached with outcome %q, want %q", table.Name(), p.State, p.Outcome, s.Outcome)
			}
		}
	}
}

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// stretch is the time in which a hold was in force.
type stretch struct {
	job.Hold
	end time.Time
}

// holdHarness puts and releases holds while letters come in.
type holdHarness struct {
	*harness
	random *rand.Rand
	past   []stretch
	jobs   []job.ID
}

// scope picks what to hold: a group, one letter, a tag, an owner of a group, everything.
func (w *holdHarness) scope() job.Scope {
	switch n := w.random.IntN(6); {
	case n == 0 && len(w.jobs) > 0:
		return job.Scope{Job: w.jobs[w.random.IntN(len(w.jobs))]}
	case n == 1:
		return job.Scope{Tag: "road=north"}
	case n == 2:
		return job.Scope{Group: "maps", Owner: "ann"}
	case n == 3:
		return job.Scope{}
	}
	return job.Scope{Group: []string{"maps", "books"}[w.random.IntN(2)]}
}

func (w *holdHarness) put() {
	until := time.Time{}
	if w.random.IntN(3) == 0 {
		until = time.Now().Add(time.Duration(1+w.random.IntN(3000)) * time.Millisecond)
	}
	s := w.scope()
	w.lift(s, false)
	holds, err := w.Operator().Hold(w.t.Context(), s, "ann", "flood", until)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range holds {
		if h.Scope == s {
			w.past = append(w.past, stretch{Hold: h, end: until})
		}
	}
}

// lift ends the hold of a scope, or notes that another one takes its position.
func (w *holdHarness) lift(s job.Scope, release bool) {
	for i := range w.past {
		if p := &w.past[i]; p.Scope == s && (p.end.IsZero() || p.end.After(time.Now())) {
			p.end = time.Now()
		}
	}
	if release {
		if _, err := w.Operator().Release(w.t.Context(), s, "ann", "dry again"); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *holdHarness) releaseSome(all bool) {
	holds, err := w.store.Holds(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range holds {
		if all || w.random.IntN(2) == 0 {
			w.lift(h.Scope, true)
		}
	}
}

// come passes letters in.
func (w *holdHarness) come(n int) {
	orders := make([]engine.Order, n)
	for i := range orders {
		orders[i] = engine.Order{
			Kind: "test.letter", Group: []string{"maps", "books", "other"}[w.random.IntN(3)], Owner: []string{"ann",
				"bob"}[w.random.IntN(2)],
			Priority: new(w.random.IntN(3)), Tags: []string{[]string{"road=north", "road=south"}[w.random.IntN(2)]},
		}
	}
	made, err := w.SubmitAll(w.t.Context(), orders...)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range made {
		w.jobs = append(w.jobs, made[i].ID)
	}
}

// check compares the history of a letter with the holds of its time, and returns the letter's state.
func (w *holdHarness) check(id job.ID) (state lc.State, parked int) {
	j := w.get(id)
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range history {
		then := j
		then.Position = lc.Position{State: e.From}
		within, inside := false, "" // on the brink counts for the first, but not for the second
		for _, p := range w.past {
			if !p.Matches(&then) || e.At.Before(p.Since.Truncate(time.Microsecond)) || !p.end.IsZero() &&
				e.At.After(p.end) {
				continue
			}
			within = within || p.Until.IsZero() && (p.Group != "" || p.Job != "")
			if e.At.After(p.Since) && (p.end.IsZero() || e.At.Before(p.end.Truncate(time.Microsecond))) {
				inside = p.Scope.String()
			}
		}
		switch {
		case e.Event == "hold":
			if parked++; !within {
				w.t.Errorf("%s was put aside at %s, and no hold was in force then", id, e.At)
			}
		case e.Event == "begin" && inside != "":
			w.t.Errorf("%s began at %s under the hold on %s", id, e.At, inside)
		}
	}
	return j.State, parked
}

// TestHoldsComeAndGoWhileJobsComeIn: whatever order things happen in, a letter is put aside only under a hold, none
// begins under one, and none is forgotten in its queue: when the holds are gone, all but those put aside arrive, and
// these once they are released.
func TestHoldsComeAndGoWhileJobsComeIn(t *testing.T) {
	const comers = 1000
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pace := rand.New(rand.NewPCG(seed, 7))
				work := letters(map[lc.State]engine.Step{"Posted": func(context.Context, *engine.Run) error {
					time.Sleep(20 * time.Millisecond)
					return nil
				}})
				work.Parks = byGroup
				work.Allow = func(_ context.Context, _ *job.Job, a *operator.Act) (job.Require, error) {
					return job.Require{Free: a.Event == "release"}, nil
				}
				w := &holdHarness{harness: start(t, mem.New(), engine.Options{Slots: 8}, work), random: pace}
				defer w.stop()
				for len(w.jobs) < comers {
					switch pace.IntN(4) {
					case 0:
						w.put()
					case 1:
						w.releaseSome(false)
					default:
						w.come(1 + pace.IntN(20))
					}
					time.Sleep(time.Duration(pace.IntN(60)) * time.Millisecond)
				}
				w.releaseSome(true)
				time.Sleep(time.Minute)
				held, parked := []job.ID{}, 0
				for _, id := range w.jobs {
					state, n := w.check(id)
					parked += n
					switch state {
					case "Held":
						held = append(held, id)
					case "Delivered":
					default:
						t.Errorf("%s is forgotten in %s", id, state)
					}
				}
				if len(held) == 0 || len(held) == len(w.jobs) {
					t.Errorf("control: %d of %d are put aside", len(held), len(w.jobs))
				}
				if _, err := w.Operator().Hold(t.Context(), job.Scope{Group: "maps", Owner: "ann"}, "ann",
					"a narrower one", time.Time{}); err != nil {
					t.Fatal(err)
				}
				for _, id := range held {
					j := w.get(id)
					_, err := w.Do(t.Context(), operator.Act{Job: id, Event: "release", By: lc.Operator, Actor: "ann"})
					if narrow := j.Group == "maps" && j.Owner == "ann"; narrow != (job.KindOf(err) == job.Refused) ||
						!narrow && err != nil {
						t.Errorf("release of %s (%s of %s): %v", id, j.Group, j.Owner, err)
					}
				}
				time.Sleep(time.Minute)
				for _, id := range held {
					j := w.get(id)
					if want := map[bool]lc.State{true: "Held", false: "Delivered"}[j.Group == "maps" &&
						j.Owner == "ann"]; j.State != want {
						t.Errorf("%s is %s, want %s", id, j.State, want)
					}
				}
			})
		})
	}
}

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// tallier counts the steps under way, and their maximum.
type tallier struct {
	mu   sync.Mutex
	now  map[string]int
	most map[string]int
}

func newMeter() *tallier { return &tallier{now: map[string]int{}, most: map[string]int{}} }

func (m *tallier) add(n int, names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.now[name] += n
		m.most[name] = max(m.most[name], m.now[name])
	}
}

// see takes a number that was counted elsewhere.
func (m *tallier) see(n int, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most[name] = max(m.most[name], n)
}

// TestLimitsHoldAtEveryMoment lets three engines work on the jobs of three owners and groups.
func TestLimitsHoldAtEveryMoment(t *testing.T) {
	total := job.Limit{Name: "total", Kind: "test.letter", Guard: []lc.State{"Riding"}, Max: 5}
	owner := job.Limit{Name: "owner", Kind: "test.letter", Guard: []lc.State{"Riding"}, PerOwner: true, Max: 2}
	group := job.Limit{Name: "group", Kind: "test.letter", Guard: []lc.State{"Riding"}, PerGroup: true, Max: 3}
	single := job.Limit{Name: "single", Kind: "test.letter", Guard: []lc.State{"Riding"}, Owner: "owner1", Max: 1}
	for _, c := range []struct {
		name   string
		limits []job.Limit
		most   map[string]int
		more   bool // control: the numbers are exceeded
	}{
		{"total", []job.Limit{total}, map[string]int{"all": 5}, false},
		{"owner", []job.Limit{owner}, map[string]int{"owner0": 2, "owner1": 2, "owner2": 2}, false},
		{"group", []job.Limit{group}, map[string]int{"group0": 3, "group1": 3}, false},
		{"one owner", []job.Limit{single}, map[string]int{"owner1": 1}, false},
		{"all of them", []job.Limit{total, owner, group, single},
			map[string]int{"all": 5, "owner0": 2, "owner1": 1, "group0": 3}, false},
		{"control: none", nil, map[string]int{"all": 5, "owner0": 2, "owner1": 2, "group0": 3}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, m := mem.New(), newMeter()
				d := &dice{r: rand.New(rand.NewPCG(5, 6))}
				work := func() engine.Work {
					w := letters(map[lc.State]engine.Step{
						"Sorting": func(ctx context.Context, r *engine.Run) error {
							return takes(d.upTo(time.Minute))(ctx, r)
						},
						"Riding": func(ctx context.Context, r *engine.Run) error {
							j := r.Job()
							m.add(1, "all", j.Owner, j.Group)
							defer m.add(-1, "all", j.Owner, j.Group)
							return takes(d.upTo(5*time.Minute))(ctx, r)
						},
					})
					w.Limits = c.limits
					return w
				}
				for i := range 3 {
					w := start(t, store, named("clerk", i), work())
					defer w.stop()
				}
				sender := start(t, store, engine.Options{Name: "sender"}, work())
				defer sender.stop()
				for i := range 90 {
					sender.post(engine.Order{Owner: fmt.Sprint("owner", i%3), Group: fmt.Sprint("group", i/3%2),
						Priority: new(i % 7)})
				}
				settle(t, store)
				for name, want := range c.most {
					if got := m.most[name]; (got > want) != c.more || (!c.more && got != want) {
						t.Errorf("%s: up to %d at once, the limit is %d", name, got, want)
					}
				}
			})
		})
	}
}

// TestLimitOccupies checks that a limit on whole states admits no job while they are full of claimed or unclaimed jobs.
func TestLimitOccupies(t *testing.T) {
	for _, limited := range []bool{true, false} {
		t.Run(fmt.Sprint("limited ", limited), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, m := mem.New(), newMeter()
				d := &dice{r: rand.New(rand.NewPCG(7, 8))}
				look := func(ctx context.Context, r *engine.Run) error {
					tallies, err := store.Count(ctx)
					n := 0
					for _, t := range tallies {
						switch t.State {
						case "Posted":
							n += int(t.Claimed)
						case "Sorting", "Riding":
							n += int(t.Jobs)
						}
					}
					m.see(n, "inside")
					if err == nil && r.Job().State == "Riding" && r.Job().Attempts == 0 {
						return engine.RetryAfter(time.Minute, errBroken) // no one has it, and it occupies its position
					}
					return takes(d.upTo(time.Minute))(ctx, r)
				}
				work := letters(map[lc.State]engine.Step{"Posted": look, "Sorting": look, "Riding": look})
				if limited {
					work.Limits = []job.Limit{{Name: "house", Kind: "test.letter", Guard: []lc.State{"Posted"},
						Occupy: []lc.State{"Sorting", "Riding"}, Max: 4}}
				}
				w := start(t, store, engine.Options{Name: "one"}, work)
				defer w.stop()
				w2 := start(t, store, engine.Options{Name: "two"}, work)
				defer w2.stop()
				for range 40 {
					w.post(engine.Order{})
				}
				settle(t, store)
				if got := m.most["inside"]; (got <= 4) != limited {
					t.Errorf("up to %d jobs were inside", got)
				}
			})
		})
	}
}

// TestPriorityGoesFirst checks with one slot that waiting jobs are claimed by priority, then by age. An order without a
// priority has the default.
func TestPriorityGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		w := start(t, mem.New(), engine.Options{Slots: 1}, letters(map[lc.State]engine.Step{
			"Posted": func(ctx context.Context, r *engine.Run) error {
				order = append(order, r.Job().Group)
				return takes(time.Minute)(ctx, r)
			},
		}))
		defer w.stop()
		w.post(engine.Order{Group: "first", Priority: new(99)})
		synctest.Wait()
		for _, o := range []engine.Order{{Group: "d", Priority: new(60)}, {Group: "default"},
			{Group: "b", Priority: new(10)}, {Group: "a", Priority: new(0)}, {Group: "c", Priority: new(10)}} {
			w.post(o)
		}
		late := w.post(engine.Order{Group: "e", Priority: new(70)})
		if _, err := w.Operator().SetPriority(t.Context(), late.ID, late.Version, 5, "ann", "sooner"); err != nil {
			t.Fatal(err)
		}
		settle(t, w.store)
		if got, want := fmt.Sprint(order), "[first a e b c default d]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestFloodOfOneOwnerDelaysAnotherByARound checks with one slot that the only job of a second owner starts next. In the
// control the job has the first owner.
func TestFloodOfOneOwnerDelaysAnotherByARound(t *testing.T) {
	for _, c := range []struct {
		name   string
		owner  string
		before int
	}{{"another owner", "ben", 1}, {"control: the same owner", "ann", 99}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started, before := 0, -1
				w := start(t, mem.New(), engine.Options{Slots: 1}, letters(map[lc.State]engine.Step{
					"Posted": func(ctx context.Context, r *engine.Run) error {
						if r.Job().Group == "single" {
							before = started
						}
						started++
						return takes(time.Minute)(ctx, r)
					},
				}))
				defer w.stop()
				for range 100 {
					w.post(engine.Order{Owner: "ann"})
				}
				synctest.Wait() // the first is under way
				w.post(engine.Order{Owner: c.owner, Group: "single"})
				settle(t, w.store)
				if before < c.before || before > c.before+1 {
					t.Errorf("%d jobs started before it, want %d", before, c.before)
				}
			})
		})
	}
}

// TestOwnSlots checks that a kind with its own slots is claimed while all shared slots are busy, and uses none of them.
// The control shares them.
func TestOwnSlots(t *testing.T) {
	for _, c := range []struct {
		name  string
		slots int
		ended bool
	}{{"its own", 1, true}, {"control: shared", 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bags := engine.Work{Life: bag, Prefix: "bag", Slots: c.slots, Steps: map[lc.State]engine.Step{
					"Packed": func(context.Context, *engine.Run) error { return nil },
					"Open":   func(context.Context, *engine.Run) error { return nil },
				}}
				w := start(t, mem.New(), engine.Options{Slots: 1},
					letters(map[lc.State]engine.Step{"Posted": takes(time.Hour)}), bags)
				defer w.stop()
				w.post(engine.Order{})
				synctest.Wait()
				first, second := w.post(engine.Order{Kind: "test.bag"}), w.post(engine.Order{Kind: "test.bag"})
				time.Sleep(time.Minute)
				if a, b := w.get(first.ID), w.get(second.ID); a.Ended != c.ended || b.Ended != c.ended {
					t.Errorf("got %s and %s", a.State, b.State)
				}
				x, err := w.why(t.Context(), w.post(engine.Order{}).ID, time.Time{})
				if err != nil || len(x.Blockers) != 1 || x.Blockers[0].Code != explain.BlockBusy {
					t.Errorf("a second letter: %+v, %v", x.Blockers, err)
				}
			})
		})
	}
}

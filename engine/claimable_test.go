package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestLimitReleased: a job that a limit blocks begins when another one leaves what the limit counts, and not only after
// the next sweep, which does not come during the test. The control is the same work without the limit.
func TestLimitReleased(t *testing.T) {
	all := job.Limit{Name: "one", Kind: "test.letter", Max: 1}
	guarding := func(l job.Limit, states ...lc.State) job.Limit { l.Guard = states; return l }
	occupying := job.Limit{Name: "one", Kind: "test.letter", Max: 1, Guard: []lc.State{"Posted"},
		Occupy: []lc.State{"Sorting", "Riding"}}
	perOwner := all
	perOwner.PerOwner = true
	minute := takes(time.Minute)
	steps := map[lc.State]engine.Step{"Sorting": minute, "Riding": minute}
	waits := map[lc.State]engine.Step{"Posted": func(_ context.Context, r *engine.Run) error {
		if r.Job().Attempts == 0 {
			return engine.RetryAfter(time.Hour/2, errBroken) // without a claim meanwhile
		}
		return nil
	}}
	for _, c := range []struct {
		name  string
		limit job.Limit
		steps map[lc.State]engine.Step
		slots int // of the kind; 0: it shares
		want  time.Duration
		free  time.Duration // without the limit
	}{
		{"all states", all, steps, 0, 6 * time.Minute, 2 * time.Minute},
		{"all states, own slots", all, steps, 4, 6 * time.Minute, 2 * time.Minute},
		{"of an owner", perOwner, steps, 0, 6 * time.Minute, 2 * time.Minute},
		{"one state", guarding(all, "Sorting"), steps, 0, 4 * time.Minute, 2 * time.Minute},
		{"the last state", guarding(all, "Riding"), steps, 0, 4 * time.Minute, 2 * time.Minute},
		{"occupied states", occupying, steps, 0, 6 * time.Minute, 2 * time.Minute},
		{"a claimed job", guarding(all, "Posted"), waits, 0, time.Hour / 2, time.Hour / 2},
	} {
		for _, limited := range []bool{true, false} {
			for _, elsewhere := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, limited %t, elsewhere %t", c.name, limited, elsewhere), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						work, store := letters(c.steps), mem.New()
						work.Slots = c.slots
						want := c.free
						if limited {
							work.Limits, want = []job.Limit{c.limit}, c.want
						}
						o := engine.Options{Name: "one", Slots: 4, Sweep: 12 * time.Hour, Lease: 48 * time.Hour}
						w := start(t, store, o, work)
						defer w.stop()
						if elsewhere {
							o.Name = "two"
							defer start(t, store, o, work).stop()
						}
						synctest.Wait()
						began := time.Now()
						var ids []job.ID
						for range 3 {
							ids = append(ids, w.post(engine.Order{Owner: "ann"}).ID)
						}
						for _, id := range ids {
							w.end(id)
						}
						if took := time.Since(began); took != want {
							t.Errorf("all three ended after %s, want %s", took, want)
						}
					})
				})
			}
		}
	}
}

// asked counts the slots for which claims ask, the grants of creations, and the searches for suspects.
type asked struct {
	job.Store
	claims, slots, granted, peeks atomic.Int64
	before, after                 func() // of each claim; after each commit
}

func (s *asked) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	s.claims.Add(1)
	s.slots.Add(int64(c.N))
	if s.before != nil {
		s.before()
	}
	return s.Store.Claim(ctx, c)
}

func (s *asked) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	s.peeks.Add(1)
	return s.Store.Peek(ctx, c, id)
}

func (s *asked) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	made, err := s.Store.Create(ctx, jobs...)
	for i := range made {
		if made[i].Claimed() {
			s.granted.Add(1)
		}
	}
	return made, err
}

func (s *asked) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	results, err := s.Store.Commit(ctx, changes...)
	if s.after != nil {
		s.after()
	}
	return results, err
}

// TestCompleteAgain: a caller that submits the next job when one has ended finds the slot free, although the store
// reports the end before it answers the step's commit. So each job begins in the commit that creates it, without a
// claim of the dispatcher. The control has no slot.
func TestCompleteAgain(t *testing.T) {
	for _, slots := range []int{1, 0} {
		synctest.Test(t, func(t *testing.T) {
			s := &asked{Store: mem.New(), after: func() { time.Sleep(time.Millisecond) }}
			work := letters(nil)
			work.Slots = 1 - slots // with slots of its own, a kind has none of those that new jobs take
			w := start(t, s, engine.Options{Slots: 1, Sweep: time.Hour}, work)
			defer w.stop()
			synctest.Wait()
			const n = 10
			before := s.claims.Load()
			for range n {
				if _, err := w.Complete(t.Context(), engine.Order{Kind: "test.letter"}); err != nil {
					t.Fatal(err)
				}
			}
			got, claims := s.granted.Load(), s.claims.Load()-before
			if got != int64(n*slots) || slots == 1 && claims != 0 {
				t.Errorf("%d slots: %d of %d jobs began when they were created, %d claims", slots, got, n, claims)
			}
		})
	}
}

// TestClaimTakesSlotsForWaitingJobs: a claim takes as many slots as jobs wait, and leaves the others to new jobs. The
// first claim takes all: how many jobs wait is not known.
func TestClaimTakesSlotsForWaitingJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &asked{Store: mem.New()}
		w := start(t, s, engine.Options{Slots: 4, Sweep: time.Hour}, letters(map[lc.State]engine.Step{
			"Riding": takes(time.Minute)}))
		defer w.stop()
		synctest.Wait()
		if got := s.slots.Load(); got != 4 {
			t.Errorf("control: the first claim asks for %d jobs, want 4", got)
		}
		s.before = func() { time.Sleep(time.Second) }
		// an order with a time of its own waits for a claim
		old := w.post(engine.Order{Created: time.Now().Add(-time.Hour)})
		synctest.Wait() // the dispatcher claims it
		for range 3 {
			w.post(engine.Order{})
		}
		if got, slots := s.granted.Load(), s.slots.Load()-4; got != 0 || slots != 1 {
			t.Errorf("%d jobs overtook the one that waits, and the claim asks for %d, want 0 and 1", got, slots)
		}
		w.end(old.ID)
		settle(t, s)
		s.before = nil
		for range 4 {
			w.post(engine.Order{})
		}
		if got := s.granted.Load(); got != 4 {
			t.Errorf("%d of 4 jobs began when they were created", got)
		}
	})
}

// TestLimitOfWorkersElsewhere: a job that a limit does not count any more causes no claim if only workers elsewhere
// work on its kind. The control is a kind that this engine works on.
func TestLimitOfWorkersElsewhere(t *testing.T) {
	for _, outside := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &asked{Store: mem.New()}
			work := letters(nil)
			work.Limits = []job.Limit{{Name: "one", Kind: "test.letter", Max: 1}}
			if work.Outside = outside; outside {
				work.Steps = nil
			}
			w := start(t, s, engine.Options{Slots: 4, Sweep: time.Hour}, work)
			defer w.stop()
			j := w.post(engine.Order{Due: time.Now().Add(time.Minute)})
			synctest.Wait()
			before := s.claims.Load()
			c := job.Change{Job: j.ID, Version: j.Version, At: time.Now()}
			if _, err := s.Store.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := s.claims.Load() - before; (n == 0) != outside {
				t.Errorf("outside %t: %d claims after a hint of a job without a claim", outside, n)
			}
		})
	}
}

// TestSuspectsAreSearchedWhenThereIsOne: changes of jobs that are no suspects cause no search for suspects. The control
// is a job that becomes one.
func TestSuspectsAreSearchedWhenThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &asked{Store: mem.New()}
		w := start(t, s, engine.Options{Slots: 4, Sweep: time.Hour}, letters(map[lc.State]engine.Step{
			"Sorting": func(_ context.Context, r *engine.Run) error {
				if r.Job().Attempts == 0 {
					return engine.RetryAfter(time.Second, errBroken)
				}
				return nil
			}}))
		defer w.stop()
		synctest.Wait()
		before := s.peeks.Load()
		for range 5 {
			w.post(engine.Order{Created: time.Now().Add(-time.Hour)})
		}
		synctest.Wait()
		if n := s.peeks.Load() - before; n != 0 {
			t.Errorf("%d searches for suspects after 5 jobs", n)
		}
		suspect, created := job.New(job.Job{ID: "let_suspect", Kind: "test.letter", Definition: letter.Hash(),
			Position: letter.Start(), Starts: job.SuspectStarts}, lc.Operator, "olga", time.Now())
		if _, err := s.Store.Create(t.Context(), job.Created{Job: suspect, Event: created}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := s.peeks.Load() - before; n == 0 {
			t.Error("control: no search after a job became a suspect")
		}
	})
}

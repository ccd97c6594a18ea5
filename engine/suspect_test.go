package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// killer is a machine on which steps of the group "poison" end the process and others take their time. It records which
// jobs ran together.
type killer struct {
	mu      sync.Mutex // guards the rest
	after   time.Duration
	running map[job.ID]bool
	beside  int           // suspects that were begun beside others
	ended   chan struct{} // the process is to end now
}

func (k *killer) step(ctx context.Context, r *engine.Run) error {
	j := r.Job()
	k.mu.Lock()
	if j.Starts > job.SuspectStarts && len(k.running) > 0 { // this claim counts already
		k.beside++
	}
	k.running[j.ID] = true
	ended := k.ended
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.running, j.ID)
		k.mu.Unlock()
	}()
	took := 3 * time.Second
	if j.Group == "poison" {
		took = k.after
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return ctx.Err()
	}
	if j.Group == "poison" {
		select {
		case ended <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// crashes runs one engine after another on the store, each until a poisoned job ends it, until no job is open.
func (k *killer) crashes(t *testing.T, store job.Store, works func() engine.Work) (n int) {
	open := false
	for n < 60 {
		k.mu.Lock()
		k.running, k.ended = map[job.ID]bool{}, make(chan struct{}, 1)
		ended := k.ended
		k.mu.Unlock()
		m := startKillable(t, store, engine.Options{Name: "server", Slots: 8}, works())
		idle := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			defer close(idle)
			for ctx.Err() == nil {
				page, err := store.List(ctx, job.Query{Ended: &open, Limit: 1})
				if err != nil || len(page.Jobs) == 0 {
					return
				}
				<-time.After(time.Minute)
			}
		}()
		select {
		case <-ended:
			n++
			m.kill()
			stop()
			<-idle
		case <-idle:
			stop()
			m.stop()
			return n
		}
	}
	return n
}

// TestPoisonBlamesNoNeighbor checks that of jobs that run together only those that crash their workers are blamed,
// however often that happens.
func TestPoisonBlamesNoNeighbor(t *testing.T) {
	for _, c := range []struct {
		name    string
		poisons int
		after   time.Duration
		others  int
		most    int // starts
	}{
		{"control: nothing ends its worker", 0, 0, 12, 0},
		{"one", 1, time.Second, 12, 0}, {"at once", 1, 0, 12, 0}, {"three", 3, time.Second, 12,
			0}, {"one that takes a minute", 1, time.Minute, 5, 0},
		{"alone", 1, time.Second, 0, 0}, {"one start", 1, time.Second, 12, 1}, {"two starts", 2, time.Second, 12, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := mem.New()
				k := &killer{after: c.after}
				works := func() engine.Work {
					w := letters(map[lc.State]engine.Step{"Posted": k.step, "Sorting": k.step, "Riding": k.step})
					w.Policy.MaxStarts = c.most
					return w
				}
				sender := start(t, &tap{Store: store}, engine.Options{Name: "sender"}, works())
				sender.stop()
				for i := range c.others {
					sender.post(engine.Order{Owner: fmt.Sprint("owner", i%3), Priority: new(i % 2)})
				}
				for range c.poisons {
					sender.post(engine.Order{Group: "poison"})
				}
				n := k.crashes(t, store, works)
				page, err := store.List(t.Context(), job.Query{Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range page.Jobs {
					poison := j.Group == "poison"
					if want := map[bool]lc.State{true: "Lost", false: "Delivered"}[poison]; j.State != want ||
						poison && j.Cause != cause.Poison {
						t.Errorf("%s %q is %s (%s %s) after %d crashes, want %s", j.ID, j.Group, j.State, j.Cause,
							j.Message, n, want)
					}
					sender.verify(j.ID)
				}
				if k.beside > 0 {
					t.Errorf("%d suspects were begun beside others", k.beside)
				}
				if n > 14*c.poisons {
					t.Errorf("%d crashes until %d were found", n, c.poisons)
				}
			})
		})
	}
}

// TestSuspectDoesNotStopABusyServer checks that a suspect does not keep other jobs from beginning for long where steps
// take hours.
func TestSuspectDoesNotStopABusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		work := letters(map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
			if r.Job().Group == "slow" {
				return blocked(ctx, r)
			}
			return nil
		}})
		w := start(t, store, engine.Options{}, work)
		defer w.stop()
		w.post(engine.Order{Group: "slow"})
		suspect := w.post(engine.Order{Due: w.Clock().Now().Add(time.Minute)})
		two := 2
		if _, err := store.Commit(t.Context(), job.Change{Job: suspect.ID, Version: suspect.Version,
			At: w.Clock().Now(), Set: job.Fields{Starts: &two}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * time.Second)
		late := w.post(engine.Order{})
		why, err := w.why(t.Context(), late.ID, time.Time{})
		if err != nil || !slices.ContainsFunc(why.Blockers,
			func(b job.Blocker) bool { return b.Code == explain.BlockAlone }) {
			t.Errorf("got %+v, %v", why.Blockers, err)
		}
		time.Sleep(time.Minute)
		for _, id := range []job.ID{late.ID, suspect.ID} {
			if j := w.get(id); j.State != "Delivered" {
				t.Errorf("%s is %s", id, j.State)
			}
		}
	})
}

// TestSuspectsOutside checks that a remote worker gets a suspect alone, when there is no other job.
func TestSuspectsOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		w := outside(t, store)
		var all []job.Job
		for range 4 {
			all = append(all, w.post(engine.Order{}))
		}
		two := 2
		for _, j := range all[:2] {
			if _, err := store.Commit(t.Context(), job.Change{Job: j.ID, Version: j.Version, At: w.Clock().Now(),
				Set: job.Fields{Starts: &two}}); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []int{2, 1, 1, 0} {
			if got := w.acquire("w", 4); len(got) != want || want == 1 && got[0].ID != all[i-1].ID {
				t.Errorf("claim %d gave %d jobs, want %d", i, len(got), want)
			}
		}
	})
}

// TestNeighborBehindManyOthers: a worker that is lost with two jobs is blamed on neither, although the workers whose
// names begin with its name have more claims than a page of the store. The control has one job, which is blamed.
func TestNeighborBehindManyOthers(t *testing.T) {
	for n, want := range map[int]lc.State{1: "Lost", 2: "Posted"} {
		synctest.Test(t, func(t *testing.T) {
			work := remoteLetters()
			work.Policy.MaxStarts = 1
			w := start(t, mem.New(), engine.Options{}, work)
			defer w.stop()
			for range n {
				w.post(engine.Order{})
			}
			lost := w.acquire("w1", n)
			const others = 1001
			for range others {
				w.post(engine.Order{})
			}
			for has := 0; has < others; {
				got, err := w.Remote().Claim(t.Context(), remote.Claim{Worker: "w10", From: everywhere, N: others,
					Lease: time.Hour})
				if err != nil || len(got) == 0 {
					t.Fatal(got, err)
				}
				has += len(got)
			}
			time.Sleep(2 * time.Minute)
			for _, j := range lost {
				if now := w.get(j.ID); now.State != want || now.Claimed() {
					t.Errorf("one of %d is %s (%s), want %s", n, now.State, now.Message, want)
				}
			}
		})
	}
}

package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestChainGoesStraightOn checks that a job goes through all its states under the claim of the engine that created it,
// without another claim.
func TestChainGoesStraightOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		serial bool
		claims int64
	}{{"chained", false, 0}, {"control: serial", true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var claims atomic.Int64
				work := letters(nil)
				work.Policy.Serial = c.serial
				store := &grants{Store: mem.New(), n: &claims}
				w := start(t, store, engine.Options{Slots: 1}, work)
				defer w.stop()
				j := w.end(w.post(engine.Order{}).ID)
				if n := claims.Load(); n != c.claims || j.Epoch != 3 {
					t.Errorf("claims gave %d jobs, epoch %d; want %d, 3", n, j.Epoch, c.claims)
				}
			})
		})
	}
}

// grants counts the jobs that claims returned.
type grants struct {
	job.Store
	n *atomic.Int64
}

func (g *grants) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	jobs, err := g.Store.Claim(ctx, c)
	g.n.Add(int64(len(jobs)))
	return jobs, err
}

// TestChainDoesNotOvertake checks that a job leaves its worker where a job of better priority waits for the next state.
func TestChainDoesNotOvertake(t *testing.T) {
	for _, c := range []struct {
		name     string
		priority int
		want     string
	}{{"better", 10, "[first first second]"}, {"control: worse", 90, "[first second first]"}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order []string
				broken := true
				w := start(t, mem.New(), engine.Options{Slots: 1}, letters(map[lc.State]engine.Step{
					"Posted": takes(time.Minute),
					"Sorting": func(_ context.Context, r *engine.Run) error {
						order = append(order, r.Job().Group)
						if broken {
							return engine.Fail("address", errBroken)
						}
						return nil
					},
				}))
				defer w.stop()
				first := w.end(w.post(engine.Order{Priority: new(c.priority), Group: "first"}).ID)
				broken = false
				w.post(engine.Order{Group: "second"})
				synctest.Wait() // it is in Posted, and has the only slot
				if _, err := w.Do(t.Context(), operator.Act{Job: first.ID, Event: "retry",
					By: lc.Owner, Actor: "ann"}); err != nil {
					t.Fatal(err)
				}
				settle(t, w.store)
				if got := fmt.Sprint(order); got != c.want {
					t.Errorf("Sorting saw %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestHoldStopsTheChain checks that a held job finishes the state that it is in, and does not enter the next one. A
// held job does not leave its queue at all.
func TestHoldStopsTheChain(t *testing.T) {
	for _, c := range []struct {
		name  string
		scope job.Scope
		state lc.State
	}{
		{"group", job.Scope{Group: "maps"}, "Posted"},
		{"state", job.Scope{State: "Sorting"}, "Sorting"},
		{"later state", job.Scope{Kind: "test.letter", State: "Riding"}, "Riding"},
		{"everything", job.Scope{}, "Posted"},
		{"control: another group", job.Scope{Group: "books"}, "Delivered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := letters(map[lc.State]engine.Step{"Posted": takes(time.Minute)})
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				j := w.post(engine.Order{Group: "maps"})
				synctest.Wait()
				if _, err := w.Operator().Hold(t.Context(), c.scope, "ann", "flood", time.Time{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if got := w.get(j.ID); got.State != c.state || got.Claimed() {
					t.Errorf("got %s, claimed %v", got.State, got.Claimed())
				}
				if _, err := w.Operator().Release(t.Context(), c.scope, "ann", "over"); err != nil {
					t.Fatal(err)
				}
				if j = w.end(j.ID); j.Outcome != lc.OK {
					t.Errorf("got %s", j.Outcome)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestLimitStopsTheChain checks that the limit of the next state applies as it does to a claim.
func TestLimitStopsTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(map[lc.State]engine.Step{"Riding": takes(10 * time.Minute)})
		work.Limits = []job.Limit{{Name: "coach", Kind: "test.letter", Guard: []lc.State{"Riding"}, Max: 1}}
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		a, b := w.post(engine.Order{}), w.post(engine.Order{})
		time.Sleep(time.Minute)
		first, second := w.get(a.ID), w.get(b.ID)
		if first.Claimed() == second.Claimed() || first.State != "Riding" || second.State != "Riding" {
			t.Errorf("got %s (%s), %s (%s); want one of them at work in Riding", first.State, first.Worker,
				second.State, second.Worker)
		}
		settle(t, w.store)
	})
}

package engine_test

import (
	"sync"
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

// patient is a work whose jobs stay in a state for the time in their group, or for the policy's hour.
func patient(step engine.Step, s lc.State) engine.Work {
	work := letters(map[lc.State]engine.Step{s: step})
	work.Policies = map[lc.State]engine.Policy{s: {Timeout: time.Hour}}
	work.Patience = func(j *job.Job, to lc.State) time.Duration {
		d, err := time.ParseDuration(j.Group)
		if to != s || err != nil {
			return 0
		}
		return d
	}
	return work
}

// TestPatience checks that jobs of one kind have times of their own in a state, whether it is the first state or a
// later one. A job without one has the policy's. The deadline may be earlier.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		name     string
		patience string
		deadline time.Duration
		blind    bool // the work has no Patience
		took     time.Duration
	}{
		{"less than the policy's", "10m", 0, false, 10 * time.Minute},
		{"more than the policy's", "5h", 0, false, 5 * time.Hour},
		{"zero: the policy's", "0s", 0, false, time.Hour},
		{"negative: the policy's", "-5m", 0, false, time.Hour},
		{"none named: the policy's", "", 0, false, time.Hour},
		{"the deadline is earlier", "5h", 20 * time.Minute, false, 20 * time.Minute},
		{"the deadline is later", "10m", 20 * time.Minute, false, 10 * time.Minute},
		{"control: without the hook", "10m", 0, true, time.Hour},
	} {
		for _, s := range []lc.State{"Posted", "Sorting"} {
			t.Run(c.name+", "+string(s), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					work := patient(takes(9*time.Hour), s)
					if c.blind {
						work.Patience = nil
					}
					w := start(t, mem.New(), engine.Options{}, work)
					defer w.stop()
					o, began := engine.Order{Group: c.patience}, time.Now()
					if c.deadline != 0 {
						o.Deadline = began.Add(c.deadline)
					}
					j := w.end(w.post(o).ID)
					if took := time.Since(began); took < c.took || took > c.took+time.Second || j.State != "Lost" ||
						j.Origin != s {
						t.Errorf("got %s from %s after %s, want Lost from %s after %s", j.State, j.Origin, took, s,
							c.took)
					}
					w.verify(j.ID)
				})
			})
		}
	}
}

// TestPatienceOfMany checks jobs with different times in one state: each ends at its own time, and the one with a long
// time is worked on.
func TestPatienceOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{Slots: 8}, patient(takes(3*time.Hour), "Sorting"))
		defer w.stop()
		began := time.Now()
		want := map[job.ID]time.Duration{}
		for group, d := range map[string]time.Duration{"5m": 5 * time.Minute, "20m": 20 * time.Minute, "": time.Hour,
			"2h": 2 * time.Hour} {
			want[w.post(engine.Order{Group: group}).ID] = d
		}
		long := w.post(engine.Order{Group: "4h"})
		synctest.Wait()
		for id, d := range want {
			if j := w.get(id); j.State != "Sorting" || !j.Expires.Equal(began.Add(d)) {
				t.Errorf("%q: it is %s until %s, want until %s", j.Group, j.State, j.Expires, began.Add(d))
			}
		}
		if j := w.end(long.ID); j.State != "Delivered" || time.Since(began) < 3*time.Hour ||
			time.Since(began) > 3*time.Hour+time.Second {
			t.Errorf("the patient one: %s (%s) after %s", j.State, j.Message, time.Since(began))
		}
		for id, d := range want {
			if j := w.end(id); j.State != "Lost" || j.Entered.Before(began.Add(d)) ||
				j.Entered.After(began.Add(d+time.Second)) {
				t.Errorf("%q: %s after %s, want Lost after %s", j.Group, j.State, j.Entered.Sub(began), d)
			}
		}
	})
}

// TestPatienceOfAChainedClaim checks that a job that enters the state under the same claim has its own time there.
func TestPatienceOfAChainedClaim(t *testing.T) {
	for _, c := range []struct {
		name   string
		serial bool
		claims int64
	}{{"chained", false, 0}, {"control: claimed", true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var claims atomic.Int64
				work := patient(takes(9*time.Hour), "Sorting")
				work.Policies["Sorting"] = engine.Policy{Timeout: time.Hour, Serial: c.serial}
				w := start(t, &grants{Store: mem.New(), n: &claims}, engine.Options{}, work)
				defer w.stop()
				began := time.Now()
				j := w.end(w.post(engine.Order{Group: "10m"}).ID)
				if took := time.Since(began); took < 10*time.Minute || took > 10*time.Minute+time.Second ||
					j.Origin != "Sorting" {
					t.Errorf("got %s from %s after %s", j.State, j.Origin, took)
				}
				if n := claims.Load(); n != c.claims {
					t.Errorf("claims gave %d jobs, want %d", n, c.claims)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestPatienceSeesTheRecordBefore checks that Patience is called for each state that a job enters, with the record
// before, also by a retry after the deadline.
func TestPatienceSeesTheRecordBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type question struct{ in, to lc.State }
		var mu sync.Mutex
		seen := map[question]bool{}
		work := patient(takes(9*time.Hour), "Sorting")
		answer := work.Patience
		// at the deadline the sweep and the step call it concurrently
		work.Patience = func(j *job.Job, to lc.State) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			seen[question{j.State, to}] = true
			return answer(j, to)
		}
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		j := w.end(w.post(engine.Order{Group: "3h", Deadline: time.Now().Add(2 * time.Hour)}).ID)
		if j.Origin != "Sorting" || time.Now().Before(j.Deadline) {
			t.Fatalf("got %s from %s, deadline %s", j.State, j.Origin, j.Deadline)
		}
		mu.Lock()
		for _, q := range []question{{"Posted", "Posted"}, {"Posted", "Sorting"}, {"Sorting", "Lost"}} {
			if !seen[q] {
				t.Errorf("Patience was not called for a job in %s that enters %s: %v", q.in, q.to, seen)
			}
		}
		mu.Unlock()
		j, err := w.Do(t.Context(), operator.Act{Job: j.ID, Event: "retry", By: lc.Operator, Actor: "ann"})
		if err != nil || j.State != "Sorting" || !j.Deadline.IsZero() || !j.Expires.Equal(time.Now().Add(3*time.Hour)) {
			t.Errorf("got %s until %s, deadline %s, %v", j.State, j.Expires, j.Deadline, err)
		}
	})
}

// TestPatienceWhereNoTimerMoves checks that a state that no timer leaves has no timeout, whatever Patience returns.
func TestPatienceWhereNoTimerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := letters(nil)
		work.Patience = func(*job.Job, lc.State) time.Duration { return time.Minute }
		w := start(t, mem.New(), engine.Options{}, work)
		defer w.stop()
		if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ann", "flood", time.Time{}); err != nil {
			t.Fatal(err)
		}
		held, waits := w.post(engine.Order{}), w.post(engine.Order{})
		if _, err := w.Do(t.Context(), operator.Act{Job: held.ID, Event: "hold",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if j := w.end(waits.ID); j.State != "Lost" { // the control
			t.Errorf("got %s", j.State)
		}
		time.Sleep(time.Hour)
		if j := w.get(held.ID); j.State != "Held" || !j.Expires.IsZero() {
			t.Errorf("got %s until %s", j.State, j.Expires)
		}
	})
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// trek is a lifecycle that one long step walks through under one claim: it starts, pauses at a person's request, rests,
// and continues after a crash.
var trek = lc.Must("test.trek",
	lc.OnQueue("Camp", "a group waits; a guide claims it",
		lc.OnPass("go", "Walking", lc.Worker, "the guide is there"),
		lc.OnFail("fall", "Fallen", lc.Worker|lc.Timer, "no guide came")),
	lc.OnWork("Walking", "the guide leads the way",
		lc.OnPass("arrive", "Home", lc.Worker, "it is reached"),
		lc.OnPass("detour", "Pausing", lc.Worker, "a longer way").Within("the map"),
		lc.OnFail("fall", "Fallen", lc.Worker|lc.Timer, "it goes wrong"),
		lc.OnFail("stop", "Fallen", lc.Operator, "an operator ends it"),
		lc.On("pause", "Pausing", lc.Operator|lc.Owner, "somebody is tired").Asks(),
		lc.On("load", "Loading", lc.Worker, "its guide is new").Within("max_starts")),
	lc.OnWork("Pausing", "the guide selects a camp",
		lc.OnPass("arrive", "Home", lc.Worker, "it was reached meanwhile"),
		lc.OnPass("rest", "Resting", lc.Worker, "the camp is selected"),
		lc.OnFail("fall", "Fallen", lc.Worker|lc.Timer, "it goes wrong"),
		lc.On("load", "Loading", lc.Worker, "its guide is new").Within("max_starts")),
	lc.OnWait("Resting", "the guide brought it here; somebody wakes it",
		lc.OnPass("go", "Walking", lc.Worker|lc.Operator|lc.Owner, "they are rested"),
		lc.On("reset", "Camp", lc.Operator|lc.Owner, "all over again").Restarts()),
	lc.OnWork("Loading", "a new guide reads the map",
		lc.OnPass("rest", "Resting", lc.Worker, "it is read")).Enduring("the map can be read again and again"),
	lc.OnEnd("Home", lc.OK, "it is reached",
		lc.On("reset", "Camp", lc.Operator|lc.Owner, "all over again").Restarts()).Again(),
	lc.OnEnd("Fallen", lc.Failed, "it went wrong"),
)

// treks is the work with one step for all its states, including the waiting one.
func treks(step engine.Step) engine.Work {
	steps := map[lc.State]engine.Step{}
	for _, s := range []lc.State{"Camp", "Walking", "Pausing", "Resting", "Loading"} {
		steps[s] = step
	}
	return engine.Work{Life: trek, Prefix: "tre", Steps: steps}
}

var aTrek = engine.Order{Kind: "test.trek"}

// mustMove causes events, each of which must be legal.
func mustMove(ctx context.Context, r *engine.Run, events ...lc.Event) error {
	for _, e := range events {
		if err := r.Move(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func TestMoveWalksUnderOneClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		var illegal, after error
		m := &counts{}
		work := treks(func(ctx context.Context, r *engine.Run) error {
			look := func() { seen = append(seen, fmt.Sprint(r.Job().State, r.Job().Epoch, r.Job().Worker != "")) }
			look()
			r.PutTask(job.Task{Name: "boots", Kind: "test", State: "On"})
			if err := errors.Join(r.SetData("north"), r.Send("mail", r.Key(), "off")); err != nil {
				return err
			}
			illegal = r.Move(ctx, "rest")
			if err := r.Move(ctx, "go"); err != nil {
				return err
			}
			look()
			time.Sleep(time.Minute)
			if err := mustMove(ctx, r, "load", "rest", "go"); err != nil {
				return err
			}
			look()
			r.SetMessage("all well")
			r.SetCause("luck")
			if err := r.Move(ctx, "arrive"); err != nil {
				return err
			}
			look()
			after = r.Move(ctx, "reset")
			return errBroken // it has ended: no one listens
		})
		work.Announce = announcing(nil).Announce
		o := (&postbox{}).options()
		o.Meter = m
		w := start(t, mem.New(), o, work)
		defer w.stop()
		j := w.end(w.post(aTrek).ID)
		synctest.Wait()
		want := []string{"Camp1 true", "Walking1 true", "Walking1 true", "Home1 false"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
		if j.State != "Home" || j.Outcome != lc.OK || j.Epoch != 1 || j.Claimed() || j.Starts != 0 ||
			j.Message != "all well" || j.Cause != "luck" || string(j.Data) != `"north"` {
			t.Errorf("got %+v", j)
		}
		if diff := cmp.Diff([]lc.Event{"create", "go", "load", "rest", "go", "arrive"}, w.events(j.ID)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if job.KindOf(illegal) != job.Refused || job.KindOf(after) != job.Stale {
			t.Errorf("got %v and %v", illegal, after)
		}
		tasks, err := w.store.Tasks(t.Context(), j.ID)
		if err != nil || len(tasks) != 1 || tasks[0].Epoch != 1 || len(w.messages(j.ID)) != 6 {
			t.Errorf("%v, %v, %d messages", tasks, err, len(w.messages(j.ID)))
		}
		if m.attempts != 5 || m.lost != 0 || m.claims != 1 {
			t.Errorf("metered %+v", m)
		}
		if used := w.Status().Running; used != 0 {
			t.Errorf("%d slots are used", used)
		}
		w.verify(j.ID)
	})
}

// counts is a meter that counts.
type counts struct{ claims, attempts, lost int }

func (m *counts) Claimed(meter.Claimed)     { m.claims++ }
func (m *counts) Attempted(a meter.Attempt) { m.attempts++ }
func (m *counts) Lost(meter.Lost)           { m.lost++ }
func (m *counts) Delivered(meter.Delivery)  {}

// TestMoveOfUnknownFate lets each commit of a walk fail, applied or not. Every transition is in the history once, with
// what was set.
func TestMoveOfUnknownFate(t *testing.T) {
	for _, f := range []fate{refused, unheard} {
		for n := 1; n <= 5; n++ {
			synctest.Test(t, func(t *testing.T) {
				m := startKillable(t, mem.New(), engine.Options{},
					treks(func(ctx context.Context, r *engine.Run) error {
						if err := r.Move(ctx, "go"); err != nil {
							return err
						}
						r.PutTask(job.Task{Name: "boots", Kind: "test", State: "On"})
						return mustMove(ctx, r, "detour", "rest", "go", "arrive")
					}))
				defer m.stop()
				hit := false
				m.line.decide(func(op string, nth int) fate {
					if op == "Commit" && nth == n {
						hit = true
						return f
					}
					return answered
				})
				j := m.end(m.post(aTrek).ID)
				if diff := cmp.Diff([]lc.Event{"create", "go", "detour", "rest", "go", "arrive"},
					m.events(j.ID)); diff != "" || !hit {
					t.Errorf("fate %d of commit %d (%t): history (-want +got):\n%s", f, n, hit, diff)
				}
				if tasks, err := m.store.Tasks(t.Context(), j.ID); err != nil || len(tasks) != 1 {
					t.Errorf("%v, %v", tasks, err)
				}
				m.verify(j.ID)
			})
		}
	}
}

// TestMoveWhileTheStoreIsDown checks that the error has the right kind, and that everything that was set is kept.
func TestMoveWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *killable
		var down error
		m = startKillable(t, mem.New(), engine.Options{Lease: time.Hour},
			treks(func(ctx context.Context, r *engine.Run) error {
				if err := r.SetData("north"); err != nil {
					return err
				}
				m.line.decide(func(op string, _ int) fate {
					if op == "Commit" {
						return refused
					}
					return answered
				})
				down = r.Move(ctx, "go")
				m.line.decide(nil)
				return mustMove(ctx, r, "go", "arrive")
			}))
		defer m.stop()
		j := m.end(m.post(aTrek).ID)
		synctest.Wait()
		if j.State != "Home" || string(j.Data) != `"north"` || job.KindOf(down) == job.Stale || down == nil {
			t.Errorf("got %s with %s, %v", j.State, j.Data, down)
		}
	})
}

// TestTimeOfTheStateAfterAMove checks that the timeout of the new state applies, not the rest of the time before.
func TestTimeOfTheStateAfterAMove(t *testing.T) {
	minute := engine.Policy{Timeout: time.Minute}
	for _, c := range []struct {
		name     string
		policies map[lc.State]engine.Policy
		deadline time.Duration
		camp     time.Duration
		walk     time.Duration
		state    lc.State
		after    time.Duration
	}{
		{"each in time", map[lc.State]engine.Policy{"Camp": minute, "Walking": minute}, 0, 40 * time.Second,
			40 * time.Second, "Home", 80 * time.Second},
		{"control: the first takes too long", map[lc.State]engine.Policy{"Camp": minute, "Walking": minute}, 0,
			80 * time.Second, 0, "Fallen", time.Minute},
		{"the second takes too long", map[lc.State]engine.Policy{"Camp": minute, "Walking": minute}, 0,
			40 * time.Second, time.Hour, "Fallen", 100 * time.Second},
		{"only the first has a time", map[lc.State]engine.Policy{"Camp": minute}, 0, 40 * time.Second, time.Hour,
			"Home", time.Hour + 40*time.Second},
		{"only the second has a time", map[lc.State]engine.Policy{"Walking": minute}, 0, time.Hour, time.Hour, "Fallen",
			time.Hour + time.Minute},
		{"the deadline", nil, 10 * time.Minute, 5 * time.Minute, time.Hour, "Fallen", 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends [2]bool
				work := treks(func(ctx context.Context, r *engine.Run) error {
					_, ends[0] = ctx.Deadline()
					if err := takes(c.camp)(ctx, r); err != nil {
						return err
					}
					if err := r.Move(ctx, "go"); err != nil {
						return err
					}
					_, ends[1] = ctx.Deadline()
					if err := takes(c.walk)(ctx, r); err != nil {
						return err
					}
					return r.Move(ctx, "arrive")
				})
				work.Policies = c.policies
				w := start(t, mem.New(), engine.Options{}, work)
				defer w.stop()
				began, o := time.Now(), aTrek
				if c.deadline > 0 {
					o.Deadline = began.Add(c.deadline)
				}
				j := w.end(w.post(o).ID)
				synctest.Wait()
				if took := time.Since(began); j.State != c.state || took < c.after || took > c.after+time.Second {
					t.Errorf("got %s (%s) after %s, want %s after %s", j.State, j.Message, took, c.state, c.after)
				}
				if j.State == "Fallen" && j.Cause != cause.Timeout {
					t.Errorf("got cause %q", j.Cause)
				}
				if ends[0] != (c.policies["Camp"] == minute || c.deadline > 0) || ends[1] && c.deadline == 0 {
					t.Errorf("deadlines of the context: %v", ends)
				}
				w.verify(j.ID)
			})
		})
	}
}

// TestMoveUnderAHold checks that a held job is not begun. The step returns the error, and the job continues after the
// release.
func TestMoveUnderAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *harness
		var kinds []job.ErrorKind
		w = start(t, mem.New(), engine.Options{}, treks(func(ctx context.Context, r *engine.Run) error {
			if len(kinds) == 0 {
				if _, err := w.Operator().Hold(ctx, job.Scope{Kind: "test.trek"}, "ann", "storm",
					time.Time{}); err != nil {
					return err
				}
			}
			err := r.Move(ctx, "go")
			if kinds = append(kinds, job.KindOf(err)); err != nil {
				return err
			}
			return r.Move(ctx, "arrive")
		}))
		defer w.stop()
		id := w.post(aTrek).ID
		time.Sleep(time.Hour)
		if j := w.get(id); j.State != "Camp" || j.Claimed() || j.Cause != cause.Hold || j.Attempts != 0 {
			t.Errorf("got %+v", j)
		}
		if _, err := w.Operator().Release(t.Context(), job.Scope{Kind: "test.trek"}, "ann", "over"); err != nil {
			t.Fatal(err)
		}
		j := w.end(id)
		synctest.Wait()
		if j.State != "Home" || len(kinds) != 2 || kinds[0] != job.Refused {
			t.Errorf("got %s, %v", j.State, kinds)
		}
	})
}

// TestMoveOfALostClaim checks that the step gets Stale after a person took the job away.
func TestMoveOfALostClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		on := make(chan struct{})
		w := start(t, mem.New(), engine.Options{}, treks(func(ctx context.Context, r *engine.Run) error {
			if err := r.Move(ctx, "go"); err != nil {
				return err
			}
			<-on
			got = r.Move(context.WithoutCancel(ctx), "arrive")
			return got
		}))
		defer w.stop()
		id := w.post(aTrek).ID
		w.until(id, func(j *job.Job) bool { return j.State == "Walking" })
		if _, err := w.Do(t.Context(), operator.Act{Job: id, Event: "stop",
			By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		close(on)
		synctest.Wait()
		if j := w.get(id); j.State != "Fallen" || job.KindOf(got) != job.Stale {
			t.Errorf("got %s, %v", j.State, got)
		}
		w.verify(id)
	})
}

package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestCompleteGivesTheEnd checks that Complete returns as soon as the job ends, with success or failure.
func TestCompleteGivesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{Sweep: time.Hour}, letters(map[lc.State]engine.Step{
			"Riding": func(ctx context.Context, r *engine.Run) error {
				if err := takes(time.Minute)(ctx, r); err != nil || r.Job().Group != "bad" {
					return err
				}
				return engine.Fail("axle", errBroken)
			},
		}))
		defer w.stop()
		for _, c := range []struct {
			group string
			want  lc.Outcome
		}{{"good", lc.OK}, {"bad", lc.Failed}} {
			began := time.Now()
			j, err := w.Complete(t.Context(), engine.Order{Kind: "test.letter", Group: c.group})
			if err != nil || j.Outcome != c.want || time.Since(began) != time.Minute {
				t.Errorf("%s: got %s after %s, %v", c.group, j.Outcome, time.Since(began), err)
			}
		}
		if _, err := w.Complete(t.Context(), engine.Order{Kind: "test.none"}); job.KindOf(err) != job.Invalid {
			t.Errorf("no such kind: %v", err)
		}
	})
}

// hinted is a store whose hints a test repeats.
type hinted struct {
	job.Store
	pass chan func([]job.Hint)
}

func (h hinted) Watch(ctx context.Context, f func([]job.Hint)) {
	h.Store.Watch(ctx, f)
	h.pass <- f
}

// TestWaitersAreUsedAgain: hints that are passed on while waiters are freed do not touch the calls that use the memory
// of these next. The race detector finds it if they do.
func TestWaitersAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := hinted{mem.New(), make(chan func([]job.Hint), 1)}
		w := start(t, st, engine.Options{Sweep: time.Hour},
			letters(map[lc.State]engine.Step{"Posted": takes(time.Hour)}))
		defer w.stop()
		j := w.post(engine.Order{})
		pass := <-st.pass
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for range 200 {
					if _, err := w.Await(t.Context(), j.ID, func(*job.Job) bool { return true }); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 2000 {
			pass([]job.Hint{{Job: j.ID, Kind: j.Kind, State: j.State}})
		}
		callers.Wait()
	})
}

// TestCompleteOfAnEarlierSubmission checks that all callers with the same key get the same end, whether the job is
// running or has ended.
func TestCompleteOfAnEarlierSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		w := start(t, mem.New(), engine.Options{Sweep: time.Hour}, letters(map[lc.State]engine.Step{
			"Riding": func(ctx context.Context, r *engine.Run) error { runs++; return takes(time.Minute)(ctx, r) },
		}))
		defer w.stop()
		order := engine.Order{Kind: "test.letter", Key: "k"}
		began := time.Now()
		ids := make([]job.ID, 20)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				j, err := w.Complete(t.Context(), order)
				if err != nil || j.Outcome != lc.OK {
					t.Errorf("got %s, %v", j.Outcome, err)
				}
				ids[i] = j.ID
			})
		}
		all.Wait()
		if took := time.Since(began); took != time.Minute || runs != 1 {
			t.Errorf("took %s and %d runs", took, runs)
		}
		late, err := w.Complete(t.Context(), order)
		if err != nil || time.Since(began) != time.Minute {
			t.Errorf("after its end: %v", err)
		}
		for _, id := range ids {
			if id != late.ID {
				t.Errorf("got %s and %s", id, late.ID)
			}
		}
	})
}

// TestAwaitWithoutRunning checks that an engine that does not run is notified of another engine's changes on the same
// store.
func TestAwaitWithoutRunning(t *testing.T) {
	for _, deafened := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			var line job.Store = store
			if deafened { // hints are lost: it reads the record
				line = silent{store}
			}
			w := start(t, line, engine.Options{Name: "asker"}, letters(nil))
			w.stop()
			worker := start(t, store, engine.Options{Name: "worker"},
				letters(map[lc.State]engine.Step{"Sorting": takes(90*time.Second + time.Millisecond)}))
			defer worker.stop()
			began := time.Now()
			j, err := w.Complete(t.Context(), engine.Order{Kind: "test.letter"})
			took := time.Since(began)
			if err != nil || j.Outcome != lc.OK || took < 90*time.Second || took > 92*time.Second {
				t.Errorf("got %s after %s, %v", j.Outcome, took, err)
			}
			if at := took == 90*time.Second+time.Millisecond; at == deafened {
				t.Errorf("hints lost %v: took %s", deafened, took)
			}
		})
	}
}

// silent is a store that sends no hints.
type silent struct{ job.Store }

func (silent) Watch(context.Context, func([]job.Hint)) {}

// TestLostHintsCostNoMoreThanASweep checks that all jobs end on a store that sends no hints.
func TestLostHintsCostNoMoreThanASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, silent{mem.New()}, engine.Options{}, bagOf(30, "test.letter"), letters(nil))
		defer w.stop()
		began := time.Now()
		j := w.end(w.post(engine.Order{Kind: "test.bag"}).ID)
		if took := time.Since(began); j.Children.OK != 30 || took > 10*time.Second {
			t.Errorf("got %+v after %s", j.Children, took)
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": blocked}))
		defer w.stop()
		j := w.post(engine.Order{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := w.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended }); job.KindOf(err) != job.Unavailable ||
			time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if _, err := w.Await(t.Context(), "let_none",
			func(*job.Job) bool { return true }); job.KindOf(err) != job.NotFound {
			t.Errorf("no such job: %v", err)
		}
		got, err := w.Await(t.Context(), j.ID, func(j *job.Job) bool { return j.State == "Sorting" })
		if err != nil || got.State != "Sorting" {
			t.Errorf("what is true already: %s, %v", got.State, err)
		}
	})
}

// watched counts the watches of a store that have not ended.
type watched struct {
	job.Store
	now, most atomic.Int64
}

func (s *watched) Watch(ctx context.Context, wake func([]job.Hint)) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	context.AfterFunc(ctx, func() { s.now.Add(-1) })
	s.Store.Watch(ctx, wake)
}

// TestCallsShareAWatch: calls that wait before the engine runs share one watch. Each watch is given all hints: with one
// for each call, a thousand calls let each hint be handled a thousand times.
func TestCallsShareAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &watched{Store: mem.New()}
		e, err := engine.New(s, []engine.Work{letters(nil)}, engine.Options{Slots: 4, Sweep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				j, err := e.Complete(t.Context(), engine.Order{Kind: "test.letter"})
				if err != nil || j.Outcome != lc.OK {
					t.Errorf("got %s, %v", j.State, err)
				}
			})
		}
		synctest.Wait()
		if n := s.now.Load(); n != 1 {
			t.Errorf("20 calls have %d watches", n)
		}
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- e.Run(ctx) }()
		all.Wait()
		synctest.Wait()
		if now, most := s.now.Load(), s.most.Load(); now != 1 || most != 2 {
			t.Errorf("%d watches while the engine runs, at most %d; want 1 and 2", now, most)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := s.now.Load(); n != 0 {
			t.Errorf("%d watches afterwards", n)
		}
	})
}

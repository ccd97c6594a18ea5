package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/worker"
)

// TestGoesOn: a job stays with its worker from state to state, with its record as it is then. The controls are a worker
// that takes no job in the next state, and one that takes no job any more.
func TestGoesOn(t *testing.T) {
	sent := job.KindState{Kind: kind, State: "Sent"}
	for _, c := range []struct {
		name    string
		from    []job.KindState
		options worker.Options
		stays   bool
	}{
		{name: "stays", stays: true},
		{name: "control: not in that state", from: []job.KindState{sent}},
		{name: "control: drained", options: worker.Options{DrainAfter: time.Minute}},
	} {
		bubble(t, func(h *harness) {
			var got job.Job
			var ahead time.Duration
			d := &direct{Engine: h.Engine}
			if c.options.DrainAfter > 0 {
				d.cut = func(op string, n int) (bool, bool) {
					if op == "claim" && n == 1 {
						time.Sleep(2 * c.options.DrainAfter) // virtual time
					}
					return false, false
				}
			}
			c.options.Lease = 10 * time.Second
			j := h.submit()
			stop := h.work(d, func(_ context.Context, r *engine.Run) error {
				got, ahead = r.Job(), time.Until(r.Now())
				return nil
			}, c.options, c.from...)
			if c.stays {
				h.end(j.ID)
			} else {
				h.waits(j.ID, "Printing")
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if d.granted != 1 || (got.State == "Printing") != c.stays {
				t.Errorf("%s: %d claims were granted, the step had the job in %q", c.name, d.granted, got.State)
			}
			if c.stays && (got.Epoch != 2 || string(got.Spec) != `{"pages":3}` || ahead != 0 ||
				!got.Until.Equal(j.Created.Add(c.options.Lease))) {
				t.Errorf("%s: the step had %+v, and a clock that is %s ahead", c.name, got, ahead)
			}
		})
	}
}

// TestLostAnswerOfStay: if the answer is lost by which a job stays with its worker, the repetition has it. The control is
// a claim that another process of that name has renewed meanwhile.
func TestLostAnswerOfStay(t *testing.T) {
	for _, other := range []bool{false, true} {
		bubble(t, func(h *harness) {
			j := h.submit()
			d := &direct{Engine: h.Engine, cut: func(op string, n int) (bool, bool) {
				if other && op == "report" && n == 2 {
					lost, err := h.Remote().Renew(h.t.Context(), "w1", []job.Lease{{Job: j.ID, Epoch: 2}}, time.Hour)
					if err != nil || len(lost) > 0 {
						t.Error(lost, err)
					}
				}
				return false, op == "report" && n == 1
			}}
			times := 0
			stop := h.work(d, func(context.Context, *engine.Run) error { times++; return nil },
				worker.Options{Lease: 10 * time.Second, Slots: 1})
			want := 1
			if other {
				time.Sleep(time.Minute)
				want = 0
			} else {
				h.end(j.ID)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if times != want || d.granted != 1 {
				t.Errorf("other=%v: the step ran %d times after %d claims", other, times, d.granted)
			}
		})
	}
}

// TestStopWhileItStays: a job that stays with a worker that has begun to stop returns to its queue. The control is a
// worker that does not stop.
func TestStopWhileItStays(t *testing.T) {
	for _, stops := range []bool{true, false} {
		bubble(t, func(h *harness) {
			stopped := make(chan error, 1)
			var stop func() error
			d := &direct{Engine: h.Engine, cut: func(op string, n int) (bool, bool) {
				if op == "report" && n == 1 && stops {
					go func() { stopped <- stop() }()
					synctest.Wait()
				}
				return false, false
			}}
			stop = h.work(d, func(ctx context.Context, _ *engine.Run) error {
				return ctx.Err()
			}, worker.Options{Lease: 10 * time.Second, Grace: time.Hour})
			j := h.submit()
			want, events := lifecycle.State("Printed"), 0
			if stops {
				want, events = "Printing", 1
				if err := <-stopped; err != nil {
					t.Error(err)
				}
			} else {
				h.end(j.ID)
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
			now, err := h.Store().Get(h.t.Context(), j.ID)
			if err != nil || now.State != want || now.Claimed() || h.events(j.ID)[lifecycle.Yield] != events {
				t.Errorf("stops=%v: it is %s, claimed by %q, %v: %v", stops, now.State, now.Worker, h.events(j.ID), err)
			}
		})
	}
}

// TestManySlots: with many slots several requests with reports are under way. Each job goes through its states once,
// also where answers are lost.
func TestManySlots(t *testing.T) {
	bubble(t, func(h *harness) {
		d := &direct{Engine: h.Engine, cut: func(op string, n int) (bool, bool) {
			return op == "report" && n%5 == 1, op == "report" && n%5 == 3
		}}
		const n = 450
		var times atomic.Int32
		jobs := make([]job.Job, n)
		for i := range jobs {
			jobs[i] = h.submit()
		}
		stop := h.work(d, func(context.Context, *engine.Run) error { times.Add(1); return nil },
			worker.Options{Lease: 10 * time.Minute, Slots: n})
		for _, j := range jobs {
			h.end(j.ID)
			if e := h.events(j.ID); e["begin"] != 1 || e["finish"] != 1 {
				t.Errorf("%s: %v", j.ID, e)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if times.Load() != n || d.granted != n || d.calls["report"] < 10 {
			t.Errorf("%d steps, %d claims, %d requests with reports", times.Load(), d.granted, d.calls["report"])
		}
	})
}

package compute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// faulty is an executor the first calls of one kind of which go wrong.
type faulty struct {
	*fake
	call, how string

	mu   sync.Mutex // guards left
	left int
}

var errReset = errors.New("connection reset")

// do does a call, or what a bad network makes of it.
func (f *faulty) do(ctx context.Context, call string, op func() error) error {
	f.mu.Lock()
	bad := call == f.call && f.left > 0
	if bad {
		f.left--
	}
	f.mu.Unlock()
	if !bad {
		return op()
	}
	switch f.how {
	case "request lost", "error":
		return errReset
	case "answer lost":
		_ = op()
		return errReset
	case "duplicated":
		_ = op()
		return op()
	case "delayed": // it arrives after its sender has timed out
		<-ctx.Done()
		time.AfterFunc(20*time.Millisecond, func() { _ = op() })
		return ctx.Err()
	}
	<-ctx.Done() // hangs
	return ctx.Err()
}

// via is do for a call that returns something. The result of one that is delayed is dropped.
func via[T any](ctx context.Context, f *faulty, call string, op func() (T, error)) (T, error) {
	var mu sync.Mutex
	var got T
	err := f.do(ctx, call, func() error {
		one, err := op()
		mu.Lock()
		defer mu.Unlock()
		got = one
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	return got, err
}

func (f *faulty) Capacity(ctx context.Context) (compute.Capacity, error) {
	return via(ctx, f, "room", func() (compute.Capacity, error) { return f.fake.Capacity(ctx) })
}

func (f *faulty) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	return via(ctx, f, "submit", func() (compute.Notice, error) { return f.fake.Submit(ctx, p) })
}

func (f *faulty) Query(ctx context.Context, h compute.Handle) (compute.Notice, error) {
	return via(ctx, f, "look", func() (compute.Notice, error) { return f.fake.Query(ctx, h) })
}

func (f *faulty) Kill(ctx context.Context, h compute.Handle) error {
	return f.do(ctx, "kill", func() error { return f.fake.Kill(ctx, h) })
}

func (f *faulty) Forget(ctx context.Context, h compute.Handle) error {
	return f.do(ctx, "forget", func() error { return f.fake.Forget(ctx, h) })
}

func (f *faulty) Results(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	return via(ctx, f, "results", func() (io.ReadCloser, error) { return f.fake.Results(ctx, h) })
}

func (f *faulty) Partial(ctx context.Context, h compute.Handle) (io.ReadCloser, error) {
	return via(ctx, f, "partial", func() (io.ReadCloser, error) { return f.fake.Partial(ctx, h) })
}

// Notify is part of compute.Notifier.
func (f *faulty) Notify(ctx context.Context, connected func(), changed func(id job.ID)) error {
	short, stop := context.WithTimeout(ctx, 30*time.Millisecond)
	defer stop()
	return f.do(short, "tell", func() error { return notifier{f.fake}.Notify(ctx, connected, changed) })
}

// drama is what happens to a job while calls go wrong, and how it ends.
type drama struct {
	name string
	end  lifecycle.State
	act  func(w *harness, f *fake, id job.ID)
}

func dramas() []drama {
	await := func(w *harness, f *fake, id job.ID) {
		eventually(w.t, "it is begun", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, p := range f.payloads {
				if p.parcel.Job == id {
					return true
				}
			}
			return false
		})
	}
	return []drama{
		{"ends well", compute.Completed, func(w *harness, f *fake, id job.ID) {
			await(w, f, id)
			f.finish(id, nil)
		}},
		{"fails", compute.Failed, func(w *harness, f *fake, id job.ID) {
			await(w, f, id)
			f.finish(id, &compute.Ending{Exit: 3, Cause: compute.CauseExit})
		}},
		{"is cancelled", compute.Killed, func(w *harness, f *fake, id job.ID) {
			await(w, f, id)
			eventually(w.t, "it can be cancelled", func() bool { // it is refused while it is Unknown
				_, err := w.app.Cancel(w.t.Context(), id, compute.Request{By: lifecycle.Owner})
				return err == nil
			})
		}},
	}
}

// TestFaultAtEveryCall: whatever goes wrong with any call of an executor, for a while, in whatever state, the job comes
// to the end that it had there, and was begun once.
func TestFaultAtEveryCall(t *testing.T) {
	for _, call := range []string{"submit", "look", "results", "partial", "kill", "forget", "room", "tell"} {
		for _, how := range []string{"request lost", "answer lost", "duplicated", "delayed", "error", "hangs"} {
			for _, d := range dramas() {
				runInBubble(t, fmt.Sprintf("%s/%s/%s", call, how, strings.ReplaceAll(d.name, " ", "-")),
					func(t *testing.T) {
						f := newFake()
						f.auto = false
						o := quick(t)
						o.Answer, o.Stall, o.Recheck, o.Poll = 40*time.Millisecond, 40*time.Millisecond, 20*
							time.Millisecond, 4*time.Millisecond
						o.RetryFor = time.Minute // an agent that comes back takes it at once
						w := newHarness(t, o,
							map[string]compute.Executor{"a1": &faulty{fake: f, call: call, how: how,
								left: times(call)}})
						j := w.upload("ada", hello)
						d.act(w, f, j.ID)
						got := w.until(j.ID, compute.Completed, compute.Failed, compute.Killed, compute.Invalid)
						if got.State != d.end {
							t.Errorf("it ended as %s by %s: %s; want %s", got.State, got.Cause, got.Message, d.end)
						}
						synctest.Wait() // whatever its last step did is done
						f.mu.Lock()
						defer f.mu.Unlock()
						if len(f.runs) != 1 || f.runs[key(compute.Ticket{Job: j.ID, Attempt: 1})] != 1 {
							t.Errorf("it was begun as %v", f.runs)
						}
						if a := w.app.Agents()[0]; a.Reserved != 0 || w.app.Calls("a1") != 0 {
							t.Errorf("%d reserved and %d calls are left", a.Reserved, w.app.Calls("a1"))
						}
					})
			}
		}
	}
}

// times is how often a call goes wrong: an agent that does not report its capacity is asked again after longer and
// longer pauses.
func times(call string) int {
	if call == "room" {
		return 1
	}
	return 2
}

// TestHungAgentHarmsItselfOnly: an agent that takes every question and answers none keeps no other's jobs waiting (W2).
func TestHungAgentHarmsItselfOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		hung, well := newFake(), newFake()
		hung.auto, hung.slots, well.slots = false, 50, 50
		o := quick(t)
		o.Slots, o.Answer, o.Recheck = 16, time.Minute, time.Millisecond
		o.Services = []compute.Service{{Name: "example", RunsPerUser: 100, MaxRuns: 200, Agents: []string{"well"}},
			{Name: "hung", RunsPerUser: 100, MaxRuns: 200, Agents: []string{"hung"}}}
		w := newHarness(t, o,
			map[string]compute.Executor{"hung": &faulty{fake: hung, call: "look", how: "hangs", left: 1 << 30},
				"well": well})
		for range 30 {
			if _, err := w.order(compute.Order{Owner: "bob", Service: "hung"},
				map[string]string{compute.Script: hello}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "steps wait for the agent that hangs", func() bool { return w.app.Calls("hung") >= 4 })
		for range 20 {
			w.until(w.upload("ada", hello).ID, compute.Completed)
		}
		if n := w.app.Calls("hung"); n != 4 {
			t.Errorf("%d steps wait for the agent that hangs, want 4: the control that all 16 would", n)
		}
	})
}

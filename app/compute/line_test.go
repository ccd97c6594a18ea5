package compute_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// whyOf gives what keeps a job.
func (w *harness) whyOf(id job.ID) (codes, text string) {
	w.t.Helper()
	why, err := explain.New(w.eng).Why(w.t.Context(), id, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range why.Blockers {
		codes += b.Code + " "
		text += b.Sentence + " " + b.Remedy + " "
		for _, r := range b.Remedies {
			text += r.Command + " "
		}
	}
	return strings.TrimSpace(codes), text
}

// TestLine: jobs that wait for space are called when there is some, their owners in turn, and each reports why it
// waits.
func TestLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.slots, f.auto = 1, false
		store := newCounting(mem.New())
		w := newHarnessOn(t, store, quick(t), one(notifier{f}))
		first := w.upload("ann", hello)
		w.until(first.ID, compute.Running)
		var all []job.Job
		for _, owner := range []string{"ann", "ann", "ann", "bob", "cy"} {
			time.Sleep(time.Millisecond) // each is younger than the one before
			all = append(all, w.upload(owner, hello))
		}
		eventually(t, "all are in line", func() bool { return w.app.Waiting() == 5 })
		eventually(t, "their reason is shown", func() bool {
			codes, _ := w.whyOf(all[4].ID)
			return codes == "agents-full"
		})
		if _, text := w.whyOf(all[4].ID); !strings.Contains(text, "all slots of a1 are taken") ||
			!strings.Contains(text, "start another agent") {
			t.Errorf("why: %s", text)
		}
		running := first.ID
		for range all {
			f.finish(running, nil)
			w.until(running, compute.Completed)
			eventually(t, "the next runs", func() bool {
				for _, j := range all {
					if now, _ := w.store.Get(t.Context(), j.ID); now.State == compute.Running {
						running = j.ID
						return true
					}
				}
				return false
			})
		}
		f.finish(running, nil)
		store.mu.Lock()
		defer store.mu.Unlock()
		if got := strings.Join(store.begun, " "); got != "ann bob cy ann ann ann" {
			t.Errorf("jobs began in the order %s", got)
		}
	})
}

// TestReservations come back whatever becomes of a parcel: a leak would make an agent seem full indefinitely.
func TestReservations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.slots = 40
		n, answers := 0, []error{compute.ErrNotSent, &compute.Refusal{Reason: "draining", Here: true},
			errors.New("reset"), &compute.Refusal{Reason: "no"}}
		f.fault = func(call string, _ compute.Ticket) error {
			if call == "submit" {
				if n++; n <= 40 {
					return answers[n%len(answers)]
				}
			}
			return nil
		}
		o := quick(t)
		o.Retries, o.RetryFor = -1, 64*time.Millisecond
		w := newHarness(t, o, one(notifier{f}))
		var ids []job.ID
		for range 20 {
			ids = append(ids, w.upload("ada", hello).ID)
		}
		for _, id := range ids {
			w.until(id, compute.Completed, compute.Invalid, compute.Failed)
		}
		eventually(t, "nothing is reserved", func() bool { return w.app.Agents()[0].Reserved == 0 })
		if j := w.until(w.upload("ada", hello).ID, compute.Completed, compute.Failed); j.State != compute.Completed {
			t.Errorf("afterwards: %s, %s", j.State, j.Message)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for ticket, n := range f.runs {
			if n != 1 {
				t.Errorf("%s ran %d times", ticket, n)
			}
		}
	})
}

// TestAgentsComeAndGo: drained ones get nothing, one that joins is used at once, jobs of one that left wait for it, and
// what changed while nothing listened is found.
func TestAgentsComeAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		drained, second := newFake(), newFake()
		drained.draining, second.auto = true, false
		o := quick(t)
		o.RetryFor = time.Hour
		w := newHarness(t, o, one(notifier{drained}))
		eventually(t, "the agent is known", func() bool { return w.app.Agents()[0].Up })
		j := w.upload("ada", hello)
		eventually(t, "the reason is shown", func() bool { codes, _ := w.whyOf(j.ID); return codes == "agent-backoff" })
		if _, text := w.whyOf(j.ID); !strings.Contains(text, "a1 takes nothing new (it drains)") {
			t.Errorf("why: %s", text)
		}
		w.app.Join("a2", notifier{second})
		w.until(j.ID, compute.Running)
		w.app.Leave("a2")
		second.mu.Lock()
		for _, p := range second.payloads {
			second.end(p, nil) // no one learns of it
		}
		second.mu.Unlock()
		w.until(j.ID, compute.Unknown)
		w.app.Join("a2", notifier{second})
		w.until(j.ID, compute.Completed)
		if len(drained.runs) != 0 {
			t.Errorf("a drained agent got %v", drained.runs)
		}
	})
}

// TestForgetfulButSame: an agent that had a payload and reports that it never had it does not get it a second time. The
// control is one that never had it: it gets it again.
func TestForgetfulButSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.auto = false
		w := newHarness(t, quick(t), one(notifier{f}))
		j := w.upload("ada", hello)
		w.until(j.ID, compute.Running)
		f.mu.Lock()
		f.payloads = map[string]*played{} // under the same name of its memory
		f.mu.Unlock()
		f.changed(j.ID)
		if got := w.until(j.ID, compute.Failed, compute.Completed); got.Cause != compute.CauseLost {
			t.Errorf("%s by %s", got.State, got.Cause)
		}
		if n := f.runs[key(compute.Ticket{Job: j.ID, Attempt: 1})]; n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

// TestLostJobIsEnded: what the server abandons is ended at the agent, not left to run unseen; the control is a job that
// ended by itself, which is never reported to end.
func TestLostJobIsEnded(t *testing.T) {
	for _, lost := range []bool{true, false} {
		runInBubble(t, fmt.Sprint("lost ", lost), func(t *testing.T) {
			f := newFake()
			f.auto = false
			var mu sync.Mutex
			var kills []string
			silent := true
			f.fault = func(call string, tk compute.Ticket) error {
				mu.Lock()
				defer mu.Unlock()
				if call == "kill" {
					kills = append(kills, key(tk))
				}
				if call == "look" && lost && silent {
					return errors.New("no answer")
				}
				return nil
			}
			o := quick(t)
			o.Recheck, o.Lost = 5*time.Millisecond, 50*time.Millisecond
			w := newHarness(t, o, one(notifier{f}))
			j := w.upload("ada", hello)
			if !lost {
				w.until(j.ID, compute.Running)
				f.finish(j.ID, nil)
			}
			w.until(j.ID, compute.Failed, compute.Completed)
			eventually(t, "it is forgotten", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return len(f.forgot) == 1
			})
			mu.Lock()
			if got := len(kills) > 0; got != lost {
				t.Errorf("lost %t: requested to end %v", lost, kills)
			}
			mu.Unlock()
		})
	}
}

var queued = flag.Int("queued", 10_000, "jobs in the line of TestLongQueue")

// TestLongQueue: a long queue in front of one slow agent is inspected a few times in a second, however long it is, and
// when there is capacity it is the next one that is inspected, at once, and no other.
func TestLongQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake()
		f.slots, f.auto = 1, false
		o := quick(t)
		o.Services = []compute.Service{{Name: "example", RunsPerUser: 5, MaxRuns: 10}}
		store := &claims{Store: mem.New(), in: map[int64]int{}}
		w := newHarnessOn(t, store, o, one(notifier{f}), func(e *engine.Options) { e.Sweep = time.Second })
		running := w.until(w.upload("first", hello).ID, compute.Running)
		before := store.count()
		all := w.line(&running, *queued)
		synctest.Wait()
		if n := w.app.Waiting(); n != *queued {
			t.Fatalf("%d jobs are in line, want %d", n, *queued)
		}
		t.Logf("%d claims to put %d jobs in line", store.count()-before, *queued)
		store.clear()
		time.Sleep(6 * time.Minute) // each searches for itself, and the first ones once more
		synctest.Wait()
		most := store.most()
		t.Logf("%d claims in six minutes in which nothing happened, at most %d in a second", store.count(), most)
		if most == 0 || most > 60 {
			t.Errorf("%d claims in a second", most)
		}
		for i := range 20 {
			before := store.count()
			f.finish(running.ID, nil)
			synctest.Wait()
			if j, _ := store.Get(t.Context(), running.ID); j.State != compute.Completed {
				t.Fatalf("%s is %s", j.ID, j.State)
			}
			running = w.until(all[i], compute.Running)
			if n := store.count() - before; n > 2 { // the one that has ended and the one that begins
				t.Errorf("%d claims for one that begins", n)
			}
		}
	})
}

// line makes queued jobs of seven owners, all at once, whose files are those of another one.
func (w *harness) line(like *job.Job, n int) []job.ID {
	w.t.Helper()
	kind := job.Scope{Kind: like.Kind}
	if _, err := w.eng.Operator().Hold(w.t.Context(), kind, "op", "all come at once", time.Time{}); err != nil {
		w.t.Fatal(err)
	}
	orders := make([]engine.Order, n)
	for i := range orders {
		orders[i] = engine.Order{Kind: like.Kind, Priority: new(like.Priority), Group: like.Group,
			Owner: fmt.Sprint("user", i%7), Spec: like.Spec}
	}
	jobs, err := w.eng.SubmitAll(w.t.Context(), orders...)
	if err != nil {
		w.t.Fatal(err)
	}
	ids := make([]job.ID, n)
	for i := range jobs {
		ids[i] = jobs[i].ID
		to := filepath.Join(w.dir, "compute", compute.DirOf(ids[i]))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700),
			os.Symlink(filepath.Join("..", "..", compute.DirOf(like.ID)), to)); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.eng.Operator().Release(w.t.Context(), kind, "op", "all have come"); err != nil {
		w.t.Fatal(err)
	}
	return ids
}

// claims counts jobs that are claimed.
type claims struct {
	job.Store
	mu sync.Mutex    // guards the rest
	in map[int64]int // by second
}

func (c *claims) Claim(ctx context.Context, call job.Claim) ([]job.Job, error) {
	jobs, err := c.Store.Claim(ctx, call)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in[time.Now().Unix()] += len(jobs)
	return jobs, err
}

func (c *claims) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.in {
		n += one
	}
	return n
}

// most is in one second.
func (c *claims) most() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.in {
		n = max(n, one)
	}
	return n
}

func (c *claims) clear() { c.mu.Lock(); clear(c.in); c.mu.Unlock() }

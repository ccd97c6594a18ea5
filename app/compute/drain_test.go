package compute_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// sized is an executor that reports how much it has.
type sized struct {
	*fake
	memory int64
}

func (s sized) Capacity(ctx context.Context) (compute.Capacity, error) {
	room, err := s.fake.Capacity(ctx)
	room.Memory, room.Cores = s.memory, 2
	return room, err
}

// TestTooMuchForEveryAgent: a job that no agent could ever run waits without losing attempts, reports it and what would
// move it, and runs when a large enough agent comes. Others pass it. More than the service allows is refused at once.
// The control requires what there is.
func TestTooMuchForEveryAgent(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  compute.Limits
		waits string
	}{
		{"fits", compute.Limits{Memory: 1 << 30, Cores: 2}, ""},
		{"memory", compute.Limits{Memory: 900 << 30}, "it may use 900 GiB of memory, and a1 has 16 GiB for jobs"},
		{"cores", compute.Limits{Cores: 64}, "it may use 64 cores, and a1 has 2 for jobs"},
	} {
		runInBubble(t, c.name, func(t *testing.T) {
			o := quick(t)
			o.Services[0].Max = compute.Limits{Memory: 1000 << 30}
			w := newHarness(t, o, one(sized{newFake(), 16 << 30}))
			eventually(t, "the agent is known", func() bool { return w.app.Agents()[0].Up })
			order := compute.Order{Owner: "ada", Service: "example", Limits: c.want}
			j, err := w.order(order, map[string]string{compute.Script: hello})
			if err != nil {
				t.Fatal(err)
			}
			if c.waits == "" {
				w.until(j.ID, compute.Completed)
				order.Limits.Memory = 2000 << 30
				if _, err := w.order(order, map[string]string{compute.Script: hello}); job.KindOf(err) != job.Invalid &&
					job.KindOf(err) != job.Refused {
					t.Errorf("more than the service allows: %v", err)
				}
				return
			}
			eventually(t, "it waits", func() bool { codes, _ := w.whyOf(j.ID); return codes == "agents-small" })
			time.Sleep(10 * time.Minute)
			eventually(t, "the reason is still shown", func() bool {
				codes, text := w.whyOf(j.ID)
				return codes == "agents-small" && strings.Contains(text, c.waits) && strings.Contains(text, "--limit")
			})
			w.until(w.upload("bob", hello).ID, compute.Completed)
			big := newFake()
			w.app.Join("big", big)
			time.Sleep(time.Minute)
			w.until(j.ID, compute.Completed)
			big.mu.Lock()
			defer big.mu.Unlock()
			if len(big.runs) != 1 {
				t.Errorf("it did not run at the large one: %v", big.runs)
			}
		})
	}
}

// TestAgentThatHasNotComeYet costs no attempt while the server is starting, whether the service names it or the service
// configuration expects it. In the control no one is expected, and the one attempt is used up; and one that does not
// come in time costs attempts as any other.
func TestAgentThatHasNotComeYet(t *testing.T) {
	for _, c := range []struct {
		name                    string
		named, expected, others bool
		after                   time.Duration
		runs                    bool
	}{
		{"named by the service", true, false, true, 20 * time.Second, true},
		{"expected", false, true, true, 20 * time.Second, true},
		{"the first of all", false, false, false, 20 * time.Second, true},
		{"too late", true, true, true, 3 * time.Minute, false},
		{"nobody", false, false, true, 20 * time.Second, false},
	} {
		runInBubble(t, c.name, func(t *testing.T) {
			o := quick(t)
			o.Retries, o.RetryFor = 1, 2*time.Minute
			if c.named {
				o.Services[0].Agents = []string{"far"}
			}
			executors := map[string]compute.Executor{}
			if c.others {
				executors["other"] = otherService{newFake()}
			}
			w := newHarness(t, o, executors)
			if c.expected {
				w.app.Expect("far")
			}
			j := w.upload("ada", hello)
			time.AfterFunc(c.after, func() { w.app.Join("far", newFake()) })
			time.Sleep(5 * time.Minute)
			if got := w.until(j.ID, compute.Completed, compute.Failed); (got.State == compute.Completed) != c.runs {
				t.Errorf("it ended as %s: %s", got.State, got.Message)
			}
		})
	}
}

// otherService serves something else.
type otherService struct{ *fake }

func (o otherService) Capacity(ctx context.Context) (compute.Capacity, error) {
	room, err := o.fake.Capacity(ctx)
	room.Services = []string{"another"}
	return room, err
}

// TestDrain: a drained agent gets nothing new, whatever it reports itself, and goes on with what it has; who waits for
// it loses no attempt and sees who drains it; that holds over a restart of the server and when the agent comes anew;
// after resume those who wait run at once. The control is not drained.
func TestDrain(t *testing.T) {
	for _, drains := range []bool{true, false} {
		runInBubble(t, fmt.Sprint("drains ", drains), func(t *testing.T) {
			f := newFake()
			f.auto = false
			o, store := quick(t), mem.New()
			o.Retries = 1
			w := newHarnessOn(t, store, o, one(notifier{f}))
			has := w.upload("ada", hello)
			w.until(has.ID, compute.Running)
			if _, err := w.app.Drain(t.Context(), "nobody", true, "op", ""); job.KindOf(err) != job.NotFound ||
				!strings.Contains(err.Error(), "a1") {
				t.Errorf("an agent that is not there: %v", err)
			}
			if drains {
				for range 2 {
					if a, err := w.app.Drain(t.Context(), "a1", true, "op",
						"new disks"); err != nil || !a.Draining || a.Drain == nil || a.Drain.Who != "op" ||
						a.Jobs != 1 {
						t.Fatalf("drain: %+v, %v", a, err)
					}
				}
			}
			j := w.upload("ada", hello)
			if !drains {
				w.until(j.ID, compute.Running)
				return
			}
			says := func() bool {
				codes, text := w.whyOf(j.ID)
				return codes == "agents-drained" && strings.Contains(text, "a1 takes nothing new: op drains it (new disks)") && strings.Contains(text, "agent resume NAME")
			}
			eventually(t, "the reason is shown", says)
			f.finish(has.ID, nil)
			w.until(has.ID, compute.Completed)
			w.stop()

			w = newHarnessOn(t, store, o, one(notifier{f}))
			w.app.Join("a1", notifier{f})
			time.Sleep(5 * time.Minute)
			eventually(t, "the reason is shown after a restart", says)
			f.mu.Lock()
			f.auto = true
			f.mu.Unlock()
			began := time.Now()
			if a, err := w.app.Drain(t.Context(), "a1", false, "op", ""); err != nil || a.Draining || a.Drain != nil {
				t.Errorf("resume: %+v, %v", a, err)
			}
			if w.until(j.ID, compute.Completed); time.Since(began) > time.Second {
				t.Errorf("it was called after %s only", time.Since(began))
			}
		})
	}
}

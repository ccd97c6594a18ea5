package compute_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// seldom has an engine sweep so seldom that hours are short for a test.
func seldom(o *engine.Options) { o.Sweep = time.Minute }

// waitsForSpace checks that a job waits in Queued for space on the disk of an agent.
func (w *harness) waitsForSpace(id job.ID, sentence string) {
	w.t.Helper()
	x, err := explain.New(w.eng).Why(w.t.Context(), id, time.Time{})
	if err != nil || x.Position.State != compute.Queued || len(x.Blockers) != 1 ||
		x.Blockers[0].Code != "agent-space" || !strings.Contains(x.Blockers[0].Sentence, sentence) {
		w.t.Errorf("%v: %s, %+v", err, x.Position.State, x.Blockers)
	}
}

// entries is how many entries the history of a job has.
func (w *harness) entries(id job.ID) int {
	w.t.Helper()
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(history)
}

// TestAgentWithoutSpace: an agent that reports no space for the files of a job gets nothing of it. The job waits
// without further entries in its history, and is called when there is space. Another agent that has space takes it.
func TestAgentWithoutSpace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f, space := newFake(), int64(len(hello)-1)
		f.space = &space
		o := quick(t)
		o.Retries = 1 // control: one failed attempt fails the job
		w := newHarnessOn(t, mem.New(), o, one(notifier{f}), seldom)
		eventually(t, "the agent is known", func() bool { return w.app.Agents()[0].Up }) // else the job waits for that
		id := w.upload("ada", hello).ID
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.waitsForSpace(id, "the disk of a1 has")
		if n := w.entries(id); n > 2 { // that it was made, and that it waits
			t.Errorf("%d entries in its history", n)
		}
		f.mu.Lock()
		enough := int64(len(hello))
		f.space = &enough
		f.mu.Unlock()
		began := time.Now()
		w.until(id, compute.Completed)
		if late := time.Since(began); late > 6*time.Second { // the agent is asked every five
			t.Errorf("it was called after %s", late)
		}
		f.mu.Lock()
		f.space = &space
		f.mu.Unlock()
		time.Sleep(6 * time.Second)
		w.app.Join("two", newFake())
		if j := w.until(w.upload("ada", hello).ID, compute.Completed); len(j.Tags) == 0 || j.Tags[0] != "agent=two" {
			t.Errorf("the tags are %v", j.Tags)
		}
	})
}

// TestFullAgentHistory: the pauses after refusals for lack of space grow, so that a job that waits for hours
// does not fill its history, with one attempt (Retries 1) as with many.
func TestFullAgentHistory(t *testing.T) {
	for _, retries := range []int{1, 5, -1} {
		runInBubble(t, fmt.Sprint(retries), func(t *testing.T) {
			f := newFake()
			f.fault = func(call string, _ compute.Ticket) error {
				if call == "submit" {
					return &compute.Refusal{Reason: "the agent's disk is full", Here: true, Full: true}
				}
				return nil
			}
			o := quick(t)
			o.Retries, o.RetryFor = retries, 2*time.Minute
			w := newHarnessOn(t, mem.New(), o, one(notifier{f}), seldom)
			id := w.upload("ada", hello).ID
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			w.waitsForSpace(id, "disk is full")
			j, err := w.store.Get(t.Context(), id)
			if err != nil || j.Retries != 0 {
				t.Errorf("%d retries (%v)", j.Retries, err)
			}
			if n := w.entries(id); n > 120 { // two each 5 minutes, and those of the growing pauses
				t.Errorf("%d entries in its history", n)
			}
		})
	}
}

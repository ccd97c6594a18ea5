package archive

import (
	"errors"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestRetryTask: an operator has a failed task tried again while the phase runs, and the archive succeeds. Without
// that, the control, the phase fails, although its other task succeeds. Each refusal states why.
func TestRetryTask(t *testing.T) {
	for _, retries := range []bool{true, false} {
		src := newFake(2, 1)
		bubble(t, src, notified(t, everyEvent...), func(h *harness) {
			broken := activityTask + "2"
			src.failures = map[string]error{"2/item-0": job.Errorf(job.Invalid, "fetch", "", "it may not be read")}
			src.onFetch = func(activity, _ string) {
				if activity == "1" {
					time.Sleep(20 * time.Minute)
				}
			}
			j := h.submit(Request{})
			retry := func(task string, by lifecycle.Actor) error {
				_, err := h.engine.Operator().RetryTask(h.t.Context(), operator.Act{Job: j.ID, By: by, Actor: "ann",
					Note: "it may be read now"}, task)
				return err
			}
			time.Sleep(10 * time.Minute)
			if one := h.task(j.ID, broken); one.State != Failed || one.Attempts != 1 {
				t.Fatalf("got %+v", one)
			}
			for task, c := range map[string]struct {
				by   lifecycle.Actor
				want job.ErrorKind
			}{
				"activity/1": {lifecycle.Operator, job.Refused}, // it runs
				"course":     {lifecycle.Operator, job.Refused}, // it is Finished
				"nothing":    {lifecycle.Operator, job.NotFound},
				broken:       {lifecycle.Owner, job.Refused},
			} {
				if err := retry(task, c.by); job.KindOf(err) != c.want {
					t.Errorf("%s: got %v, want %s", task, err, c.want)
				}
			}
			src.mu.Lock()
			src.failures = nil
			src.mu.Unlock()
			want := "create enqueue begin next error fail next fail"
			if retries {
				want = walk
				if err := retry(broken, lifecycle.Operator); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if one := h.task(j.ID, broken); one.State != Finished || one.Attempts != 2 || one.Message != "" {
					t.Errorf("after the retry: %+v", one)
				}
				h.audited("retry-task", string(j.ID)+" "+broken, "it may be read now")
			}
			j = h.end(j.ID)
			if got := h.events(j.ID); got != want {
				t.Errorf("retries %v: got %s, want %s", retries, got, want)
			}
			if err := retry(broken, lifecycle.Operator); job.KindOf(err) != job.Refused {
				t.Errorf("after the end: got %v", err)
			}
		})
	}
}

// task returns a task of a job.
func (h *harness) task(id job.ID, name string) job.Task {
	h.t.Helper()
	tasks, err := h.store.Tasks(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, one := range tasks {
		if one.Name == name {
			return one
		}
	}
	h.t.Fatalf("there is no task %s: %+v", name, tasks)
	return job.Task{}
}

// audited checks that the audit log has an entry.
func (h *harness) audited(event lifecycle.Event, object, note string) {
	h.t.Helper()
	entries, err := h.store.Audit(h.t.Context(), 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Event == event && e.Object == object && e.Note == note && e.Actor == "ann" {
			return
		}
	}
	h.t.Errorf("the audit log has no %s of %s: %+v", event, object, entries)
}

// TestGroup: a task that a person has made Created runs once more, also if its end is not noted yet; one of an earlier
// attempt, and one after the end of the group, does not.
func TestGroup(t *testing.T) {
	failing, goOn := make(chan job.Task), make(chan struct{})
	ended := make(chan struct{})
	g := newGroup(func(one job.Task) error {
		failing <- one
		<-goOn
		return errors.New("broken")
	}, func() { close(ended) })
	g.begin(job.Task{Name: "a", Attempts: 1})
	g.release()
	<-failing
	g.again(job.Task{Name: "a", State: Created, Attempts: 1}) // as it was when it began
	g.again(job.Task{Name: "b", State: Created, Attempts: 2}) // of another phase
	g.again(job.Task{Name: "a", State: Created, Attempts: 2})
	goOn <- struct{}{}
	if one := <-failing; one.Attempts != 2 {
		t.Errorf("got %+v", one)
	}
	g.again(job.Task{Name: "a", State: Failed, Attempts: 3})
	goOn <- struct{}{}
	<-ended
	g.again(job.Task{Name: "a", State: Created, Attempts: 3})
	if g.running != 0 || len(g.errs) != 1 {
		t.Errorf("%d run after the end, errors %v", g.running, g.errs)
	}
}

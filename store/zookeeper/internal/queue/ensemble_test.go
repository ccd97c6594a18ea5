package queue_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// TestEnsemble ends the leading server of three while a worker moves jobs, three times. What was acknowledged before is
// there afterwards, each job has passed each state once, and the tree is whole.
func TestEnsemble(t *testing.T) {
	e := zktest.StartEnsemble(t, 3)
	h := &harness{T: t, srv: e.Servers[0]}
	s, err := session.Open(t.Context(), e.Addresses(), session.Options{Timeout: 20 * zktest.Tick})
	h.ok(err)
	defer func() { s.Close() }()
	q := queue.New(s, queue.Options{})
	// again repeats an operation whose session was lost, with another session.
	again := func(f func() error) {
		for {
			err := f()
			k := session.KindOf(err)
			switch {
			case err == nil:
				return
			case k != session.Lost && k != session.Unknown && k != session.Unsent:
				t.Fatal(err)
			}
			select {
			case <-s.Lost():
				s, err = session.Open(t.Context(), e.Addresses(), session.Options{Timeout: 20 * zktest.Tick})
				h.ok(err)
				q = queue.New(s, queue.Options{})
			default:
			}
		}
	}
	ctx := t.Context()
	again(func() error { return q.Init(ctx) })
	again(func() error {
		_, err := q.CreateBatch(ctx, submission("bid-1000000"))
		if errors.Is(err, queue.ErrExists) {
			return nil
		}
		return err
	})
	b, _, err := q.AcquireBatch(ctx)
	h.ok(err)
	b, ids, err := q.CreateJobs(ctx, b, 3, newJob("a", 5), newJob("b", 6), newJob("c", 7))
	h.ok(err)
	h.ok(q.ReleaseBatch(ctx, b))
	acked := map[layout.JobID]layout.Status{}
	moves := 0
	for _, state := range layout.JobStatuses {
		for state.Active() {
			if moves++; moves%8 == 4 {
				leader := e.Leader(t)
				if leader < 0 {
					t.Fatal("no server leads")
				}
				e.Servers[leader].Kill()
				again(func() error { return s.Sync(ctx) }) // the others elect another one
				e.Servers[leader].Restart(t)
				e.Servers[leader].Raw(t).Close() // it follows
			}
			var j *queue.Job
			again(func() (err error) { j, _, err = q.AcquireJob(ctx, state); return err })
			if j == nil {
				break
			}
			if last, seen := acked[j.ID]; seen && last != state {
				t.Fatalf("%s was acknowledged in %s and is in %s", j.ID, last, state)
			}
			after, err := q.SucceedJob(ctx, j, queue.Results{})
			if err == nil {
				acked[j.ID] = after.Status.Status
			} else if !errors.Is(err, queue.ErrChanged) {
				delete(acked, j.ID) // unknown
				again(func() error { return s.Sync(ctx) })
			}
		}
	}
	for _, id := range ids {
		var j *queue.Job
		again(func() (err error) { j, err = q.Job(ctx, id); return err })
		if j.Status.Status != layout.Completed || j.Status.Last != layout.Notify {
			t.Errorf("%s is %+v", id, j.Status)
		}
	}
	var findings []queue.Finding
	again(func() (err error) { findings, err = q.Report(ctx); return err })
	if len(findings) > 0 {
		t.Error(fmt.Sprint(findings))
	}
}

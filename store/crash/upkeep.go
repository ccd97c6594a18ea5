package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// Upkeep gives a workload of what people do beside the work itself: a job created by an operator, a hold and its
// release, another priority while a worker has the job, its end, a message delivered again, the deletion, the purge,
// an entry in the audit log alone, and a new job with the old id and key. Each is checked for being in the audit
// list exactly when it happened. The store must keep that list.
func Upkeep() Workload {
	return Workload{Name: "upkeep", Lives: lives(storetest.Step), Run: upkeep, Check: checkUpkeep}
}

// upkeepEvents are the entries that the workload makes, in their order.
var upkeepEvents = []lifecycle.Event{job.Create, "hold", "release", lifecycle.Reprioritize, "cancel", "delete",
	job.Purge, "break-lock"}

func upkeep(ctx context.Context, st job.Store) error {
	life, at := storetest.Step, start
	first := made(life, theJob, "", 0)
	first.Event.By, first.Event.Actor = lifecycle.Operator, "olga"
	first.Event.Seal(job.Hash{})
	first.Job.Head, first.Job.Tags, first.Job.Bytes = first.Event.Hash, job.Tagged("queue=a"), 7
	if _, err := st.Create(ctx, first); err != nil {
		return err
	}
	hold := job.Hold{Scope: job.Scope{Tag: "queue=a"}, Who: "olga", Why: "a test", Since: at}
	if _, err := st.Hold(ctx, hold); err != nil {
		return err
	}
	if _, err := st.Release(ctx, hold); err != nil {
		return err
	}
	j, err := claim(ctx, st, first.Job, at.Add(time.Minute))
	if err != nil {
		return err
	}
	priority := 3
	for _, e := range []lifecycle.Event{lifecycle.Reprioritize, "cancel", "delete"} {
		c, err := storetest.Transition(life, j, e, lifecycle.Operator, at.Add(time.Hour))
		if err != nil {
			return err
		}
		switch e {
		case lifecycle.Reprioritize:
			c.Keep, c.Set.Priority = true, &priority
		case "cancel":
			c.Outbox = []job.Message{{Key: "told", Job: theJob, Topic: "mail", Created: at, Due: at}}
		}
		if err := commit(ctx, st, c); err != nil {
			return err
		}
		if j, err = st.Get(ctx, theJob); err != nil {
			return err
		}
	}
	return clearAway(ctx, st, j, at.Add(2*time.Hour))
}

// clearAway delivers the message twice, purges the job and creates another afterwards.
func clearAway(ctx context.Context, st job.Store, j job.Job, at time.Time) error {
	settled := job.Message{Key: "told", Settled: job.Delivered, Tried: []job.Attempt{{At: at}}}
	if err := st.Settle(ctx, settled); err != nil {
		return err
	}
	if _, err := st.Replay(ctx, at, "told"); err != nil {
		return err
	}
	if err := st.Settle(ctx, settled); err != nil {
		return err
	}
	purge := job.Change{Job: j.ID, Version: j.Version, Purge: true, By: lifecycle.Operator, Actor: "olga", At: at}
	if err := commit(ctx, st, purge); err != nil {
		return err
	}
	alone := job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "break-lock", At: at}
	if err := st.Note(ctx, alone); err != nil {
		return err
	}
	_, err := st.Create(ctx, made(storetest.Step, theJob, "", 0))
	return err
}

// checkUpkeep compares the store with the entries of the audit log.
func checkUpkeep(ctx context.Context, st job.Store) []string {
	list, err := audited(ctx, st)
	holds, err2 := st.Holds(ctx)
	messages, err3 := job.MessagesOf(ctx, st, theJob)
	j, err4 := st.Get(ctx, theJob)
	there := err4 == nil
	if job.KindOf(err4) == job.NotFound {
		err4 = nil
	}
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return []string{err.Error()}
	}
	var events []lifecycle.Event
	for _, a := range list {
		events = append(events, a.Event)
	}
	n := len(events)
	if !slices.Equal(events, upkeepEvents[:min(n, len(upkeepEvents))]) {
		return []string{fmt.Sprintf("the audit log has %v", events)}
	}
	var faults []string
	want := func(what string, got, want bool) {
		if got != want {
			faults = append(faults, fmt.Sprintf("%s: %t, the audit log ends with %v", what, got, events))
		}
	}
	first := there && j.Number == 1
	want("the first job is there", first, n > 0 && n < 7)
	want("the second job exists too early", there && j.Number == 2 && n < 8, false)
	want("the hold is there", len(holds) == 1, n == 2)
	want("its message is there", len(messages) == 1, n == 5 || n == 6)
	if first {
		want("its priority is another", j.Priority == 3, n > 3)
		want("it has ended", j.Ended, n > 4)
		want("it is deleted", j.Gone, n > 5)
	}
	return faults
}

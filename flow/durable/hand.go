package durable

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// MarkEvent is the event under which [Flows.MarkReverted] is entered in the audit log.
const MarkEvent lifecycle.Event = "mark-reverted"

// byHand is the result of a revert that a person did.
type byHand struct {
	Actor string `json:"by_hand"`
	Note  string `json:"note"`
}

// MarkReverted notes that a person has manually rolled back a task of a flow in FAILURE: the task is REVERTED, with
// actor and note, and a later run or cancel goes on with what is before it. The flow stays in FAILURE until then. Of
// the act, Job, By, Actor, Note and Version count; the note is required. Errors: NotFound; Invalid; Refused if the flow
// is not in FAILURE or the task is not to be rolled back; Conflict.
func (f *Flows) MarkReverted(ctx context.Context, e *engine.Engine, task string, a operator.Act) (job.Job, error) {
	a.Event = MarkEvent
	return e.Operator().Amend(ctx, a, string(a.Job)+" "+task, func(j *job.Job) ([]job.Task, json.RawMessage, error) {
		switch {
		case j.Kind != Kind:
			return nil, nil, job.Errorf(job.Invalid, string(MarkEvent), j.ID, "it is no flow but of kind %s", j.Kind)
		case j.State != flow.FailureState:
			return nil, nil, job.Errorf(job.Refused, string(MarkEvent), j.ID,
				"it is %s: only tasks of a flow in FAILURE are marked", j.State)
		}
		tasks, err := e.Store().Tasks(ctx, j.ID)
		if err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(tasks, func(t job.Task) bool { return t.Name == task && t.Kind == kindTask })
		if at < 0 {
			return nil, nil, job.Errorf(job.NotFound, string(MarkEvent), j.ID, "it has no task %q", task)
		}
		t := tasks[at]
		d, err := DataOf(j)
		if err != nil {
			return nil, nil, err
		}
		if err := mark(j.ID, &t, &a, e); err != nil {
			return nil, nil, err
		}
		if d.Counts != nil {
			if d.Counts[tasks[at].State]--; d.Counts[tasks[at].State] <= 0 {
				delete(d.Counts, tasks[at].State)
			}
			d.Counts[flow.Reverted]++
		}
		data, err := json.Marshal(&d)
		if err != nil {
			return nil, nil, job.Errorf(job.Internal, "encode", j.ID, "data: %w", err)
		}
		return []job.Task{t}, data, nil
	})
}

// mark makes the task REVERTED by a person.
func mark(id job.ID, t *job.Task, a *operator.Act, e *engine.Engine) error {
	var d atomData
	if err := json.Unmarshal(t.Data, &d); err != nil {
		return job.Errorf(job.Internal, "decode", id, "the record of %s: %w", t.Name, err)
	}
	switch {
	case !remain(t.State):
		return job.Errorf(job.Refused, string(MarkEvent), id, "the task %s is %s: nothing of it remains", t.Name,
			t.State)
	case d.Intention != flow.ToRevert:
		return job.Errorf(job.Refused, string(MarkEvent), id,
			"the task %s is not to be rolled back: cancel the flow first, and mark what that cannot revert", t.Name)
	}
	value, err := encode(byHand{a.Actor, a.Note})
	if err != nil {
		return err
	}
	if t.State == flow.Success || t.State == flow.FailureState { // no revert of it has begun
		d.ExecuteBegan, d.ExecuteEnded = d.Began, d.Ended
	}
	t.State, t.Message, t.Done = flow.Reverted, "", whole
	d.Reverted, d.RevertFailure, d.Waits, d.Awaits, d.Progress = &stored{Value: value}, nil, false, "", 1
	d.Began = e.Clock().Now() // how long it took is not known
	d.Ended = d.Began
	if t.Data, err = json.Marshal(&d); err != nil {
		return job.Errorf(job.Internal, "encode", id, "the record of %s: %w", t.Name, err)
	}
	return nil
}

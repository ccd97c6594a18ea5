package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kinds of the tasks of a flow's job.
const (
	kindTask    job.Kind = "flow.task"
	kindRetry   job.Kind = "flow.retry"
	kindSignal  job.Kind = "flow.signal"
	kindOutline job.Kind = "flow.outline"
	kindRenamed job.Kind = "flow.renamed" // an atom that is under another name now
)

// States of tasks that are no atoms.
const (
	sent    lifecycle.State = "SENT"     // a signal
	taken   lifecycle.State = "TAKEN"    // a signal, by the result of a task
	putAway lifecycle.State = "PUT_AWAY" // a signal, by a reset
	kept    lifecycle.State = "STORED"   // the outline
	renamed lifecycle.State = "RENAMED"
)

// outlineName is the name of the task that holds the structure of the flow.
const outlineName = "outline:"

// atomData is the data of a task that is an atom: what of [flow.Record] has no field of its own in [job.Task].
type atomData struct {
	Version       string          `json:"version"`
	Intention     flow.Intention  `json:"intention"`
	Result        *stored         `json:"result,omitempty"`
	Failure       *flow.Failure   `json:"failure,omitempty"`
	Reverted      *stored         `json:"reverted,omitempty"`
	RevertFailure *flow.Failure   `json:"revert_failure,omitempty"`
	History       []storedAttempt `json:"history,omitempty"`
	Tries         int             `json:"tries,omitempty"`
	Due           time.Time       `json:"due,omitzero"`
	Awaits        string          `json:"awaits,omitempty"`
	Waits         bool            `json:"waits,omitempty"`
	Progress      float64         `json:"progress,omitempty"`
	Details       *stored         `json:"details,omitempty"`
	Began         time.Time       `json:"began,omitzero"`
	Ended         time.Time       `json:"ended,omitzero"`
	ExecuteBegan  time.Time       `json:"execute_began,omitzero"`
	ExecuteEnded  time.Time       `json:"execute_ended,omitzero"`
}

// storedAttempt is a [flow.Attempt].
type storedAttempt struct {
	Value    stored            `json:"value"`
	Failures []flow.FailedAtom `json:"failures,omitempty"`
}

// whole is the Total of tasks that are atoms: Done is the progress in thousandths.
const whole = 1000

// kindOf gives the kind of the task for an atom.
func kindOf(k flow.Kind) job.Kind {
	if k == flow.KindRetry {
		return kindRetry
	}
	return kindTask
}

// isAtom reports whether a task is an atom.
func isAtom(t *job.Task) bool { return t.Kind == kindTask || t.Kind == kindRetry }

// taskOf makes the task for a record. Large values are put away. Errors: those of Blobs, and of values that a user
// changed since they were kept.
func (f *Flows) taskOf(ctx context.Context, id job.ID, r *flow.Record) (job.Task, error) {
	d := atomData{
		Version: r.Version, Intention: r.Intention, Failure: r.Failure, RevertFailure: r.RevertFailure,
		Tries: r.Tries, Due: r.Due, Awaits: r.Awaits, Waits: r.Waits, Progress: r.Progress, Began: r.Began,
		Ended:        r.Ended,
		ExecuteBegan: r.ExecuteBegan, ExecuteEnded: r.ExecuteEnded,
	}
	t := job.Task{Name: r.Name, Kind: kindOf(r.Kind), State: r.State, Attempts: r.Attempts, Total: whole,
		Done: int64(math.Round(r.Progress * whole))}
	switch {
	case r.RevertFailure != nil:
		t.Message = r.RevertFailure.Message
	case r.Failure != nil:
		t.Message = r.Failure.Message
	}
	put := func(v *flow.Value) (*stored, error) {
		if v == nil {
			return nil, nil
		}
		text, err := encode(*v)
		if err != nil {
			return nil, err
		}
		s, err := f.keep(ctx, id, text)
		return &s, err
	}
	var err error
	if d.Result, err = put(r.Result); err != nil {
		return t, fmt.Errorf("the result of %s: %w", r.Name, err)
	}
	if d.Reverted, err = put(r.Reverted); err != nil {
		return t, fmt.Errorf("the result of the revert of %s: %w", r.Name, err)
	}
	if d.Details, err = put(r.Details); err != nil { // no one has kept them: they are for people, and stop nothing
		d.Details = &stored{Value: json.RawMessage(`"(cannot be stored)"`)}
	}
	for i := range r.History {
		v, err := put(&r.History[i].Value)
		if err != nil {
			return t, fmt.Errorf("the value of attempt %d of %s: %w", i+1, r.Name, err)
		}
		d.History = append(d.History, storedAttempt{*v, r.History[i].Failures})
	}
	if t.Data, err = json.Marshal(&d); err != nil {
		return t, fmt.Errorf("the record of %s: %w", r.Name, err)
	}
	return t, nil
}

// atom decodes a task that is an atom.
func atom(id job.ID, t *job.Task) (r flow.Record, d atomData, err error) {
	if err := json.Unmarshal(t.Data, &d); err != nil {
		return r, d, job.Errorf(job.Internal, "decode", id, "the record of %s: %w", t.Name, err)
	}
	r = flow.Record{
		Name: t.Name, Kind: flow.KindTask, Version: d.Version, State: t.State, Intention: d.Intention,
		Failure: d.Failure, RevertFailure: d.RevertFailure, Attempts: t.Attempts, Tries: d.Tries,
		Due: d.Due, Awaits: d.Awaits, Waits: d.Waits, Progress: d.Progress, Began: d.Began, Ended: d.Ended,
		ExecuteBegan: d.ExecuteBegan, ExecuteEnded: d.ExecuteEnded,
	}
	if t.Kind == kindRetry {
		r.Kind = flow.KindRetry
	}
	return r, d, nil
}

// recordOf decodes a task that is an atom, with its large values.
func (f *Flows) recordOf(ctx context.Context, id job.ID, t *job.Task) (flow.Record, error) {
	r, d, err := atom(id, t)
	if err != nil {
		return r, err
	}
	get := func(s *stored) *flow.Value {
		if s == nil || err != nil {
			return nil
		}
		var v flow.Value
		if v, err = f.fetch(ctx, id, s); err != nil {
			err = fmt.Errorf("%s: %w", t.Name, err)
		}
		return &v
	}
	r.Result, r.Reverted, r.Details = get(d.Result), get(d.Reverted), get(d.Details)
	for i := range d.History {
		a := flow.Attempt{Failures: d.History[i].Failures}
		if v := get(&d.History[i].Value); v != nil {
			a.Value = *v
		}
		r.History = append(r.History, a)
	}
	return r, err
}

// restarted gives the task of an atom that a reset put back: nothing is left but the number of executions, so that keys
// differ.
func restarted(id job.ID, t *job.Task) (job.Task, error) {
	r, _, err := atom(id, t)
	if err != nil {
		return *t, err
	}
	text, err := json.Marshal(&atomData{Version: r.Version, Intention: flow.Execute})
	if err != nil {
		return *t, job.Errorf(job.Internal, "encode", id, "the record of %s: %w", t.Name, err)
	}
	return job.Task{Name: t.Name, Kind: t.Kind, State: flow.Pending, Attempts: t.Attempts, Total: whole, Data: text},
		nil
}

package durable

import (
	"context"
	"encoding/json"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// accompany completes what a person does to a flow; see [engine.Work].
func (f *Flows) accompany(ctx context.Context, j *job.Job, a *operator.Act, c *job.Change) error {
	d, err := DataOf(j)
	if err != nil {
		return err
	}
	if d.Name == "" {
		s, err := SpecOf(j)
		if err != nil {
			return err
		}
		d.Name = s.Name
	}
	switch c.Event {
	case flow.Cancel, flow.Halt:
		end(j, a, c, &d)
	case flow.Suspend:
		if d.End != nil {
			return job.Errorf(job.Refused, "suspend", j.ID, "it is ending: %s", d.End.Text)
		}
		d.Suspend = &Suspension{Actor: c.Actor, Note: c.Note, At: c.At}
	case flow.Run:
		d.Suspend = nil
		// one that was run from there and suspended before it began still has to try its reverts again
		if d.Again != flow.FailureState {
			d.Again = j.State
		}
		if j.Ended {
			unend(c, &d)
		}
	case flow.Reset:
		d.Suspend, d.Again = nil, ""
		if c.Tasks, d.Counts, err = f.reset(ctx, j); err != nil {
			return err
		}
		unend(c, &d)
	default:
		return nil
	}
	if c.Set.Data, err = json.Marshal(&d); err != nil {
		return job.Errorf(job.Internal, "encode", j.ID, "data: %w", err)
	}
	return nil
}

// reset gives the tasks of a flow as they are at the beginning.
func (f *Flows) reset(ctx context.Context, j *job.Job) (tasks []job.Task, counts map[lifecycle.State]int, err error) {
	e := f.engine.Load()
	if e == nil {
		return nil, nil, job.Errorf(job.Internal, "reset", j.ID, "its application is not bound to an engine")
	}
	all, err := e.Store().Tasks(ctx, j.ID)
	if err != nil {
		return nil, nil, err
	}
	counts = map[lifecycle.State]int{}
	for i := range all {
		switch t := all[i]; {
		case isAtom(&t):
			if t, err = restarted(j.ID, &t); err != nil {
				return nil, nil, err
			}
			counts[flow.Pending]++
			tasks = append(tasks, t)
		case t.Kind == kindSignal && t.State == sent:
			t.State = putAway
			tasks = append(tasks, t)
		}
	}
	return tasks, counts, nil
}

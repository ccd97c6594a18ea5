package durable

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
)

// Signal is something that a flow is told.
type Signal struct {
	Name  string
	Value any    // JSON in the end; nil: null
	Actor string // who sends it
}

// longestSignal bounds the name of a signal, in bytes.
const longestSignal = 200

// signalPrefix begins the names of tasks that are signals.
const signalPrefix = "signal:"

// storedSignal is the data of a task that is a signal.
type storedSignal struct {
	stored
	Actor string    `json:"actor,omitempty"`
	At    time.Time `json:"at"`
}

// Signal stores a signal of a flow. Whoever awaits it goes on, now or when it comes to that; a later signal of the same name replaces an earlier one. A reset puts all
// signals away. Errors: Invalid, NotFound, Refused for a flow that has ended, Unavailable.
func (f *Flows) Signal(ctx context.Context, e *engine.Engine, id job.ID, s Signal) error {
	if s.Name == "" || len(s.Name) > longestSignal {
		return job.Errorf(job.Invalid, "signal", id, "a signal needs a name of at most %d bytes", longestSignal)
	}
	j, err := e.Store().Get(ctx, id)
	if err != nil {
		return err
	}
	if j.Kind != Kind {
		return job.Errorf(job.Invalid, "signal", id, "it is no flow but of kind %s", j.Kind)
	}
	if j.Ended {
		return job.Errorf(job.Refused, "signal", id, "it has ended (%s)", j.State)
	}
	text, err := encode(s.Value)
	if err != nil {
		return job.Errorf(job.Invalid, "signal", id, "the value of %s: %w", s.Name, err)
	}
	kept, err := f.keep(ctx, id, text)
	if err != nil {
		return job.Errorf(job.Invalid, "signal", id, "the value of %s: %w", s.Name, err)
	}
	data, err := json.Marshal(storedSignal{kept, s.Actor, e.Clock().Now()})
	if err != nil {
		return job.Errorf(job.Internal, "signal", id, "%w", err)
	}
	return e.Tell(ctx, id, BlockSignal, job.Task{Name: signalPrefix + s.Name, Kind: kindSignal, State: sent, Data: data})
}

// signals decodes the signals among the tasks of a job.
func (f *Flows) signals(ctx context.Context, id job.ID, tasks []job.Task) (map[string]flow.Value, error) {
	all := map[string]flow.Value{}
	for i := range tasks {
		if t := &tasks[i]; t.Kind == kindSignal && t.State == sent {
			v, err := f.signal(ctx, id, t)
			if err != nil {
				return nil, err
			}
			all[t.Name[len(signalPrefix):]] = v
		}
	}
	return all, nil
}

func (f *Flows) signal(ctx context.Context, id job.ID, t *job.Task) (flow.Value, error) {
	var s storedSignal
	if err := json.Unmarshal(t.Data, &s); err != nil {
		return flow.Value{}, job.Errorf(job.Internal, "decode", id, "%s: %w", t.Name, err)
	}
	return f.fetch(ctx, id, &s.stored)
}

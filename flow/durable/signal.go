package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
)

// Signal is something that a flow is reported.
type Signal struct {
	Name  string
	Value any    // JSON in the end; nil: null
	Actor string // who sends it
	Early bool   // a name that no task declares yet is accepted: a later version of the flow may
}

// longestSignal bounds the name of a signal, in bytes.
const longestSignal = 200

// signalPrefix begins the names of tasks that are signals.
const signalPrefix = "signal:"

// storedSignal is the data of a task that is a signal.
type storedSignal struct {
	stored
	Name  string    `json:"name"`
	Actor string    `json:"actor,omitempty"`
	At    time.Time `json:"at"`
}

// Signal stores a signal of a flow, at the end of the queue of its name. The task that awaits it takes it, now or when
// it comes to that, by the commit of its result. A reset puts all signals away. Errors: Invalid, also for a name that
// no task of the flow declares and for a value of another type than it declares; NotFound; Refused for a flow that has
// ended or has Limits.Signals that no one has taken, Unavailable.
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
	now := e.Clock().Now()
	data, err := json.Marshal(storedSignal{kept, s.Name, s.Actor, now})
	if err != nil {
		return job.Errorf(job.Internal, "signal", id, "%w", err)
	}
	if err := f.admit(ctx, e, &j, s, valueOf(text)); err != nil {
		return err
	}
	name := fmt.Sprintf("%s%020d-%08d-%08x", signalPrefix, now.UnixNano(), f.sent.Add(1), rand.Uint32())
	return e.Notify(ctx, id, BlockSignal, job.Task{Name: name, Kind: kindSignal, State: sent, Data: data})
}

// mostInlets is how many flows are remembered with what they take.
const mostInlets = 1000

// inlet is what signals a flow takes.
type inlet struct {
	left     int // that it may have before they are counted again
	declared flow.Declared
}

// admit refuses a signal that no task declares, one of another type, and one to a flow that has as many as it may have.
// It does not read the tasks of the flow for each signal, but again once as many came as there was space for, and
// before it refuses one.
func (f *Flows) admit(ctx context.Context, e *engine.Engine, j *job.Job, s Signal, v flow.Value) error {
	f.mu.Lock()
	in, known := f.inlets[j.ID]
	pass := known && in.left > 0 && in.declared.Check(s.Name, v, s.Early) == nil
	if pass {
		in.left--
		f.inlets[j.ID] = in
	}
	f.mu.Unlock()
	if pass {
		return nil
	}
	tasks, err := e.Store().Tasks(ctx, j.ID)
	if err != nil {
		return err
	}
	if in.declared, err = f.declared(j, tasks, s.Name); err != nil {
		return err
	}
	if err := in.declared.Check(s.Name, v, s.Early); err != nil {
		if _, there := in.declared[s.Name]; !there {
			return job.Errorf(job.Invalid, "signal", j.ID, "%w; with early it is kept for a task to come", err)
		}
		return job.Errorf(job.Invalid, "signal", j.ID, "%w", err)
	}
	n := waitingSignals(tasks)
	if n >= f.o.Limits.Signals {
		return job.Errorf(job.Refused, "signal", j.ID, "it has %d signals that no task has taken, the most it may have",
			n)
	}
	in.left = f.o.Limits.Signals - n - 1
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inlets == nil || len(f.inlets) >= mostInlets {
		f.inlets = map[job.ID]inlet{}
	}
	f.inlets[j.ID] = in
	return nil
}

// declared gives the signals that a flow declares: by the stored outline, and if that is missing or does not have the
// name, by the flow as its factory makes it now.
func (f *Flows) declared(j *job.Job, tasks []job.Task, name string) (flow.Declared, error) {
	for i := range tasks {
		if tasks[i].Kind != kindOutline {
			continue
		}
		var stored flow.Outline
		if err := json.Unmarshal(tasks[i].Data, &stored); err != nil {
			return nil, job.Errorf(job.Internal, "decode", j.ID, "the outline: %w", err)
		}
		all := stored.Declared()
		if _, there := all[name]; there {
			return all, nil
		}
		if now := f.declaredNow(j); now != nil {
			maps.Copy(now, all)
			return now, nil
		}
		return all, nil
	}
	return f.declaredNow(j), nil
}

// declaredNow is declared by the factory alone; nil if it is not here or makes no flow.
func (f *Flows) declaredNow(j *job.Job) flow.Declared {
	spec, err := SpecOf(j)
	if err != nil || f.o.Factories[spec.Factory] == nil {
		return nil
	}
	item, err := f.build(&spec)
	if err != nil {
		return nil
	}
	outline, err := flow.OutlineOf(item)
	if err != nil {
		return nil
	}
	return outline.Declared()
}

// waitingSignals counts the signals that no task has taken.
func waitingSignals(tasks []job.Task) (n int) {
	for i := range tasks {
		if tasks[i].Kind == kindSignal && tasks[i].State == sent {
			n++
		}
	}
	return n
}

// signals decodes the signals among the tasks of a job, which come by name: the oldest first.
func (f *Flows) signals(ctx context.Context, id job.ID, tasks []job.Task) (map[string][]flow.KeptSignal, error) {
	all := map[string][]flow.KeptSignal{}
	for i := range tasks {
		if t := &tasks[i]; t.Kind == kindSignal && t.State == sent {
			name, v, err := f.signal(ctx, id, t)
			if err != nil {
				return nil, err
			}
			all[name] = append(all[name], flow.KeptSignal{ID: t.Name, Value: v})
		}
	}
	return all, nil
}

// receipt is the task of a signal that was taken.
func receipt(id string) job.Task {
	return job.Task{Name: id, Kind: kindSignal, State: taken, Data: []byte("{}")}
}

func (f *Flows) signal(ctx context.Context, id job.ID, t *job.Task) (name string, v flow.Value, err error) {
	var s storedSignal
	if err := json.Unmarshal(t.Data, &s); err != nil {
		return "", v, job.Errorf(job.Internal, "decode", id, "%s: %w", t.Name, err)
	}
	v, err = f.fetch(ctx, id, &s.stored)
	return s.Name, v, err
}

package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
	Name  string    `json:"name"`
	Actor string    `json:"actor,omitempty"`
	At    time.Time `json:"at"`
}

// Signal stores a signal of a flow, at the end of the queue of its name. The task that awaits it takes it, now or when it comes to that, by the commit of its result. A reset puts
// all signals away. Errors: Invalid, NotFound, Refused for a flow that has ended or has Limits.Signals that nobody has taken, Unavailable.
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
	if err := f.room(ctx, e, id); err != nil {
		return err
	}
	name := fmt.Sprintf("%s%020d-%08d-%08x", signalPrefix, now.UnixNano(), f.sent.Add(1), rand.Uint32())
	return e.Tell(ctx, id, BlockSignal, job.Task{Name: name, Kind: kindSignal, State: sent, Data: data})
}

// mostRooms is for how many flows it is remembered how many more signals they may have.
const mostRooms = 1000

// room refuses a signal to a flow that has as many as it may have. It does not count them for each signal, but again once as many came as there was room for.
func (f *Flows) room(ctx context.Context, e *engine.Engine, id job.ID) error {
	f.mu.Lock()
	left := f.rooms[id]
	if left > 0 {
		f.rooms[id]--
	}
	f.mu.Unlock()
	if left > 0 {
		return nil
	}
	tasks, err := e.Store().Tasks(ctx, id)
	if err != nil {
		return err
	}
	n := waitingSignals(tasks)
	if n >= f.o.Limits.Signals {
		return job.Errorf(job.Refused, "signal", id, "it has %d signals that no task has taken, the most it may have", n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rooms == nil || len(f.rooms) >= mostRooms {
		f.rooms = map[job.ID]int{}
	}
	f.rooms[id] = f.o.Limits.Signals - n - 1
	return nil
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
func (f *Flows) signals(ctx context.Context, id job.ID, tasks []job.Task) (map[string][]flow.Signal, error) {
	all := map[string][]flow.Signal{}
	for i := range tasks {
		if t := &tasks[i]; t.Kind == kindSignal && t.State == sent {
			name, v, err := f.signal(ctx, id, t)
			if err != nil {
				return nil, err
			}
			all[name] = append(all[name], flow.Signal{ID: t.Name, Value: v})
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

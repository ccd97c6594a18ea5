package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Causes of flows that were ended; poison and timeout are those of the engine.
const (
	CauseCancelled = "cancelled" // a person cancelled it, and what it did was rolled back, or could not be
	CauseStopped   = "stopped"   // a person stopped it, and what it did was kept
)

// Ending is a request to end a flow: by a person, its deadline, or because its workers crash.
type Ending struct {
	Keep  bool      `json:"keep,omitempty"` // nothing is rolled back
	Now   bool      `json:"now,omitempty"`  // running tasks are interrupted
	Cause string    `json:"cause"`          // of the flow's end
	Text  string    `json:"text"`           // for people
	Actor string    `json:"actor,omitempty"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at,omitzero"`

	// it ends because of its crashed workers: when the starts are used up once more, it fails
	Poisoned bool `json:"poisoned,omitempty"`
}

// kindEnding is the kind of the task that holds the request, requested its state. The task is the truth: a worker that
// has not read the request cannot overwrite it.
const (
	kindEnding job.Kind        = "flow.ending"
	requested  lifecycle.State = "REQUESTED"
	endingName                 = "ending:"
)

// errSuperseded is why a flow does not end as its runner found: a request to end came first. It is loaded again.
var errSuperseded = errors.New("a request to end the flow came first")

// request gives the form for the runner.
func (e *Ending) request() flow.Ending {
	return flow.Ending{Keep: e.Keep, Now: e.Now, Type: strings.ToUpper(e.Cause[:1]) + e.Cause[1:], Text: e.Text}
}

func (e *Ending) task() job.Task {
	text, _ := json.Marshal(e) // plain fields: cannot fail
	return job.Task{Name: endingName, Kind: kindEnding, State: requested, Data: text, Message: e.Text}
}

// endingOf finds the request among the tasks of a job; nil: there is none.
func endingOf(id job.ID, tasks []job.Task) (*Ending, error) {
	for i := range tasks {
		t := &tasks[i]
		if t.Kind != kindEnding || t.State != requested {
			continue
		}
		e := &Ending{}
		if err := json.Unmarshal(t.Data, e); err != nil {
			return nil, job.Errorf(job.Internal, "decode", id, "%s: %w", t.Name, err)
		}
		return e, nil
	}
	return nil, nil
}

// end completes the event by which a person ends a flow.
func end(j *job.Job, a *operator.Act, c *job.Change, d *Data) {
	e := &Ending{Keep: c.Event == flow.Halt, Now: a.Now, Cause: CauseCancelled, Actor: c.Actor, Note: c.Note, At: c.At}
	verb := "cancelled"
	if e.Keep {
		e.Cause, verb = CauseStopped, "stopped"
	}
	e.Text = "the flow was " + verb
	if e.Actor != "" {
		e.Text += " by " + e.Actor
	}
	if e.Note != "" {
		e.Text += ": " + e.Note
	}
	d.End, d.Suspend = e, nil
	switch j.State {
	case flow.Pending:
		c.Set.Cause, c.Set.Message = &e.Cause, &e.Text
		return
	case flow.Suspended, flow.FailureState:
		if d.Again != flow.FailureState {
			d.Again = j.State
		}
	}
	c.Tasks = append(c.Tasks, e.task())
}

// unend puts away a request that was settled, because the flow is run again.
func unend(c *job.Change, d *Data) {
	if d.End != nil {
		t := d.End.task()
		t.State = putAway
		c.Tasks, d.End = append(c.Tasks, t), nil
	}
}

// ends takes in a request and passes it to the runner, if there is one.
func (s *session) ends(e *Ending) {
	if e == nil || s.end != nil && s.end.request() == e.request() && s.end.Poisoned == e.Poisoned {
		return
	}
	s.end, s.data.End, s.poked = e, e, true
	if s.runner != nil {
		s.runner.Cancel(e.request())
	}
}

// ownEnd makes a request of the flow's own; it is stored with the next commit.
func (s *session) ownEnd(e *Ending) {
	e.At = s.run.Now()
	s.run.PutTask(e.task())
	s.ends(e)
}

// limit is the time at which the flow's deadline has passed, or its time in the state; zero: there is none.
func (s *session) limit() time.Time {
	j := s.run.Job()
	at := j.Deadline
	if d := s.flows.o.Policies[j.State].Timeout; d > 0 && (at.IsZero() || j.Entered.Add(d).Before(at)) {
		at = j.Entered.Add(d)
	}
	if s.end != nil {
		return time.Time{}
	}
	return at
}

// expire ends the flow if its time is up.
func (s *session) expire() {
	at := s.limit()
	if at.IsZero() || s.run.Now().Before(at) {
		return
	}
	what := "its time in the state was up at"
	if at.Equal(s.run.Job().Deadline) {
		what = "its deadline passed at"
	}
	s.ownEnd(&Ending{Keep: s.spec.Settings.KeepAtDeadline, Now: true, Cause: cause.Timeout,
		Text: what + " " + at.UTC().Format(time.RFC3339)})
}

// poison ends a flow whose workers crashed too often: it is rolled back, with a budget of starts of its own. It gives
// an error when that is used up too.
func (s *session) poison(ctx context.Context, tasks []job.Task) error {
	j := s.run.Job()
	if j.Starts <= s.flows.o.MaxStarts {
		return nil
	}
	var at []string
	for i := range tasks {
		if t := &tasks[i]; isAtom(t) && (t.State == flow.Running || t.State == flow.Reverting) {
			at = append(at, t.Name)
		}
	}
	text := fmt.Sprintf("%d workers in turn crashed in state %s", j.Starts-1, j.State)
	if len(at) > 0 {
		text += ", running " + someOf(at)
	}
	if s.end != nil && s.end.Poisoned {
		return errors.New(text)
	}
	e := Ending{Cause: cause.Poison, Text: text}
	if s.end != nil {
		e.Keep, e.Now = s.end.Keep, s.end.Now
	}
	e.Poisoned = true
	s.ownEnd(&e)
	s.run.Advanced()
	return s.run.Save(ctx)
}

// settle gives the atoms of a flow that cannot be loaded states to end with, and states what remains.
func (s *session) settle(tasks []job.Task) (remains []string, err error) {
	for i := range tasks {
		t := &tasks[i]
		if !isAtom(t) {
			continue
		}
		var d atomData
		if err := json.Unmarshal(t.Data, &d); err != nil {
			return remains, job.Errorf(job.Internal, "decode", s.id, "the record of %s: %w", t.Name, err)
		}
		was := t.State
		broken := &flow.Failure{Type: flow.TypeInterrupted,
			Message: t.Name + " was interrupted, and its flow could not be loaded"}
		switch t.State {
		case flow.Running:
			t.State, t.Message, d.Failure = flow.FailureState, broken.Message, broken
			d.Waits, d.Awaits, d.Due = false, "", time.Time{}
		case flow.Reverting:
			t.State, t.Message, d.RevertFailure = flow.RevertFailure, broken.Message, broken
		}
		if t.Kind == kindTask && remain(t.State) {
			remains = append(remains, t.Name)
		}
		if s.end.Keep && was == t.State || !s.end.Keep && was == t.State && d.Intention == flow.ToRevert {
			continue
		}
		if !s.end.Keep {
			d.Intention = flow.ToRevert
		}
		if t.Data, err = json.Marshal(&d); err != nil {
			return remains, job.Errorf(job.Internal, "encode", s.id, "the record of %s: %w", t.Name, err)
		}
		s.run.PutTask(*t)
	}
	return remains, nil
}

// remain reports whether a task in a state has effects that were not rolled back.
func remain(state lifecycle.State) bool {
	switch state {
	case flow.Success, flow.FailureState, flow.RevertFailure, flow.Running, flow.Reverting:
		return true
	}
	return false
}

package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// State names a state of a lifecycle, such as "Downloading".
type State string

// Event names what happens to a job: one word, the same in code, API, CLI, log and docs.
type Event string

// The events that every lifecycle shares. Queue and Work stages carry these loops, which stay in the state.
const (
	Lost    Event = "lost"    // the lease expired; the start stays counted
	Waiting Event = "wait"    // the step waits for something; no attempt is counted
	Backoff Event = "backoff" // a temporary error; an attempt is counted
	Yield   Event = "yield"   // the worker stops and returns the job; no attempt is counted

	Reprioritize Event = "priority" // an operator changes its position in the queue; in every state but the ends
)

// Actor is a set of the actors that may cause a transition.
type Actor uint8

// The five actors.
const (
	Worker   Actor = 1 << iota // the outcome of a step
	Timer                      // a deadline, a sweep, retention
	Operator                   // a person who runs the system
	Owner                      // the depositor, or another person whose job it is
	Engine                     // the engine itself: batches and triage
)

// Actors lists the single actors in their order of declaration.
func Actors() []Actor { return []Actor{Worker, Timer, Operator, Owner, Engine} }

// String returns the names of the set, joined by commas: "worker,timer".
func (a Actor) String() string {
	names := []string{}
	for i, name := range []string{"worker", "timer", "operator", "owner", "engine"} {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// ParseActor reads what String writes. It returns an error that names the unknown word.
func ParseActor(s string) (Actor, error) {
	var set Actor
next:
	for word := range strings.SplitSeq(s, ",") {
		for _, a := range Actors() {
			if a.String() == strings.TrimSpace(word) {
				set |= a
				continue next
			}
		}
		return 0, fmt.Errorf("unknown actor %q (known: worker, timer, operator, owner, engine)", word)
	}
	return set, nil
}

// Outcome is how a job ended, or will end once its cleanup is done. It is not a state.
type Outcome string

// The outcomes. The empty one means that the outcome is not decided yet.
const (
	None      Outcome = ""
	OK        Outcome = "ok"
	Failed    Outcome = "failed"
	TimedOut  Outcome = "timed-out"
	Cancelled Outcome = "cancelled"
)

// Kind is what a job in the state waits for.
type Kind string

// The kinds of stage; see the package documentation.
const (
	Queue Kind = "queue"
	Work  Kind = "work"
	Wait  Kind = "wait"
	End   Kind = "end"
)

// Class is the effect of a transition on the job's position.
type Class string

// The classes of transition.
const (
	Pass    Class = "pass"    // success: the state left becomes LastOK
	Fail    Class = "fail"    // failure or timeout: the state left becomes Origin, where a retry re-enters
	Move    Class = "move"    // neither: hold, release, cancel, delete
	Loop    Class = "loop"    // stays in the state
	Reenter Class = "reenter" // goes to the position's Origin, if it is listed
)

// Transition is one exit of a stage.
type Transition struct {
	Event   Event   `json:"event"`
	To      State   `json:"to,omitempty"`      // target; empty for Reenter
	States  []State `json:"states,omitempty"`  // Reenter only: the states that may be re-entered
	By      Actor   `json:"by"`                // who may cause it
	Class   Class   `json:"class"`             //
	Set     Outcome `json:"sets,omitempty"`    // outcome that the transition decides, unless one is decided already
	Need    Outcome `json:"when,omitempty"`    // legal only with this outcome
	Restart bool    `json:"restart,omitempty"` // empties the outcome: the job runs again
	Ask     bool    `json:"asks,omitempty"`    // by a person: the worker keeps its claim and is notified
	Budget  string  `json:"budget,omitempty"`  // the limit that ends a loop without people in it
	Doc     string  `json:"doc"`               // one sentence
}

// Sets returns the transition with the outcome that it decides.
func (a Transition) Sets(o Outcome) Transition { a.Set = o; return a }

// When returns the transition as legal only for jobs with outcome o.
func (a Transition) When(o Outcome) Transition { a.Need = o; return a }

// Restarts returns the transition as one that empties the outcome, so that an ended job runs again.
func (a Transition) Restarts() Transition { a.Restart = true; return a }

// Asks returns the transition as one by which a person asks something of a job at work: its worker keeps the claim and
// is notified. Any other transition by a person ends the claim.
func (a Transition) Asks() Transition { a.Ask = true; return a }

// Stays reports whether the transition is a loop that asks nothing of the worker.
func (a Transition) Stays() bool { return a.Class == Loop && !a.Ask }

// Within returns the transition with the name of the limit that ends the loop it closes.
func (a Transition) Within(budget string) Transition { a.Budget = budget; return a }

// Targets lists the states to which the transition can lead.
func (a Transition) Targets() []State {
	if a.Class == Reenter {
		return a.States
	}
	return []State{a.To}
}

// OnPass is a transition of success.
func OnPass(e Event, to State, by Actor, doc string) Transition {
	return Transition{Event: e, To: to, By: by, Class: Pass, Doc: doc}
}

// OnFail is a transition of failure or timeout.
func OnFail(e Event, to State, by Actor, doc string) Transition {
	return Transition{Event: e, To: to, By: by, Class: Fail, Doc: doc}
}

// On is a transition that is neither success nor failure.
func On(e Event, to State, by Actor, doc string) Transition {
	return Transition{Event: e, To: to, By: by, Class: Move, Doc: doc}
}

// OnReenter is a transition back to the state the last failure left, if it is one of states.
func OnReenter(e Event, by Actor, doc string, states ...State) Transition {
	return Transition{Event: e, By: by, Class: Reenter, States: states, Doc: doc}
}

// OnLoop is a transition that stays in the state.
func OnLoop(e Event, by Actor, doc string) Transition {
	return Transition{Event: e, By: by, Class: Loop, Doc: doc}
}

// Stage is one state of a table with the transitions that leave it.
type Stage struct {
	State State `json:"state"`
	Kind  Kind  `json:"kind"`
	// End: the outcome of a job that ends here; empty keeps what was decided
	Outcome     Outcome      `json:"outcome,omitempty"`
	Restartable bool         `json:"restartable,omitempty"` // End: its transitions may restart the job
	Endures     string       `json:"endures,omitempty"`     // Work: why it has no failure exit and tries indefinitely
	Limit       string       `json:"bounded,omitempty"`     // Queue: what ends its attempts, as it has no failure exit
	Doc         string       `json:"doc"`                   // how a job comes here and what leaves the state
	Transitions []Transition `json:"arrows,omitempty"`
}

// OnQueue is a stage that waits for a worker. It gets the loops of every queue and work state, except for events that
// have a transition in the arguments.
func OnQueue(s State, doc string, transitions ...Transition) Stage {
	return Stage{State: s, Kind: Queue, Doc: doc, Transitions: withLoops(s, transitions)}
}

// OnWork is a stage that a worker works on. It gets loops as [OnQueue] does.
func OnWork(s State, doc string, transitions ...Transition) Stage {
	return Stage{State: s, Kind: Work, Doc: doc, Transitions: withLoops(s, transitions)}
}

// OnWait is a stage that waits for a person, a timer, the engine or something outside.
func OnWait(s State, doc string, transitions ...Transition) Stage {
	return Stage{State: s, Kind: Wait, Doc: doc, Transitions: append(slices.Clone(transitions), reprioritize(s))}
}

// OnEnd is a stage in which jobs end with outcome o (None: with the outcome that they have).
func OnEnd(s State, o Outcome, doc string, transitions ...Transition) Stage {
	return Stage{State: s, Kind: End, Outcome: o, Doc: doc, Transitions: transitions}
}

// Again returns the stage as an end that can be run again.
func (s Stage) Again() Stage { s.Restartable = true; return s }

// Enduring returns the stage as one that has no failure exit, with the reason.
func (s Stage) Enduring(why string) Stage { s.Endures = why; return s }

// Bounded returns the stage as a queue without a failure exit, with what ends the attempts of its step instead.
func (s Stage) Bounded(why string) Stage { s.Limit = why; return s }

// withLoops adds the loops, except for events that the transitions have.
func withLoops(s State, transitions []Transition) []Transition {
	all := slices.Clone(transitions)
	for _, loop := range loops(s) {
		if !slices.ContainsFunc(transitions, func(a Transition) bool { return a.Event == loop.Event }) {
			all = append(all, loop)
		}
	}
	return all
}

func loops(s State) []Transition {
	loop := func(e Event, by Actor, budget, doc string) Transition {
		return Transition{Event: e, To: s, By: by, Class: Loop, Budget: budget, Doc: doc}
	}
	return []Transition{
		loop(Waiting, Worker, "the state's timeout", "the step waits for something; no attempt is counted"),
		loop(Backoff, Worker, "max_attempts", "a temporary error; tried again after a pause"),
		loop(Yield, Worker, "the worker's stop", "its worker stops and returns the job; no attempt is counted"),
		loop(Lost, Timer, "max_starts", "the lease of its worker expired; another worker claims the job"),
		reprioritize(s),
	}
}

// reprioritize is the loop of every state in which a job has not ended.
func reprioritize(s State) Transition {
	return Transition{Event: Reprioritize, To: s, By: Operator, Class: Loop,
		Doc: "an operator changes its position in the queue; its worker continues"}
}

// Table is a checked lifecycle. It is immutable and safe for concurrent use.
type Table struct {
	name   string
	stages []Stage
	index  map[State]int
	// states to which a re-entering transition can go back: a failure in one is recorded even if it is a wait state
	phases map[State]bool
	hash   string
}

// New checks the stages and makes a table of them. The error is a [Faults] with every fault.
func New(name string, stages ...Stage) (*Table, error) {
	t := build(name, stages)
	if faults := check(t); len(faults) > 0 {
		return nil, faults
	}
	return t, nil
}

// Must is New for tables that are written in code. It panics if the table has faults.
func Must(name string, stages ...Stage) *Table {
	t, err := New(name, stages...)
	if err != nil {
		panic("lifecycle " + name + ":\n" + err.Error())
	}
	return t
}

func build(name string, stages []Stage) *Table {
	t := &Table{name: name, index: make(map[State]int, len(stages)), phases: map[State]bool{}}
	for _, s := range stages {
		s = s.clone()
		for i := range s.Transitions {
			if s.Transitions[i].Class == Loop {
				s.Transitions[i].To = s.State
			}
			for _, back := range s.Transitions[i].States {
				t.phases[back] = true
			}
		}
		if _, dup := t.index[s.State]; !dup {
			t.index[s.State] = len(t.stages)
		}
		t.stages = append(t.stages, s)
	}
	t.hash = digest(t)
	return t
}

// digest covers what decides moves, not the sentences: another wording is the same lifecycle.
func digest(t *Table) string {
	stages := make([]Stage, len(t.stages))
	for i, s := range t.stages {
		s.Doc, s.Endures, s.Limit = "", "", ""
		s.Transitions = slices.Clone(s.Transitions)
		for j := range s.Transitions {
			s.Transitions[j].Doc, s.Transitions[j].Budget = "", ""
		}
		stages[i] = s
	}
	text, _ := json.Marshal(stages) // plain strings and numbers: cannot fail
	sum := sha256.Sum256(append([]byte(t.name+"\n"), text...))
	return hex.EncodeToString(sum[:8])
}

// Name returns the kind of the jobs of the table, such as "flow".
func (t *Table) Name() string { return t.name }

// Hash identifies the table's states and transitions: 16 hexadecimal digits. Each job is bound to one hash.
func (t *Table) Hash() string { return t.hash }

// Stages returns copies of the stages in order; the first is the start.
func (t *Table) Stages() []Stage {
	all := slices.Clone(t.stages)
	for i := range all {
		all[i] = all[i].clone()
	}
	return all
}

// Stage returns a copy of the stage of a state, and whether the table has it.
func (t *Table) Stage(s State) (Stage, bool) {
	stage, ok := t.stage(s)
	return stage.clone(), ok
}

func (s Stage) clone() Stage {
	s.Transitions = slices.Clone(s.Transitions)
	for i := range s.Transitions {
		s.Transitions[i].States = slices.Clone(s.Transitions[i].States)
	}
	return s
}

// stage is Stage without the copy.
func (t *Table) stage(s State) (Stage, bool) {
	i, ok := t.index[s]
	if !ok {
		return Stage{}, false
	}
	return t.stages[i], true
}

// Kind returns the kind of a state without a copy of its stage; empty if the table does not have the state.
func (t *Table) Kind(s State) Kind {
	if i, ok := t.index[s]; ok {
		return t.stages[i].Kind
	}
	return ""
}

// Transition returns the transition of event e from state s, and whether there is one.
func (t *Table) Transition(s State, e Event) (Transition, bool) {
	if a := t.transition(s, e); a != nil {
		return *a, true
	}
	return Transition{}, false
}

// transition is Transition without the copy; nil if there is none.
func (t *Table) transition(s State, e Event) *Transition {
	i, ok := t.index[s]
	if !ok {
		return nil
	}
	for n := range t.stages[i].Transitions {
		if a := &t.stages[i].Transitions[n]; a.Event == e {
			return a
		}
	}
	return nil
}

// Ended reports whether s is an end.
func (t *Table) Ended(s State) bool {
	i, ok := t.index[s]
	return ok && t.stages[i].Kind == End
}

// Tombstone reports whether s is an end without exits and without an outcome of its own: Deleted, Cleaned.
func (t *Table) Tombstone(s State) bool {
	i, ok := t.index[s]
	return ok && t.stages[i].Kind == End && t.stages[i].Outcome == None && len(t.stages[i].Transitions) == 0
}

// Events lists all events of the table, each once, in order of appearance.
func (t *Table) Events() []Event {
	var events []Event
	for _, s := range t.stages {
		for _, a := range s.Transitions {
			if !slices.Contains(events, a.Event) {
				events = append(events, a.Event)
			}
		}
	}
	return events
}

// MarshalJSON writes name, hash and stages.
func (t *Table) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name   string  `json:"name"`
		Hash   string  `json:"hash"`
		Stages []Stage `json:"stages"`
	}{t.name, t.hash, t.stages})
}

// MarshalJSON writes the set as a list of names.
func (a Actor) MarshalJSON() ([]byte, error) {
	names := []string{}
	for _, one := range Actors() {
		if a&one != 0 {
			names = append(names, one.String())
		}
	}
	return json.Marshal(names)
}

// UnmarshalJSON reads a list of names.
func (a *Actor) UnmarshalJSON(text []byte) error {
	var names []string
	err := json.Unmarshal(text, &names)
	if err == nil {
		*a, err = ParseActor(strings.Join(names, ","))
	}
	return err
}

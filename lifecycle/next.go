package lifecycle

import (
	"fmt"
	"strings"
)

// Position is the position of a job in its lifecycle.
type Position struct {
	State   State   `json:"state"`
	LastOK  State   `json:"last_ok,omitempty"` // last state left by success; failure, hold and retry do not change it
	Origin  State   `json:"origin,omitempty"`  // state that the last failure left; a retry goes back there
	Outcome Outcome `json:"outcome,omitempty"`
}

// Illegal is the error of an event that is not legal at a position. It lists the legal ones.
type Illegal struct {
	Table    string
	Position Position
	Event    Event
	By       Actor
	Why      string  // the rule that refused
	Can      []Event // the legal events of the same actor
}

func (e *Illegal) Error() string {
	can := "nothing"
	if len(e.Can) > 0 {
		words := make([]string, len(e.Can))
		for i, c := range e.Can {
			words[i] = string(c)
		}
		can = strings.Join(words, ", ")
	}
	why := ": " + e.Why
	if e.Why == noTransition {
		why = ""
	}
	return fmt.Sprintf("%s%s (can: %s)", e.Event.deniedTo(e.Position.State), why, can)
}

// noTransition is the rule of an event that the state does not have. The error omits it, because its first part states
// it.
const noTransition = "the lifecycle has no such transition"

// participles has the past participles of events of people, for messages.
var participles = map[Event]string{
	"retry": "retried", "cancel": "cancelled", "stop": "stopped", "hold": "held", "release": "released",
	"delete": "deleted", "suspend": "suspended", "resume": "resumed", "kill": "killed", "clean": "cleaned",
	"update": "updated", "requeue": "requeued", "reset": "reset", "discard": "discarded", "undo": "undone",
	"revert": "reverted", "approve": "approved", "reject": "rejected",
}

// deniedTo states that the event is not possible in a state: "a Completed job cannot be released".
func (e Event) deniedTo(s State) string {
	article := "a"
	if s != "" && strings.ContainsRune("AEIOUaeiou", rune(s[0])) {
		article = "an"
	}
	if done := participles[e]; done != "" {
		return fmt.Sprintf("%s %s job cannot be %s", article, s, done)
	}
	return fmt.Sprintf("%s %s job does not take the event %s", article, s, e)
}

// Start returns the position of a new job.
func (t *Table) Start() Position { return Position{State: t.stages[0].State} }

// Next returns the position after event e, caused by one actor. The error is an *[Illegal].
func (t *Table) Next(p Position, e Event, by Actor) (Position, error) {
	a := t.transition(p.State, e)
	if a == nil {
		return p, t.illegal(p, e, by, noTransition)
	}
	if why := t.refuse(p, a, by); why != "" {
		return p, t.illegal(p, e, by, why)
	}
	return t.follow(p, a), nil
}

// refuse returns why transition a is not legal at p for the actor, or an empty string.
func (t *Table) refuse(p Position, a *Transition, by Actor) string {
	if a.By&by == 0 {
		return "only " + strings.ReplaceAll(a.By.String(), ",", " or ") + " may"
	}
	if a.Need != None && a.Need != p.Outcome {
		return fmt.Sprintf("its outcome is %q, not %q", p.Outcome, a.Need)
	}
	if a.Class == Reenter {
		for _, s := range a.States {
			if s == p.Origin {
				return ""
			}
		}
		return fmt.Sprintf("it failed in %q, which is not one to go back to", p.Origin)
	}
	return ""
}

// follow computes the position after a legal transition.
func (t *Table) follow(p Position, a *Transition) Position {
	from := &t.stages[t.index[p.State]]
	next := p
	switch a.Class {
	case Loop:
		return p
	case Reenter:
		next.State = p.Origin
	case Pass:
		next.State, next.LastOK = a.To, p.State
	case Fail:
		next.State = a.To
		if from.Kind != End && (from.Kind != Wait || t.phases[from.State]) {
			next.Origin = p.State
		}
	default:
		next.State = a.To
	}
	if a.Restart || (a.Class == Reenter && from.Kind == End) {
		next.Outcome = None
	}
	if next.Outcome == None {
		next.Outcome = a.Set
	}
	if to := &t.stages[t.index[next.State]]; to.Kind == End && next.Outcome == None {
		next.Outcome = to.Outcome
	}
	return next
}

func (t *Table) illegal(p Position, e Event, by Actor, why string) error {
	return &Illegal{Table: t.name, Position: p, Event: e, By: by, Why: why, Can: t.Can(p, by)}
}

// Can lists the events that the actor may cause at p, without loops, in the table's order.
func (t *Table) Can(p Position, by Actor) []Event {
	i, ok := t.index[p.State]
	if !ok {
		return nil
	}
	stage := &t.stages[i]
	var events []Event
	for i := range stage.Transitions {
		a := &stage.Transitions[i]
		if !a.Stays() && t.refuse(p, a, by) == "" {
			events = append(events, a.Event)
		}
	}
	return events
}

// Choose returns the only event of class c that actor by may cause at p: the success event of a step that names no
// event, or the failure event of a step that failed. ok is false if there is none or more than one.
func (t *Table) Choose(p Position, c Class, by Actor) (e Event, ok bool) {
	at, found := t.index[p.State]
	if !found {
		return "", false
	}
	stage, n := &t.stages[at], 0
	for i := range stage.Transitions {
		a := &stage.Transitions[i]
		if a.Class == c && t.refuse(p, a, by) == "" {
			e, n = a.Event, n+1
		}
	}
	return e, n == 1
}

// Taken is one transition of a history.
type Taken struct {
	Event Event
	By    Actor
}

// Replay follows a history from the start and returns the last position. The error names the first move that the table
// does not allow, and its index.
func (t *Table) Replay(moves []Taken) (Position, error) {
	p := t.Start()
	for i, m := range moves {
		next, err := t.Next(p, m.Event, m.By)
		if err != nil {
			return p, fmt.Errorf("move %d: %w", i+1, err)
		}
		p = next
	}
	return p, nil
}

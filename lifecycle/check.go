package lifecycle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rule names a rule that every table keeps.
type Rule string

// The rules of a table.
const (
	NoStages        Rule = "no-stages"         // a table has at least one state
	BadName         Rule = "bad-name"          // a table and an event have one word as name; no event is reserved
	Duplicate       Rule = "duplicate-state"   // a state is described once
	MissingSentence Rule = "missing-sentence"  // every state and transition has a sentence
	TwoTransitions  Rule = "two-transitions"   // an event has one transition in a state
	NoActor         Rule = "no-actor"          // each transition has an actor
	Unlisted        Rule = "unlisted-state"    // transitions lead to states of the table
	Unreachable     Rule = "unreachable-state" // every state can be reached from the start
	DeadEnd         Rule = "dead-end"          // a state that nothing leaves, whatever the outcome, is an end
	NoFailure       Rule = "no-failure-exit"   // work has a failure exit; a queue has one or bounded attempts
	NotBounded      Rule = "not-bounded"       // only a queue without a failure exit states what bounds its attempts
	NoTimeout       Rule = "no-timeout-exit"   // a timer leaves a work state
	NoLost          Rule = "no-lost-exit"      // a worker can crash
	EndLeft         Rule = "end-left"          // an end is left only by an operator, by retention or by a restart
	WrongOutcome    Rule = "wrong-outcome"     // a success end is reached with outcome ok only
	NoBudget        Rule = "no-budget"         // a loop without people has a limit
	NoWakeup        Rule = "no-wakeup"         // a waiting state has an owner or a timer
	NoWorker        Rule = "no-worker"         // only people ask a worker, between states that are no ends
)

// Fault is a violation of a rule.
type Fault struct {
	Rule   Rule   `json:"rule"`
	State  State  `json:"state,omitempty"`
	Event  Event  `json:"event,omitempty"` // empty when the fault is the state's
	Detail string `json:"detail"`
}

func (f Fault) String() string {
	at := string(f.State)
	if f.Event != "" {
		at += " -" + string(f.Event) + "->"
	}
	if at != "" {
		at += ": "
	}
	return at + f.Detail + " [" + string(f.Rule) + "]"
}

// Faults is the error of an invalid table. It has all faults.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Check returns every fault of the stages, in the order of the states, without making a table. Tools that read tables
// from files use it to report the positions of all faults.
func Check(name string, stages ...Stage) Faults { return check(build(name, stages)) }

func check(t *Table) Faults {
	if len(t.stages) == 0 {
		return Faults{{Rule: NoStages, Detail: "a lifecycle needs at least one state"}}
	}
	c := &checker{t: t}
	if !named(t.name) {
		c.add(BadName, Stage{}, "", "the lifecycle needs a name without blanks, slashes and control characters, not %",
			strconv.Quote(t.name))
	}
	seen := map[State]bool{}
	reached := c.reach()
	for _, s := range t.stages {
		if seen[s.State] {
			c.add(Duplicate, s, "", "the state is described twice")
			continue
		}
		seen[s.State] = true
		if strings.TrimSpace(string(s.State)) == "" {
			c.add(BadName, s, "", "a state has no name")
		}
		if strings.TrimSpace(s.Doc) == "" {
			c.add(MissingSentence, s, "", "the state has no sentence")
		}
		if !reached[s.State] {
			c.add(Unreachable, s, "", "no transition leads here from %", string(t.stages[0].State))
		}
		c.transitions(s)
		c.exits(s)
	}
	c.outcomes()
	c.circles()
	return c.faults
}

// reserved are the events that no table has: the creation of a job and the removal of its record.
var reserved = []Event{"create", "purge"}

// named reports whether a name is one word that fits into an address.
func named(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == utf8.RuneError || unicode.IsControl(r) || unicode.IsSpace(r)
	})
}

type checker struct {
	t      *Table
	faults Faults
}

// add records a fault; each % of the format is replaced by the next of args.
func (c *checker) add(r Rule, s Stage, e Event, format string, args ...string) {
	parts := strings.Split(format, "%")
	detail := parts[0]
	for i, part := range parts[1:] {
		detail += args[i] + part
	}
	c.faults = append(c.faults, Fault{Rule: r, State: s.State, Event: e, Detail: detail})
}

// transitions checks each transition on its own.
func (c *checker) transitions(s Stage) {
	seen := map[Event]bool{}
	for _, a := range s.Transitions {
		if seen[a.Event] {
			c.add(TwoTransitions, s, a.Event, "the event has two transitions here; a choice is an event of its own")
		}
		seen[a.Event] = true
		switch {
		case slices.Contains(reserved, a.Event):
			c.add(BadName, s, a.Event, "the name of the event is reserved for the first and the last entry about a job")
		case !named(string(a.Event)):
			c.add(BadName, s, a.Event, "an event is one word without slashes and control characters, not %",
				strconv.Quote(string(a.Event)))
		}
		if strings.TrimSpace(a.Doc) == "" {
			c.add(MissingSentence, s, a.Event, "the transition has no sentence")
		}
		if a.By == 0 {
			c.add(NoActor, s, a.Event, "the transition has no actor")
		}
		c.asks(s, a)
		targets := a.Targets()
		if len(targets) == 0 {
			c.add(Unlisted, s, a.Event, "the transition goes back to no state")
		}
		for _, to := range targets {
			if _, ok := c.t.index[to]; !ok {
				c.add(Unlisted, s, a.Event, "the transition leads to %, which is not a state of the table", string(to))
			}
		}
	}
}

// asks checks that a transition that asks a worker is one of people, between states that are no ends.
func (c *checker) asks(s Stage, a Transition) {
	if !a.Ask {
		return
	}
	if a.By&^(Operator|Owner) != 0 {
		c.add(NoWorker, s, a.Event, "only people ask the worker, not %", (a.By &^ (Operator | Owner)).String())
	}
	for _, st := range append([]State{s.State}, a.Targets()...) {
		if c.t.Ended(st) {
			c.add(NoWorker, s, a.Event, "% is an end: there is no worker to ask", string(st))
		}
	}
}

// exits checks that the required actors, and no others, can leave a stage.
func (c *checker) exits(s Stage) {
	out := slices.DeleteFunc(slices.Clone(s.Transitions), func(a Transition) bool { return a.Class == Loop })
	switch {
	case s.Kind == End:
		c.end(s, out)
		return
	case len(out) == 0:
		c.add(DeadEnd, s, "", "nothing leaves the state and it is not an end")
		return
	}
	has := func(match func(Transition) bool) bool { return slices.ContainsFunc(s.Transitions, match) }
	fails := has(func(a Transition) bool { return a.Class == Fail && a.By&Worker != 0 })
	if s.Limit != "" && (s.Kind != Queue || fails) {
		c.add(NotBounded, s, "", "only a queue without a failure exit may have bounded (what ends its attempts)")
	}
	switch s.Kind {
	case Work:
		if s.Endures == "" {
			if !fails {
				c.add(NoFailure, s, "", "a step here can fail, and there is no transition for that")
			}
			if !has(func(a Transition) bool { return a.Class != Loop && a.By&Timer != 0 }) {
				c.add(NoTimeout, s, "", "a step here can take too long, and no timer takes the job away")
			}
		}
		c.lost(s, has)
	case Queue:
		if !has(func(a Transition) bool { return a.Class != Loop && a.By&Worker != 0 }) {
			c.add(NoWakeup, s, "", "it waits for a worker, and no transition lets a worker take it")
		}
		if !fails && strings.TrimSpace(s.Limit) == "" {
			c.add(NoFailure, s, "", "a step here can fail, and there is no transition for that; "+
				"add one, or state what ends its attempts (Bounded, in YAML bounded)")
		}
		c.lost(s, has)
	case Wait:
		if !has(func(a Transition) bool { return a.Class != Loop && a.By&(Operator|Owner|Timer|Engine) != 0 }) {
			c.add(NoWakeup, s, "", "it waits, and neither a person nor a timer nor the engine can end that")
		}
	}
}

func (c *checker) lost(s Stage, has func(func(Transition) bool) bool) {
	if !has(func(a Transition) bool { return a.Event == Lost && a.By&Timer != 0 }) {
		c.add(NoLost, s, "", "a worker can crash here, and there is no transition for that")
	}
}

func (c *checker) end(s Stage, out []Transition) {
	for _, a := range out {
		people := a.By&^(Operator|Owner) == 0
		retention := a.By&^(Operator|Owner|Timer) == 0 && c.tombstones(a)
		restart := a.Restart && s.Restartable
		if (people && (a.By == Operator || a.Class == Reenter || a.Restart || c.tombstones(a))) || retention ||
			restart {
			continue
		}
		c.add(EndLeft, s, a.Event,
			"an end may be left only by an operator, by retention or by a restart, not by % to %",
			a.By.String(), string(a.To))
	}
}

func (c *checker) tombstones(a Transition) bool {
	for _, to := range a.Targets() {
		if !c.t.Tombstone(to) {
			return false
		}
	}
	return true
}

// reach returns the states that can be reached from the start.
func (c *checker) reach() map[State]bool {
	reached := map[State]bool{c.t.stages[0].State: true}
	for todo := []State{c.t.stages[0].State}; len(todo) > 0; todo = todo[1:] {
		s, _ := c.t.stage(todo[0])
		for _, a := range s.Transitions {
			for _, to := range a.Targets() {
				if !reached[to] {
					reached[to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	return reached
}

// outcomes walks all pairs of state and outcome. It reports success ends that are reached with another outcome than ok,
// and states that are reached with an outcome that none of their exits accepts.
func (c *checker) outcomes() {
	type pair struct {
		s State
		o Outcome
	}
	seen := map[pair]bool{}
	bad := map[State]bool{}
	start := pair{c.t.stages[0].State, None}
	for todo := []pair{start}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		s, ok := c.t.stage(at.s)
		if !ok || seen[at] {
			continue
		}
		seen[at] = true
		if s.Kind == End && s.Outcome == OK && at.o != OK && !bad[at.s] {
			bad[at.s] = true
			c.add(WrongOutcome, s, "", "the end means success and can be reached with outcome %", string(at.o))
		}
		exits := 0
		for _, a := range s.Transitions {
			if a.Class == Loop || (a.Need != None && a.Need != at.o) {
				continue
			}
			exits++
			for _, to := range a.Targets() {
				if _, ok := c.t.index[to]; !ok {
					continue
				}
				from := Position{State: at.s, Origin: to, Outcome: at.o}
				todo = append(todo, pair{to, c.t.follow(from, &a).Outcome})
			}
		}
		needs := func(a Transition) bool { return a.Need != None }
		if exits == 0 && s.Kind != End && slices.ContainsFunc(s.Transitions, needs) {
			c.add(DeadEnd, s, "", "nothing leaves the state with outcome %, with which it can be reached", quoted(at.o))
		}
	}
}

func quoted(o Outcome) string { return fmt.Sprintf("%q", string(o)) }

// circles reports circles without people and without a budget, which would run indefinitely.
func (c *checker) circles() {
	free := func(a Transition) bool {
		return a.Class != Loop && a.Budget == "" && a.By&(Worker|Timer|Engine) != 0
	}
	for _, s := range c.t.stages {
		for _, a := range s.Transitions {
			if a.Class == Loop && a.Event == Backoff && a.Budget == "" {
				c.add(NoBudget, s, a.Event, "retries here have no limit")
			}
		}
		if circle := c.circle(s.State, free); circle != nil && first(c.t, circle) == s.State {
			words := make([]string, len(circle))
			for i, st := range circle {
				words[i] = string(st)
			}
			c.add(NoBudget, s, "", "the circle % runs by itself and has no limit", strings.Join(words, " > "))
		}
	}
}

// circle returns a shortest path from start back to start along the transitions that match, or nil.
func (c *checker) circle(start State, match func(Transition) bool) []State {
	from := map[State]State{}
	for todo := []State{start}; len(todo) > 0; todo = todo[1:] {
		s, _ := c.t.stage(todo[0])
		for _, a := range s.Transitions {
			if !match(a) {
				continue
			}
			for _, to := range a.Targets() {
				if to == start {
					way := []State{start}
					for at := todo[0]; at != start; at = from[at] {
						way = append(way, at)
					}
					slices.Reverse(way[1:])
					return append(way, start)
				}
				if _, seen := from[to]; !seen {
					from[to] = todo[0]
					todo = append(todo, to)
				}
			}
		}
	}
	return nil
}

// first returns the state of the circle that is first in the table, so that a circle is reported once.
func first(t *Table, circle []State) State {
	best := circle[0]
	for _, s := range circle {
		if t.index[s] < t.index[best] {
			best = s
		}
	}
	return best
}

package flow

import (
	"context"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// Item is what flows are made of: a [*Task] or a [*Flow]. A retry controller is no item; it belongs to a flow.
type Item interface {
	// Title is the item's name.
	Title() string
	// Needs lists the names of the values it needs from outside, sorted.
	Needs() []string
	// Gives lists the names under which it leaves values, sorted.
	Gives() []string
}

// Do is what a task or a retry controller does: it gets its arguments from the call and gives a result. The context
// ends when the task's time is up, its flow is abandoned or its worker loses the claim; it must return then. It may be
// called again after a crash, with the same [Call.Key].
type Do func(ctx context.Context, c *Call) (any, error)

// Task is the smallest part of a flow that is done, reverted and stored on its own. The zero value of every field but
// Name and Execute works. Tasks belong to one flow and are not changed once it is built.
type Task struct {
	Name     string   // unique in the whole flow
	Version  string   // of the code; defaults to "1.0". See [Options.Upgrade]
	Was      []string // earlier names: what is stored under one of them is this task's
	Priority int      // higher goes first among tasks that are ready

	Args   Args  // of Execute
	Undo   *Args // of Revert, if other than Args
	Result Result

	Signals []AnySignal // that Execute waits for; others are refused when they are sent, and by [Await]

	Execute Do // nil does nothing
	Revert  Do // nil takes nothing back; gets the result or failure too: [Call.Result], [Call.Failure], [Call.Failures]

	// Hooks. An error before fails the task; an error after, which is called whatever came before, fails the flow and
	// leaves the task RUNNING.
	BeforeExecute, AfterExecute, BeforeRevert, AfterRevert func(ctx context.Context, c *Call) error

	Attempts Attempts      // tried again by itself, before the flow receives a failure
	Timeout  time.Duration // of one attempt at Execute or Revert; zero: none

	span     time.Duration           // of a task that waits or sleeps
	takes    map[string]reflect.Type // of a typed task (see [Func0]): its arguments; nil: it is none
	gives    reflect.Type            // of a typed task: its result; nil: none
	idle     bool                    // it is typed and has no function
	nameless bool                    // it is typed and has a key without a name
}

// Args states what a task or retry controller needs and where it comes from.
type Args struct {
	Requires []string          // arguments that must be there
	Optional Values            // arguments with what they are when no one provides them
	Rebind   map[string]string // argument: name of the value, where that is another
	Inject   Values            // arguments that are given here and looked up nowhere
}

// Result states under which names the result of a task is there for others. The zero Result: under none.
type Result struct {
	Name  string   // the whole result
	Names []string // the elements of a list, by position; "" leaves one out
	Keys  []string // the entries of a map
}

// One is a result under one name.
func One(name string) Result { return Result{Name: name} }

// Attempts lets one task be tried again without its flow noticing. While it waits nothing else does.
type Attempts struct {
	Max     int           // executions in all; 0 and 1: no second one
	First   time.Duration // pause after the first failure, doubled after each further one; defaults to 1 s
	Longest time.Duration // defaults to 5 min
	// part of the pause, 0 to 1, by which chance moves it up or down; defaults to 0.2, negative: none
	Jitter float64
	Until  func(*Failure) bool // states true of failures that need no second attempt; nil: none
}

// pause gives the wait after attempt n; chance is in [0,1).
func (a Attempts) pause(n int, chance float64) time.Duration {
	first, most, jitter := a.First, a.Longest, a.Jitter
	if first <= 0 {
		first = time.Second
	}
	if most <= 0 {
		most = 5 * time.Minute
	}
	if jitter == 0 {
		jitter = 0.2
	}
	pause := first
	for i := 1; i < n && pause < most; i++ {
		pause *= 2
		if pause <= 0 { // more than there is
			pause = most
		}
	}
	jitter = min(max(jitter, 0), 1)
	moved := float64(min(pause, most)) * (1 - jitter + 2*jitter*chance)
	if moved >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(moved)
}

// Title is part of [Item].
func (t *Task) Title() string { return t.Name }

// Needs is part of [Item].
func (t *Task) Needs() []string {
	needs := t.Args.needs()
	if t.Undo != nil {
		needs = append(needs, t.Undo.needs()...)
		slices.Sort(needs)
		needs = slices.Compact(needs)
	}
	return needs
}

// Gives is part of [Item].
func (t *Task) Gives() []string { return t.Result.names() }

func (t *Task) version() string {
	if t.Version == "" {
		return "1.0"
	}
	return t.Version
}

// undo gives the arguments of Revert.
func (t *Task) undo() *Args {
	if t.Undo != nil {
		return t.Undo
	}
	return &t.Args
}

// stored gives the name of the value for an argument.
func (a *Args) stored(arg string) string {
	if name, ok := a.Rebind[arg]; ok {
		return name
	}
	return arg
}

// needs lists the stored names of the arguments that must be provided by others, sorted.
func (a *Args) needs() []string {
	needs := make([]string, 0, len(a.Requires))
	for _, arg := range a.Requires {
		if _, given := a.Inject[arg]; !given {
			needs = append(needs, a.stored(arg))
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// names lists under which names a result is handed on, sorted.
func (r Result) names() []string {
	names := slices.Concat(r.Names, r.Keys)
	if r.Name != "" {
		names = append(names, r.Name)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// pick takes what is handed on under a name out of a result.
func (r Result) pick(name string, v Value) (Value, bool) {
	if r.Name == name {
		return v, true
	}
	if i := slices.Index(r.Names, name); i >= 0 {
		return v.part(i, "")
	}
	if slices.Contains(r.Keys, name) {
		return v.part(0, name)
	}
	return Value{}, false
}

// clone copies the maps, so that the caller's may change.
func (v Values) clone() Values { return maps.Clone(v) }

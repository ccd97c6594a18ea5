package flow

import (
	"context"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// Item is a part of a flow: a [*Task] or a [*Flow]. A retry controller is no item; it is a field of a flow.
type Item interface {
	// Title is the item's name.
	Title() string
	// Needs lists the names of the values that it needs from other items, sorted.
	Needs() []string
	// Gives lists the names of its values, sorted.
	Gives() []string
}

// Do is a function of a task or a retry controller: it gets its arguments from the call and returns a result. The
// context ends at the task's timeout, when its run is cancelled and when its worker loses the claim; Do must return
// then. It may be called again after a crash, with the same [Call.Key].
type Do func(ctx context.Context, c *Call) (any, error)

// Task is the smallest part of a flow that is executed, reverted and stored on its own. Only Name is required. A task
// is part of one flow and must not be changed after the flow is built.
type Task struct {
	Name     string   // unique in the whole flow
	Version  string   // of the code; defaults to "1.0". See [Options.Upgrade]
	Was      []string // earlier names, to find the stored record
	Priority int      // among ready tasks the higher one starts first

	Args   Args  // of Execute
	Undo   *Args // of Revert, if other than Args
	Result Result

	Signals []AnySignal // that Execute waits for; others are refused when they are sent, and by [Await]

	Execute Do // nil does nothing
	Revert  Do // nil does nothing; it also gets [Call.Result], [Call.Failure] and [Call.Failures]

	// Hooks. An error of a Before hook fails the task. An After hook is always called; its error fails the flow and
	// leaves the task RUNNING.
	BeforeExecute, AfterExecute, BeforeRevert, AfterRevert func(ctx context.Context, c *Call) error

	Attempts Attempts      // repeats Execute before a retry controller gets the failure
	Timeout  time.Duration // of one attempt of Execute or Revert; zero: none

	span     time.Duration           // of a task that waits or sleeps
	takes    map[string]reflect.Type // types of the arguments of a typed task (see [Func0]); nil: it is not typed
	gives    reflect.Type            // type of the result of a typed task; nil: none
	idle     bool                    // it is typed and has no function
	nameless bool                    // it is typed and has a key without a name
}

// Args are the arguments of a task or retry controller and the names of their values.
type Args struct {
	Requires []string          // arguments that must have a value
	Optional Values            // other arguments, with default values
	Rebind   map[string]string // argument: name of its value, if it differs
	Inject   Values            // arguments with fixed values
}

// Result has the names of the values that a task's result provides. The zero Result provides none.
type Result struct {
	Name  string   // the whole result
	Names []string // the elements of a list, by position; "" skips one
	Keys  []string // the entries of a map
}

// One is a result under one name.
func One(name string) Result { return Result{Name: name} }

// Attempts repeats one task after a failure, without a retry controller. Other tasks run during the pauses.
type Attempts struct {
	Max     int                 // executions in all; 0 and 1: no second one
	First   time.Duration       // pause after the first failure, doubled after each further one; defaults to 1 s
	Longest time.Duration       // defaults to 5 min
	Jitter  float64             // largest random part of the pause, 0 to 1; defaults to 0.2, negative: none
	Until   func(*Failure) bool // returns true for failures that are not repeated; nil: all are
}

// pause returns the pause after attempt n; chance is in [0,1).
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
		if pause <= 0 { // overflow
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

// undo returns the arguments of Revert.
func (t *Task) undo() *Args {
	if t.Undo != nil {
		return t.Undo
	}
	return &t.Args
}

// stored returns the name of the value for an argument.
func (a *Args) stored(arg string) string {
	if name, ok := a.Rebind[arg]; ok {
		return name
	}
	return arg
}

// needs lists the names of the values that others must provide, sorted.
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

// pick returns the value of a name from a result.
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

// clone copies the map, so that the caller may change it.
func (v Values) clone() Values { return maps.Clone(v) }

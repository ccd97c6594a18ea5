package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// FlowKind is the kind of jobs that are flows.
const FlowKind job.Kind = "flow"

// FlowOrder asks for a flow: one written down in a file, or one that a factory of the server makes. It names one of
// the two.
type FlowOrder struct {
	File    string          `json:"file,omitempty"`    // text of a flow file (YAML)
	Factory string          `json:"factory,omitempty"` // registered at the server
	Args    json.RawMessage `json:"args,omitempty"`    // of the factory

	Inputs map[string]json.RawMessage `json:"inputs,omitempty"` // values of the flow by name

	// when a retry controller abandons its flow, the flow above is reverted too
	DeferReverts bool `json:"defer_reverts,omitempty"`
	// a failure is left as it is: nothing is reverted or retried
	NeverResolve   bool `json:"never_resolve,omitempty"`
	RevertErrors   bool `json:"revert_errors,omitempty"`    // errors of the flow itself revert it, too
	KeepAtDeadline bool `json:"keep_at_deadline,omitempty"` // the deadline ends it without rolling it back
	// tasks at once; 1: one after another; 0: as the server is set
	Workers int `json:"workers,omitempty"`

	Key      string    `json:"key,omitempty"`      // idempotency key
	Priority *int      `json:"priority,omitempty"` // 0..99, lower goes first
	Group    string    `json:"group,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	Requires []string  `json:"requires,omitempty"` // labels that a server must have to work on it, such as gpu
	Due      time.Time `json:"due,omitzero"`       // not begun before
	Deadline time.Time `json:"deadline,omitzero"`  // to have ended by then
	Note     string    `json:"note,omitempty"`     // why
	Actor    string    `json:"actor,omitempty"`    // who
}

// Flow is a flow with the present state of all its atoms.
type Flow struct {
	Job     Job             `json:"job"`
	Name    string          `json:"name"`
	Factory string          `json:"factory"`
	Outline *FlowOutline    `json:"outline,omitempty"` // its structure; missing as long as no worker has made the flow
	Atoms   []FlowAtom      `json:"atoms"`             // in the order of the flow
	Awaits  []string        `json:"awaits"`            // signals that tasks wait for now
	Signals []FlowSent      `json:"signals,omitempty"` // that were sent, by name
	Remains []string        `json:"remains,omitempty"` // tasks of a flow in FAILURE whose effects were not rolled back
	Values  map[string]Seen `json:"values,omitempty"`  // it was given, if they were asked for
}

// FlowSent is a signal that a flow has.
type FlowSent struct {
	Name  string    `json:"name"`
	Value Seen      `json:"value"`
	Actor string    `json:"actor,omitempty"`
	At    time.Time `json:"at"`
}

// FlowOutline is the structure of a flow, or of a part of it.
type FlowOutline struct {
	Kind     string         `json:"kind"` // flow, task, retry
	Name     string         `json:"name"`
	Version  string         `json:"version,omitempty"`
	Priority int            `json:"priority,omitempty"`
	Needs    []string       `json:"needs,omitempty"` // names of the values that it needs
	Gives    []string       `json:"gives,omitempty"`
	Signals  FlowSignals    `json:"signals,omitempty"` // that a task waits for
	Pattern  string         `json:"pattern,omitempty"` // of a flow: linear, unordered, graph
	Retry    *FlowOutline   `json:"retry,omitempty"`   // the retry controller of a flow
	Items    []*FlowOutline `json:"items,omitempty"`   // of a flow
	Links    []FlowLink     `json:"links,omitempty"`   // of a graph flow
}

// FlowSignals are signals by name, with what comes with them; null: anything.
type FlowSignals map[string]*FlowForm

// FlowForm is the form of a value as JSON.
type FlowForm struct {
	// boolean, integer, number, string, list, object; empty: anything
	JSON     string               `json:"json,omitempty"`
	Go       string               `json:"go,omitempty"`   // the type in Go
	Null     bool                 `json:"null,omitempty"` // null is a value of it
	Bits     int                  `json:"bits,omitempty"` // of an integer
	Unsigned bool                 `json:"unsigned,omitempty"`
	Of       *FlowForm            `json:"of,omitempty"`     // of the elements of a list and the entries of an object
	Fields   map[string]*FlowForm `json:"fields,omitempty"` // of an object
}

// Declared lists the signals that tasks of the flow wait for, sorted.
func (o *FlowOutline) Declared() []string {
	names := slices.Collect(maps.Keys(o.Signals))
	for _, item := range o.Items {
		names = append(names, item.Declared()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FlowLink is a link of a graph flow: To waits for From. Both are positions in Items.
type FlowLink struct {
	From  int      `json:"from"`
	To    int      `json:"to"`
	Names []string `json:"names,omitempty"` // the values because of which there is a link
	Depth string   `json:"depth,omitempty"` // of its decider
}

// FlowAtom is a task or a retry controller of a flow.
type FlowAtom struct {
	Name      string          `json:"name"`
	Kind      string          `json:"kind"` // task, retry
	Version   string          `json:"version,omitempty"`
	State     lifecycle.State `json:"state"`
	Intention string          `json:"intention"` // EXECUTE, REVERT, RETRY, IGNORE

	Attempts int       `json:"attempts,omitempty"` // executions since it was reset
	Tries    int       `json:"tries,omitempty"`    // of this attempt, that failed and were followed by another
	Progress float64   `json:"progress,omitempty"` // 0 to 1
	Details  *Seen     `json:"details,omitempty"`  // of the progress
	Began    time.Time `json:"began,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`

	// of an atom that is or was reverted: the execution that is reverted
	ExecuteBegan time.Time `json:"execute_began,omitzero"`
	ExecuteEnded time.Time `json:"execute_ended,omitzero"`

	Waits  bool      `json:"waits,omitempty"`  // RUNNING without a worker: it waits for awaits, due or both
	Awaits string    `json:"awaits,omitempty"` // the signal that it waits for
	Due    time.Time `json:"due,omitzero"`     // when it continues by itself

	History int  `json:"history,omitempty"` // of a retry controller: attempts so far
	Removed bool `json:"removed,omitempty"` // the flow has it no longer

	Failure       *FlowFailure `json:"failure,omitempty"`
	RevertFailure *FlowFailure `json:"revert_failure,omitempty"`
	Result        *Seen        `json:"result,omitempty"` // if values were asked for
}

// Notes describes an atom beside its state: what it waits for, why it failed, how often it was
// tried.
func (a *FlowAtom) Notes() string {
	until := ""
	if !a.Due.IsZero() {
		until = " until " + a.Due.UTC().Format(time.RFC3339)
	}
	switch {
	case a.Waits && a.Awaits != "":
		return "waits for the signal " + a.Awaits + until
	case a.Waits && a.Tries > 0 && a.Failure != nil:
		return "waits" + until + " to be tried again after " + a.Failure.String()
	case a.Waits:
		return "waits" + until
	case a.RevertFailure != nil:
		return "could not be reverted: " + a.RevertFailure.String()
	case a.Failure != nil:
		return a.Failure.String()
	case max(a.Attempts, a.History) > 1:
		return fmt.Sprintf("attempt %d", max(a.Attempts, a.History))
	}
	return ""
}

// String returns type and message.
func (f *FlowFailure) String() string { return strings.TrimSuffix(f.Type+": "+f.Message, ": ") }

// Seen is a value as far as it is shown.
type Seen struct {
	Value json.RawMessage `json:"value,omitempty"` // missing if it is cut
	Bytes int             `json:"bytes"`           // of the whole value as JSON
	Begin string          `json:"begin,omitempty"` // of one that is cut: its first characters
}

// FlowFailure is why an atom failed.
type FlowFailure struct {
	Type    string         `json:"type"`
	Message string         `json:"message"`
	Trace   string         `json:"trace,omitempty"`
	Causes  []*FlowFailure `json:"causes,omitempty"`
}

// FlowSignal is the body of a signal to a flow.
type FlowSignal struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"` // missing: null
	Actor string          `json:"actor,omitempty"` // who
	Note  string          `json:"note,omitempty"`  // why; is entered in the audit log
	Early bool            `json:"early,omitempty"` // accept a name that no task of the flow declares yet
}

// FlowMark is the body that records that a person manually rolled back a task.
type FlowMark struct {
	Task    string `json:"task"`
	Note    string `json:"note"`              // how and why
	As      string `json:"as,omitempty"`      // "operator" (default) or "owner"
	Actor   string `json:"actor,omitempty"`   // who
	Version int64  `json:"version,omitempty"` // of the record the person saw; 0: whatever it is now
}

package flowfile

import (
	"regexp"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
)

// position is where something stands in a file.
type place = tree.Position

// ref names something that stands elsewhere.
type ref struct {
	place
	name string
}

// item is one entry of a part: a task, a part, or a task for each item of a list.
type item struct {
	place
	task  *task // also the template of each
	part  *part
	each  *each
	after []ref
	when  term // nil: none
	froms []ref
	depth flow.Depth
}

func (i *item) title() string {
	if i.part != nil {
		return i.part.name
	}
	return i.task.name
}

// part is a flow within the flow, or the whole.
type part struct {
	place
	name    string
	pattern flow.Pattern
	items   []*item
	again   *again
	target  *ref
}

// again is a retry controller.
type again struct {
	place
	way            string // the key: retry, for_each, for_each_of, always_revert; empty: only revert_all is set
	times          int
	pause, longest time.Duration
	values         []any
	of             string
	as             string
	all            bool
}

// each is a fan-out.
type each struct {
	place
	arg     string
	values  []any
	isInput bool
	from    ref // the input
	match   string
	pattern flow.Pattern
}

// task is a task as the file states it.
type task struct {
	place
	name     string
	act      *action // nil: it does nothing, and is there for its revert
	revert   *action
	args     args
	undo     *args // of revert; nil: args
	provides provides
	output   string
	attempts flow.Attempts
	timeout  time.Duration
	priority int
	version  string
	was      []string
}

// args are the arguments of an action.
type args struct {
	requires []ref
	optional []arg
	rebind   map[string]string
	inject   []arg
}

// arg is an argument with a value.
type arg struct {
	ref
	value any
}

// names lists all arguments.
func (a *args) names() []string {
	var all []string
	for _, r := range a.requires {
		all = append(all, r.name)
	}
	for _, o := range append(a.optional[:len(a.optional):len(a.optional)], a.inject...) {
		all = append(all, o.name)
	}
	return all
}

// provides is under which names the result is there.
type provides struct {
	place
	result flow.Result
}

// names lists them, without those left out.
func (p *provides) names() []string {
	var all []string
	for _, n := range append(append([]string{p.result.Name}, p.result.Names...), p.result.Keys...) {
		if n != "" {
			all = append(all, n)
		}
	}
	return all
}

// action is what a task or its revert does: one of the fields from script on.
type action struct {
	place
	kind    string // the key
	script  string // run, as text
	argv    []string
	dir     string
	noEnv   bool
	request *request
	fn      string
	signal  string
	comes   string // the type of what comes with the signal; empty: anything
	within  time.Duration
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,200}$`)

// Input is a value that a flow takes from outside.
type Input struct {
	Name     string `json:"name"`
	Required bool   `json:"required,omitempty"`
	Path     bool   `json:"path,omitempty"` // a path or a list of them; see [Input.Below]
	Default  any    `json:"default"`
	About    string `json:"about,omitempty"`
	place    place
}

// Severity states how bad a finding is.
type Severity string

// The severities.
const (
	IsError   Severity = "error"   // the file is refused
	IsWarning Severity = "warning" // it is probably not what was meant
	IsNote    Severity = "note"    // it may be meant
)

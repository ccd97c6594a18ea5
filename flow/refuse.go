package flow

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// path returns the names of the flows around a node, the outermost first, separated by slashes.
func (p *plan) path(i int32) string {
	var names []string
	for at := p.nodes[i].up; at >= 0; at = p.nodes[at].up {
		names = append(names, p.nodes[at].name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// describe returns the kind, the name and the path of an atom, for messages.
func (p *plan) describe(i int32) string {
	kind := "the task "
	if p.nodes[i].kind == retryNode {
		kind = "the retry controller "
	}
	if path := p.path(i); path != "" {
		return kind + p.nodes[i].name + " in " + path
	}
	return kind + p.nodes[i].name
}

// checkFields refuses atoms whose fields contradict each other or are out of range.
func (p *plan) checkFields() error {
	for _, i := range p.atoms {
		n := &p.nodes[i]
		text := n.args.contradiction("Rebind")
		if t := n.task; t != nil && text == "" {
			text = t.contradiction()
		}
		if text != "" {
			return wrong(ErrInvalid, []string{n.name}, "%s: %s", p.describe(i), text)
		}
	}
	return p.checkInjected(nil)
}

// contradiction describes an invalid field of a task; empty: all are valid.
func (t *Task) contradiction() string {
	if text := t.Args.nameless("Args"); text != "" {
		return text
	}
	if t.Undo != nil {
		if text := t.Undo.nameless("Undo"); text != "" {
			return text
		}
		if text := t.Undo.contradiction("Rebind of Undo"); text != "" {
			return text
		}
	}
	if text := t.Result.contradiction(); text != "" {
		return text
	}
	if t.Attempts.Max < 0 {
		return fmt.Sprintf("Attempts.Max is %d; it must not be negative", t.Attempts.Max)
	}
	if t.Attempts.Jitter > 1 {
		return fmt.Sprintf("Attempts.Jitter is %g; it is a part of the pause, at most 1", t.Attempts.Jitter)
	}
	for _, one := range []struct {
		field string
		is    time.Duration
	}{{"the time that it waits", t.span}, {"Attempts.First", t.Attempts.First},
		{"Attempts.Longest", t.Attempts.Longest}, {"Timeout", t.Timeout}} {
		if one.is < 0 {
			return fmt.Sprintf("%s is %s; it must not be negative", one.field, quantity.FormatDuration(one.is))
		}
	}
	return ""
}

// nameless describes an argument without a name; empty: there is none.
func (a *Args) nameless(field string) string {
	if slices.Contains(a.Requires, "") {
		return field + " requires an argument without a name"
	}
	return ""
}

// contradiction describes a binding of a name that is not an argument, such as a misspelt one. A binding of an injected
// argument has no effect and is allowed.
func (a *Args) contradiction(field string) string {
	for _, arg := range slices.Sorted(maps.Keys(a.Rebind)) {
		_, optional := a.Optional[arg]
		_, given := a.Inject[arg]
		switch {
		case !optional && !given && !slices.Contains(a.Requires, arg):
			known := slices.Concat(a.Requires, slices.Collect(maps.Keys(a.Optional)),
				slices.Collect(maps.Keys(a.Inject)))
			slices.Sort(known)
			list := strings.Join(slices.Compact(known), ", ")
			if list == "" {
				list = "none"
			}
			return fmt.Sprintf("%s names %q, which is no argument (arguments: %s)", field, arg, list)
		case a.Rebind[arg] == "":
			return fmt.Sprintf("%s gives the argument %q no name", field, arg)
		}
	}
	return ""
}

func (r Result) contradiction() string {
	var set []string
	if r.Name != "" {
		set = append(set, "Name")
	}
	if len(r.Names) > 0 {
		set = append(set, "Names")
	}
	if len(r.Keys) > 0 {
		set = append(set, "Keys")
	}
	if len(set) < 2 {
		return ""
	}
	return "Result has " + strings.Join(set, " and ") + "; set one of Name, Names and Keys"
}

// checkInjected refuses values of the flow whose type does not match that of a typed task. With nil it checks the
// values that are injected into tasks.
func (p *plan) checkInjected(injected map[string]Value) error {
	for _, i := range p.atoms {
		t := p.nodes[i].task
		if t == nil || t.takes == nil {
			continue
		}
		for _, arg := range slices.Sorted(maps.Keys(t.takes)) {
			for _, args := range []*Args{&t.Args, t.undo()} {
				what, v, there := args.initialValue(arg, injected)
				if !there {
					continue
				}
				if err := fits(v, t.takes[arg]); err != nil {
					return &Error{Kind: ErrInvalid, Atoms: []string{t.Name}, Err: err,
						Text: fmt.Sprintf("%s: the %s is no %s", p.describe(i), what, t.takes[arg])}
				}
			}
		}
	}
	return nil
}

// initialValue returns the value of an argument before any task has run: with nil the value that is injected into the
// task, otherwise that of the flow.
func (a *Args) initialValue(arg string, injected map[string]Value) (what string, v Value, there bool) {
	given, own := a.Inject[arg]
	switch {
	case injected == nil:
		return fmt.Sprintf("injected value %q", arg), ValueOf(given), own
	case own:
		return "", Value{}, false
	}
	v, there = injected[a.stored(arg)]
	return fmt.Sprintf("value %q of the flow", a.stored(arg)), v, there
}

// fits returns an error if a value cannot be decoded into a type.
func fits(v Value, t reflect.Type) error {
	if err := v.Into(reflect.New(t).Interface()); err != nil {
		return err
	}
	if text, err := v.MarshalJSON(); err == nil && string(text) == "null" && !nullable(t) {
		return errNull
	}
	return nil
}

// namelessItem returns the error for an item of a flow that has no name or is not a task or flow.
func (b *builder) namelessItem(start int32, items []Item, k int) error {
	in := b.plan.nodes[start].name
	if path := b.plan.path(start); path != "" {
		in = path + "/" + in
	}
	item := items[k]
	if _, known := itemKind(item); !known {
		return wrong(ErrInvalid, nil, "item %d of %s is %T, which is no item: a flow is made of tasks and flows", k+1,
			in, item)
	}
	near := ""
	if k > 0 && proper(items[k-1]) && items[k-1].Title() != "" {
		near = " after " + items[k-1].Title()
	} else if k+1 < len(items) && proper(items[k+1]) && items[k+1].Title() != "" {
		near = " before " + items[k+1].Title()
	}
	kind, _ := itemKind(item)
	return wrong(ErrInvalid, nil, "item %d of %s, a %s%s, has no name", k+1, in, kind, near)
}

// itemKind returns the kind of an item, for messages; known is false if it is neither a task nor a flow.
func itemKind(item Item) (kind string, known bool) {
	switch item := item.(type) {
	case *Task:
		if item == nil {
			return "nil task", true
		}
		return "task", true
	case *Flow:
		if item == nil {
			return "nil flow", true
		}
		return string(item.pattern) + " flow", true
	}
	return "", false
}

package flow

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/nearest"
)

// Signal is the name of a signal and the type of its value. A task declares the signals that it waits for
// ([Task.Signals]). Sender and task use the same Signal, so that the compiler checks the type:
//
//	const Approved = flow.Signal[bool]("approved")
//
// A value from outside, such as from the API, is checked against the type when it is sent and when it is taken.
type Signal[T any] string

// AnySignal is a [Signal] of any type.
type AnySignal interface {
	// String is the name.
	String() string
	kind() reflect.Type
}

// String returns the name.
func (s Signal[T]) String() string { return string(s) }

func (s Signal[T]) kind() reflect.Type { return reflect.TypeFor[T]() }

// Wait makes a task that waits for the signal. Its result is the signal's value. See [Wait].
func (s Signal[T]) Wait(task string, within time.Duration) *Task {
	t := &Task{Name: task, span: within, Signals: []AnySignal{s},
		Execute: doWaitSignal(string(s), within, func(c *Call) (any, bool, error) { return s.From(c) })}
	if s.kind().Kind() != reflect.Interface {
		t.gives = s.kind()
	}
	return t
}

// From returns the value of the signal as [Call.Signal] does. Error: [ErrInvalid] if it has another type.
func (s Signal[T]) From(c *Call) (v T, ok bool, err error) {
	found, ok := c.Signal(string(s))
	if !ok {
		return v, false, nil
	}
	v, err = decode[T](found, "the value of the signal %q", s)
	return v, err == nil, withAtom(err, c.Atom)
}

// Send sends the signal to a flow as [Runner.Signal] does.
func (s Signal[T]) Send(r *Runner, v T) error { return r.Signal(string(s), v) }

// Declared are the signals that the tasks of a flow declare, by name.
type Declared map[string]*jsonForm

// Check checks that a signal can be sent; early allows a name that no task declares. Error: [ErrInvalid].
func (d Declared) Check(name string, v Value, early bool) error {
	form, there := d[name]
	switch {
	case !there && early:
		return nil
	case !there:
		return wrong(ErrInvalid, nil, "no task waits for a signal %.80q%s", name, d.known(name))
	case form == nil:
		return nil
	}
	if err := form.Check(v); err != nil {
		return &Error{Kind: ErrInvalid, Text: fmt.Sprintf("the signal %s", name), Err: err}
	}
	return nil
}

// known lists the names for a message, with the one that was probably meant.
func (d Declared) known(name string) string {
	const most = 20
	names := slices.Sorted(maps.Keys(d))
	if len(names) == 0 {
		return "; the flow declares no signals"
	}
	text := ""
	if one := nearest.Word(name, names); one != "" {
		text = "; did you mean " + one + "?"
	}
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text + " (signals of the flow: " + strings.Join(names[:min(most, len(names))], ", ") + more + ")"
}

// collectSignals records the signals that tasks declare. Error: [ErrInvalid] for a signal without a name, and for one
// that two tasks declare with different types.
func (p *plan) collectSignals() error {
	first := map[string]int32{} // the atom with the type
	types := map[string]reflect.Type{}
	p.signals = Declared{}
	for _, i := range p.atoms {
		t := p.nodes[i].task
		if t == nil {
			continue
		}
		for _, s := range t.Signals {
			if s == nil || s.String() == "" {
				return wrong(ErrInvalid, []string{t.Name}, "%s declares a signal without a name", p.describe(i))
			}
			name, kind := s.String(), s.kind()
			if _, there := p.signals[name]; !there {
				p.signals[name] = nil
			}
			if kind.Kind() == reflect.Interface {
				continue
			}
			if was, there := types[name]; there && was != kind {
				other := p.nodes[first[name]].name
				return wrong(ErrInvalid, []string{t.Name, other}, "%s declares the signal %q as %s, and %s as %s",
					p.describe(i), name, kind, other, was)
			}
			first[name], types[name], p.signals[name] = i, kind, formOf(kind)
		}
	}
	return nil
}

// declared returns the signals of a task with their forms.
func (t *Task) declared() Declared {
	if len(t.Signals) == 0 {
		return nil
	}
	all := Declared{}
	for _, s := range t.Signals {
		all[s.String()] = formOf(s.kind())
	}
	return all
}

// declares reports whether a task declares a signal.
func (t *Task) declares(name string) bool {
	return slices.ContainsFunc(t.Signals, func(s AnySignal) bool { return s.String() == name })
}

// checkAwait refuses an Await without a valid time or declared signal.
func (n *node) checkAwait(w *awaiting) error {
	switch {
	case w.signal == "" && w.until.IsZero() || w.until.Year() > lastYear:
		return wrong(ErrInvalid, []string{n.name},
			"%s waits for nothing: neither a signal nor a time before the year %d", n.name, lastYear+1)
	case w.signal != "" && !n.task.declares(w.signal):
		return wrong(ErrInvalid, []string{n.name},
			"%s waits for the signal %q, which it does not declare; add it to Task.Signals", n.name, w.signal)
	}
	return nil
}

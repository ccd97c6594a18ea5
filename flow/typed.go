package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Key is the name of a value and its type. The task that gives the value and the task that takes it use the same Key,
// so that the compiler checks the type:
//
//	var Address = flow.Name[string]("address")
type Key[T any] struct {
	name  string
	usual *T // the default value; nil: it must be provided
}

// Name makes the key of a value.
func Name[T any](name string) Key[T] { return Key[T]{name: name} }

// String returns the name.
func (k Key[T]) String() string { return k.name }

// Or returns the key of an optional argument with a default value.
func (k Key[T]) Or(usual T) Key[T] { return Key[T]{k.name, &usual} }

// keyed is a Key of any type.
type keyed interface {
	fmt.Stringer
	kind() reflect.Type
	fallback() (any, bool)
}

func (k Key[T]) kind() reflect.Type { return reflect.TypeFor[T]() }

func (k Key[T]) fallback() (any, bool) {
	if k.usual == nil {
		return nil, false
	}
	return *k.usual, true
}

// Put makes Values with one value, for [Options.Inject] and [Runner.Inject]; [Join] combines several.
func Put[T any](k Key[T], v T) Values { return Values{k.name: v} }

// Join combines values; the later of two with one name wins.
func Join(all ...Values) Values {
	one := Values{}
	for _, v := range all {
		maps.Copy(one, v)
	}
	return one
}

// Get returns a value of the flow, as [Runner.Value] does. Errors: [ErrNotFound]; [ErrInvalid] if it has another type.
func Get[T any](r *Runner, k Key[T]) (v T, err error) {
	found, ok := r.Value(k.name)
	if !ok {
		return v, wrong(ErrNotFound, nil, "the flow %s has no value %q", r.plan.name, k.name)
	}
	return decode[T](found, "the value %q of the flow %s", k.name, r.plan.name)
}

// When makes a [Decider] by the value k of one task. If the task was ignored, the link is followed.
func When[T any](from *Task, k Key[T], yes func(T) bool) Decider {
	return func(results Values) (bool, error) {
		all, there := results[from.Name]
		if !there {
			return true, nil
		}
		one, ok := from.Result.pick(k.name, ValueOf(all))
		if !ok {
			return false, wrong(ErrNotFound, []string{from.Name}, "%s gives no %q, by which a link is decided",
				from.Name, k.name)
		}
		v, err := decode[T](one, "the value %q of %s", k.name, from.Name)
		if err != nil {
			return false, withAtom(err, from.Name)
		}
		return yes(v), nil
	}
}

var errNull = errors.New("it is null")

// decode converts a value to a T. The error names the value by format and args.
func decode[T any](from Value, format string, args ...any) (v T, err error) {
	if err = from.Into(&v); err == nil && !nullable(reflect.TypeFor[T]()) {
		if text, e := from.MarshalJSON(); e == nil && string(text) == "null" {
			err = errNull
		}
	}
	if err != nil {
		var none T
		return none, &Error{Kind: ErrInvalid, Text: fmt.Sprintf(format, args...) + " is no " +
			reflect.TypeFor[T]().String(), Err: err}
	}
	return v, nil
}

// nullable reports whether null is a value of a type.
func nullable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface, reflect.Chan, reflect.Func:
		return true
	}
	reader := reflect.TypeFor[json.Unmarshaler]()
	return t.Implements(reader) || reflect.PointerTo(t).Implements(reader) ||
		t.Kind() == reflect.Struct && t.NumField() == 0
}

func withAtom(err error, atom string) error {
	if e, ok := err.(*Error); ok {
		e.Atoms = []string{atom}
	}
	return err
}

// callKey is the context key of the Call.
type callKey struct{}

// CallOf returns the Call of a typed function from its context, for progress, the log, signals and the idempotency key.
// It returns nil for other contexts.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

func withCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// reader reads typed arguments from a call and keeps the first error.
type reader struct {
	c   *Call
	err error
}

func argOf[T any](r *reader, k Key[T]) (v T) {
	if r.err != nil {
		return v
	}
	given, ok := r.c.args[k.name]
	if !ok {
		r.err = wrong(ErrNotFound, []string{r.c.Atom}, "%s has no argument %q", r.c.Atom, k.name)
		return v
	}
	v, r.err = decode[T](ValueOf(given), "the argument %q of %s", k.name, r.c.Atom)
	r.err = withAtom(r.err, r.c.Atom)
	return v
}

// resultOf returns the result of Execute for a revert; nil if Execute failed.
func resultOf[T any](r *reader) *T {
	if r.err != nil || r.c.Failure != nil {
		return nil
	}
	v, err := decode[T](r.c.Result, "the result of %s", r.c.Atom)
	if err != nil {
		r.err = withAtom(err, r.c.Atom)
		return nil
	}
	return &v
}

// newTyped makes a task with the keys of its arguments and result; out may be nil.
func newTyped(name string, does bool, out keyed, args ...keyed) *Task {
	t := &Task{Name: name, takes: map[string]reflect.Type{}}
	for _, k := range args {
		if usual, may := k.fallback(); may {
			if t.Args.Optional == nil {
				t.Args.Optional = Values{}
			}
			t.Args.Optional[k.String()] = usual
		} else {
			t.Args.Requires = append(t.Args.Requires, k.String())
		}
		t.takes[k.String()] = k.kind()
		t.nameless = t.nameless || k.String() == ""
	}
	if out != nil {
		t.Result, t.gives = One(out.String()), out.kind()
		t.nameless = t.nameless || out.String() == ""
	}
	t.idle = !does
	return t
}

// checkTypes refuses typed tasks without a function, with keys without a name, or with an argument whose nearest
// provider gives another type.
func (p *plan) checkTypes() error {
	for _, i := range p.atoms {
		t := p.nodes[i].task
		switch {
		case t == nil || t.takes == nil:
			continue
		case t.idle:
			return wrong(ErrInvalid, []string{t.Name}, "the task %s has no function", t.Name)
		case t.nameless:
			return wrong(ErrInvalid, []string{t.Name}, "the task %s has a key without a name", t.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(t.takes)) {
			var err error
			p.providers(i, t.Args.stored(name), func(_ int, atom int32) bool {
				from := p.nodes[atom].task
				if from == nil || from.gives == nil || from.Result.Name != t.Args.stored(name) {
					return true
				}
				if !from.gives.AssignableTo(t.takes[name]) {
					err = wrong(ErrInvalid, []string{t.Name, from.Name}, "%s takes %q as %s, and %s gives it as %s",
						t.Name, name, t.takes[name], from.Name, from.gives)
				}
				return true
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

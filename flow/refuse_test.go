package flow

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestTargetOfMissingItem: an item that was never added is refused, and the target that the flow had stays.
func TestTargetOfMissingItem(t *testing.T) {
	a, b := gives("a", 1), gives("b", 2)
	g := Graph("g")
	if err := g.Add(a, b); err != nil {
		t.Fatal(err)
	}
	if err := g.Target(a); err != nil {
		t.Fatal(err)
	}
	wantKind(t, g.Target(gives("c", 3)), ErrInvalid, "c must be added to g before it is its target", "c")
	if got := g.Items(); !slices.Equal(got, []Item{a}) {
		t.Errorf("the flow has %d items, want the former target alone", len(got))
	}
	if err := g.Target(nil); err != nil || len(g.Items()) != 2 {
		t.Errorf("without a target: %d items, %v", len(g.Items()), err)
	}
}

// TestContradictoryAtoms are refused before anything is done, each with its position.
func TestContradictoryAtoms(t *testing.T) {
	amount := Name[int]("amount")
	none := func(context.Context, int) error { return nil }
	injected := func(v any) *Task {
		task := Proc1("a", amount, none, nil)
		task.Args.Inject = Values{"amount": v}
		return task
	}
	task := func(change func(*Task)) Item {
		one := gives("a", 1)
		change(one)
		return one
	}
	retry := func(change func(*Retry)) Item {
		r := Times(1)
		change(r)
		return Linear("in", gives("a", 1)).With(r)
	}
	for _, c := range []struct {
		name string
		item Item
		want string // empty: it is good
	}{
		{"rebound and required", task(func(t *Task) {
			t.Args = Args{Requires: []string{"x"}, Rebind: map[string]string{"x": "amount"}}
		}), ""},
		{"rebound and optional", task(func(t *Task) {
			t.Args = Args{Optional: Values{"x": 1}, Rebind: map[string]string{"x": "amount"}}
		}), ""},
		{"rebound and unknown", task(func(t *Task) { t.Args.Rebind = map[string]string{"x": "amount"} }),
			`the task a in f: Rebind names "x", which is no argument (arguments: none)`},
		{"rebound and misspelt", task(func(t *Task) {
			t.Args = Args{Requires: []string{"xx", "y"}, Rebind: map[string]string{"x": "amount"},
				Inject: Values{"xx": 1, "y": 2}}
		}), `the task a in f: Rebind names "x", which is no argument (arguments: xx, y)`},
		{"rebound to no name", task(func(t *Task) {
			t.Args = Args{Requires: []string{"x"}, Rebind: map[string]string{"x": ""}}
		}),
			`the task a in f: Rebind gives the argument "x" no name`},
		{"rebound in Undo", task(func(t *Task) { t.Undo = &Args{Rebind: map[string]string{"x": "amount"}} }),
			`the task a in f: Rebind of Undo names "x", which is no argument (arguments: none)`},
		{"rebound of a controller", retry(func(r *Retry) { r.Args.Rebind = map[string]string{"x": "amount"} }),
			`the retry controller in_retry in f/in: Rebind names "x", which is no argument (arguments: none)`},
		{"Name and Names", task(func(t *Task) { t.Result = Result{Name: "all", Names: []string{"one"}} }),
			`the task a in f: Result has Name and Names; set one of Name, Names and Keys`},
		{"Name and Keys", task(func(t *Task) { t.Result = Result{Name: "all", Keys: []string{"one"}} }),
			`the task a in f: Result has Name and Keys; set one of Name, Names and Keys`},
		{"Names and Keys", task(func(t *Task) { t.Result = Result{Names: []string{"all"}, Keys: []string{"one"}} }),
			`the task a in f: Result has Names and Keys; set one of Name, Names and Keys`},
		{"no Names", task(func(t *Task) { t.Result = Result{Name: "all", Names: []string{}} }), ""},
		{"no attempts", task(func(t *Task) { t.Attempts.Max = -1 }), `the task a in f: Attempts.Max is -1; it must not be negative`},
		{"a pause before now", task(func(t *Task) { t.Attempts.First = -1 }), `the task a in f: Attempts.First is -1ns; it must not be negative`},
		{"a longest pause before now", task(func(t *Task) { t.Attempts.Longest = -time.Second }),
			`the task a in f: Attempts.Longest is -1s; it must not be negative`},
		{"a timeout before now", task(func(t *Task) { t.Timeout = -time.Second }), `the task a in f: Timeout is -1s; it must not be negative`},
		{"a wait before now", Wait("a", "go", -time.Second), `the task a in f: the time that it waits is -1s; it must not be negative`},
		{"a typed wait before now", Signal[int]("go").Wait("a", -time.Second), `the task a in f: the time that it waits is -1s; it must not be negative`},
		{"a sleep before now", Sleep("a", -time.Second), `the task a in f: the time that it waits is -1s; it must not be negative`},
		{"too much jitter", task(func(t *Task) { t.Attempts = Attempts{Max: 2, Jitter: 1.5} }), `the task a in f: Attempts.Jitter is 1.5; it is a part of the pause, at most 1`},
		{"no name of an argument", task(func(t *Task) { t.Undo = &Args{Requires: []string{""}} }), `the task a in f: Undo requires an argument without a name`},
		{"no jitter", task(func(t *Task) { t.Attempts = Attempts{Max: 2, Jitter: -1} }), ""},
		{"an injected number", injected(3), ""},
		{"an injected number of another size", injected(int64(3)), ""},
		{"an injected text", injected("three"), `the task a in f: the injected value "amount" is no int`},
		{"an injected nothing", injected(nil), `the task a in f: the injected value "amount" is no int`},
		{"an injected text by its JSON", injected(Value{text: []byte(`"three"`)}), `the task a in f: the injected value "amount" is no int`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(Linear("f", c.item), Options{})
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			atom := "a"
			if f, ok := c.item.(*Flow); ok {
				atom = f.retryName()
			}
			wantKind(t, err, ErrInvalid, c.want, atom)
		})
	}
}

// TestInjectedOfAnotherType: a value of the flow that a typed task cannot take is refused when the flow is made, and
// when the value is added.
func TestInjectedOfAnotherType(t *testing.T) {
	amount := Name[int]("amount")
	ran := false
	item := func() Item {
		task := Proc1("a", Name[int]("n"), func(context.Context, int) error { ran = true; return nil }, nil)
		task.Args.Rebind = map[string]string{"n": "amount"}
		return Linear("f", Linear("deep", task))
	}
	const want = `the task a in f/deep: the value "amount" of the flow is no int`
	_, err := New(item(), Options{Inject: Values{"amount": "three"}})
	wantKind(t, err, ErrInvalid, want, "a")
	r, err := New(item(), Options{Inject: Put(amount, 3)})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, r.Inject(t.Context(), Values{"amount": "three"}), ErrInvalid, want, "a")
	if err := r.Run(t.Context()); err != nil || !ran {
		t.Errorf("with the right value: %v, ran %v", err, ran)
	}
	stored := NewMemory()
	stored.Change(func(s *Snapshot) { s.Injected = map[string]Value{"amount": ValueOf("three")} })
	r, err = New(item(), Options{Storage: stored})
	if err != nil {
		t.Fatal(err)
	}
	ran = false
	if err := r.Run(t.Context()); !errors.Is(err, ErrInvalid) || ran || r.State() != Pending {
		t.Errorf("a stored value: %v, ran %v, state %s", err, ran, r.State())
	}
}

// TestNamelessItemHasPosition: the error for an item without a name or of another type has its position.
func TestNamelessItemHasPosition(t *testing.T) {
	for _, c := range []struct {
		item Item
		want string
	}{
		{&Task{}, "the task at the top has no name"},
		{Linear("f", gives("a", 1), &Task{}), "item 2 of f, a task after a, has no name"},
		{Linear("f", Linear("in", &Task{}, gives("b", 1))), "item 1 of f/in, a task before b, has no name"},
		{Unordered("f", gives("a", 1), Linear("", gives("b", 1))), "item 2 of f, a linear flow after a, has no name"},
		{Linear("f", gives("a", 1), nil), "item 2 of f is <nil>, which is no item: a flow is made of tasks and flows"},
		{Linear("", gives("a", 1)), "the linear flow at the top has no name"},
	} {
		_, err := New(c.item, Options{})
		wantKind(t, err, ErrInvalid, c.want)
	}
}

// TestLinkNamesMissingItem: the error names the item that was not added, and the flow.
func TestLinkNamesMissingItem(t *testing.T) {
	a, b, c := gives("a", 1), gives("b", 2), gives("c", 3)
	g := Graph("g")
	if err := g.Add(a); err != nil {
		t.Fatal(err)
	}
	wantKind(t, g.Link(a, b), ErrInvalid, "b must be added to g before it is linked", "b")
	wantKind(t, g.Link(b, a), ErrInvalid, "b must be added to g before it is linked", "b")
	wantKind(t, g.Link(b, c), ErrInvalid, "b and c must be added to g before they are linked", "b", "c")
}

type errDisk struct{ path string }

func (e *errDisk) Error() string { return "disk " + e.path }

type errNet struct{ host string }

func (e errNet) Error() string { return "net " + e.host }

// TestFailuresKeepTheirTypes: of several tasks that fail at the same time each error is found by its type, also when
// they are wrapped or of one type.
func TestFailuresKeepTheirTypes(t *testing.T) {
	barrier := make(chan struct{}, 3)
	meet := make(chan struct{})
	fail := func(name string, err error) *Task {
		return &Task{Name: name, Execute: func(context.Context, *Call) (any, error) {
			if barrier <- struct{}{}; len(barrier) == cap(barrier) {
				close(meet)
			}
			<-meet
			return nil, err
		}}
	}
	pool := NewPool(3)
	r, err := New(Unordered("f", fail("a", &errDisk{"a"}), fail("b", errNet{"b"}), fail("c", &errDisk{"c"})),
		Options{Workers: pool, Storage: newDisk()})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Run(t.Context())
	var all *Failures
	var disk *errDisk
	var net errNet
	if !errors.As(err, &all) || !errors.As(err, &disk) || !errors.As(err, &net) {
		t.Fatalf("%T %v", err, err)
	}
	for i, want := range []string{"flow.errDisk", "flow.errNet", "flow.errDisk"} {
		if all.All[i].Type != want {
			t.Errorf("%s is of type %s, want %s", all.Atoms[i], all.All[i].Type, want)
		}
	}
	for i, one := range all.All {
		if i != 1 && (!errors.As(one, &disk) || disk.path != all.Atoms[i]) {
			t.Errorf("%s leads to the error of %s", all.Atoms[i], disk.path)
		}
	}
	if !all.Caused("flow.errDisk") || !all.Caused("flow.errNet") || all.Caused("flow.errOther") {
		t.Error("the types are not found by name")
	}
}

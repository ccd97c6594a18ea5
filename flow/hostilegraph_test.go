package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
)

// Cases from a hostile review of the construction of flows.

// foreign is an item of another type, which cannot be a map key.
type foreign []string

func (f foreign) Title() string   { return f[0] }
func (f foreign) Needs() []string { return f }
func (f foreign) Gives() []string { return f }

// TestImproperItems are refused wherever items are taken.
func TestImproperItems(t *testing.T) {
	for _, item := range []Item{nil, (*Task)(nil), (*Flow)(nil), foreign{"x"}} {
		good := fine("good")
		g := Graph("g")
		if err := g.Add(good); err != nil {
			t.Fatal(err)
		}
		_, asRoot := New(item, Options{})
		_, inLine := New(Linear("f", item), Options{})
		_, within := New(Linear("f", Unordered("u", item)), Options{})
		tries := map[string]error{"root": asRoot, "in a line": inLine, "deeper": within, "from": g.Link(item, good),
			"to":              g.Link(good, item),
			"without decider": g.LinkIf(good, item, nil, ""),
			"without depth":   g.LinkIf(item, good, func(Values) (bool, error) { return true, nil }, "deep")}
		if item != nil { // nil removes the target and adds nothing
			tries["target"], tries["add"] = g.Target(item), g.Add(item)
		}
		for name, err := range tries {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%T as %s: got %v", item, name, err)
			}
		}
		if err := g.Add(Linear("in", item)); err != nil { // a flow is examined as a whole by New only
			t.Errorf("%T: %v", item, err)
		}
		if _, err := New(g, Options{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%T in a graph: got %v", item, err)
		}
	}
}

// TestManyOfOneName: in an unordered flow a value never comes from one of thousands of siblings that give it too. The
// flow's controller is a nearer provider than an atom before the flow.
func TestManyOfOneName(t *testing.T) {
	const n = 20_000
	same := func(name string) *Task {
		return &Task{Name: name, Args: Args{Requires: []string{"x"}}, Result: One("x"),
			Execute: func(_ context.Context, c *Call) (any, error) { return c.Get("x"), nil }}
	}
	source := &Task{Name: "source", Result: One("x"), Execute: func(context.Context, *Call) (any, error) {
		return 7, nil
	}}
	r := runner(t, Linear("f", source, Unordered("u", wide(n, same)...)), Options{})
	asked := 0
	for _, i := range r.plan.atoms {
		r.plan.providers(i, "x", func(int, int32) bool { asked++; return true })
	}
	if asked != n {
		t.Errorf("%d providers were found, want the one source for each", asked)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last, _ := r.Atom(fmt.Sprint("t", n-1)); last.Result.Any() != 7 {
		t.Errorf("the last has %v", last.Result.Any())
	}
	retry := Times(1) // nearer than the source
	retry.Result = "x"
	r = runner(t, Linear("f", source, Unordered("u", fine("a", "x")).With(retry)), Options{})
	r.plan.providers(r.plan.byName["a"], "x", func(_ int, atom int32) bool {
		if got := r.plan.nodes[atom].name; got != "u_retry" {
			t.Errorf("x comes from %s", got)
		}
		return true
	})
}

// TestAddOneByOne: a graph that is built item by item in the order of its values is not copied for each.
func TestAddOneByOne(t *testing.T) {
	const n = 1000
	build := func() *Flow {
		g := Graph("g")
		for i := range n {
			one := &Task{Name: fmt.Sprint("t", i), Result: One(fmt.Sprint("v", i))}
			if i > 0 {
				one.Args.Requires = []string{fmt.Sprint("v", i-1)}
			}
			if err := g.Add(one); err != nil {
				t.Fatal(err)
			}
		}
		return g
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g := build()
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 50 {
		t.Errorf("%d items took %d MiB", n, used)
	}
	if got := g.Links(); len(got) != n-1 || got[n-2].To.Title() != fmt.Sprint("t", n-1) {
		t.Errorf("%d links", len(got))
	}
	twice := &Task{Name: "twice", Result: One("v0")}
	needs := fine("needs", "v0")
	if err := g.Add(twice); err != nil { // two providers are ambiguous only if an item needs the value
		t.Fatal(err)
	}
	if err := g.Add(needs); !errors.Is(err, ErrAmbiguous) || len(g.Items()) != n+1 {
		t.Errorf("got %v, and %d items", err, len(g.Items()))
	}
	circle := &Task{Name: "circle", Args: Args{Requires: []string{"v1"}}, Result: One("w")}
	wants := &Task{Name: "wants", Args: Args{Requires: []string{"w"}}, Result: One("x")}
	c := Graph("c")
	if err := errors.Join(c.Add(&Task{Name: "first", Args: Args{Requires: []string{"x"}}, Result: One("v1")}),
		c.Add(wants)); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(circle); !errors.Is(err, ErrCyclic) || len(c.Items()) != 2 {
		t.Errorf("got %v, and %d items", err, len(c.Items()))
	}
}

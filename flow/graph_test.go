package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shapes are flows of about n tasks.
var shapes = []struct {
	name string
	make func(n int) (Item, error)
}{
	{"a graph that is a line, by values", func(n int) (Item, error) {
		g := Graph("g")
		items := make([]Item, n)
		for i := range items {
			task := gives(fmt.Sprint("t", i), i)
			if i > 0 {
				task.Args.Requires = []string{fmt.Sprint("T", i-1)}
			}
			items[n-1-i] = task
		}
		return g, g.Add(items...)
	}},
	{"a graph that is a line, of explicit links", func(n int) (Item, error) {
		g := Graph("g")
		items := make([]Item, n)
		for i := range items {
			items[i] = gives(fmt.Sprint("t", i), i)
		}
		err := g.Add(items...)
		for i := 1; i < n; i++ {
			err = errors.Join(err, g.Link(items[i-1], items[i]))
		}
		return g, err
	}},
	{"a graph that spreads and gathers", func(n int) (Item, error) {
		g := Graph("g")
		first, last := gives("first", 1), &Task{Name: "last"}
		items := []Item{first, last}
		for i := range n {
			task := gives(fmt.Sprint("t", i), i)
			task.Args.Requires = []string{"FIRST"}
			last.Args.Requires = append(last.Args.Requires, fmt.Sprint("T", i))
			items = append(items, task)
		}
		return g, g.Add(items...)
	}},
	{"layers of ten", func(n int) (Item, error) {
		var layers []Item
		for i := range n / 10 {
			var layer []Item
			for k := range 10 {
				layer = append(layer, gives(fmt.Sprintf("t%d-%d", i, k), k))
			}
			layers = append(layers, Unordered(fmt.Sprint("l", i), layer...))
		}
		return Linear("f", layers...), nil
	}},
}

// TestBigFlowsTakeLinearTime: four times the tasks take about four times the time to build, run and revert, not sixteen
// times. Another try is made when the machine was busy.
func TestBigFlowsTakeLinearTime(t *testing.T) {
	once := func(make func(int) (Item, error), n int) time.Duration {
		runtime.GC() // of what came before
		began := time.Now()
		item, err := make(n)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(Linear("all", item, fails("bad")), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); !errors.Is(err, errWoot) || r.State() != Reverted {
			t.Fatalf("%s: %v", r.State(), err)
		}
		if s := r.counts; s.executed < n || s.reverted != s.executed+1 {
			t.Fatalf("stats %+v of %d tasks", s, n)
		}
		return time.Since(began)
	}
	const n = 2_500
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			var few, many time.Duration
			for try := range 10 {
				few, many = once(shape.make, n), once(shape.make, 4*n)
				if many < 8*few { // of what grows with the square it is sixteen
					t.Logf("%d tasks in %s, %d in %s (try %d)", n, few, 4*n, many, try+1)
					return
				}
			}
			t.Errorf("%d tasks take %s, and %d take %s", n, few, 4*n, many)
		})
	}
}

// TestDeepNesting of two hundred flows, each with a controller.
func TestDeepNesting(t *testing.T) {
	const deep = 200
	asked := 0
	item := Item(fails("core"))
	for i := range deep {
		r := AlwaysRevert()
		decide := r.Decide
		r.Decide = func(ctx context.Context, c *Call) (Decision, error) { asked++; return decide(ctx, c) }
		item = Linear(fmt.Sprint("f", i), gives(fmt.Sprint("t", i), i), item).With(r)
	}
	r := rigged(t, item, Options{DeferReverts: true})
	if err := r.run(t, Reverted); !errors.Is(err, errWoot) || asked != deep {
		t.Errorf("asked %d controllers: %v", asked, err)
	}
	if s := r.counts; s.reverted != 2*deep+1 {
		t.Errorf("stats %+v", s)
	}
}

// TestConstructionErrors name the atoms, and leave the flow as it was.
func TestConstructionErrors(t *testing.T) {
	needs := func(name string, needs ...string) *Task { return &Task{Name: name, Args: Args{Requires: needs}} }
	built := func(item Item) error { _, err := New(item, Options{}); return err }
	g := Graph("g")
	a, b, c := gives("a", 1), needs("b", "A"), gives("c", 1)
	c.Args.Requires = []string{"D"}
	if err := g.Add(a, b, c); err != nil {
		t.Fatal(err)
	}
	twin := gives("twin", 1)
	twin.Result = One("A")
	d := gives("d", 1)
	d.Args.Requires = []string{"C"}
	no := func(Values) (bool, error) { return false, nil }
	for _, one := range []struct {
		name  string
		err   error
		kind  error
		word  string
		atoms string
	}{
		{"two of one name", built(Linear("f", gives("a", 1), Linear("g", gives("a", 2)))), ErrDuplicate,
			"duplicate names", "a"},
		{"nothing", built(nil), ErrInvalid, "no flow", ""},
		{"a nil task", built(Linear("f", (*Task)(nil))), ErrInvalid, "no name", ""},
		{"no name", built(Linear("f", &Task{})), ErrInvalid, "no name", ""},
		{"twice", built(Linear("f", a, a)), ErrInvalid, "occurs twice in the flow", "a"},
		{"half a controller", built(Linear("f", a).With(&Retry{Name: "r"})), ErrInvalid, "needs Execute and Decide",
			"r"},
		{"a circle by values", g.Add(d), ErrCyclic, "circle", "c d"},
		{"a circle of explicit links", g.Link(b, a), ErrCyclic, "circle", "b a"},
		{"a link to itself", g.Link(a, a), ErrCyclic, "circle", "a a"},
		{"a link to a stranger", g.Link(a, twin), ErrInvalid, "twin must be added", "twin"},
		{"a decider that is none", g.LinkIf(a, b, nil, DepthAll), ErrInvalid, "no decider", "a b"},
		{"a depth that is none", g.LinkIf(a, b, no, "deep"), ErrInvalid, `no depth "deep"`, "a b"},
		{"two who give it", g.Add(twin, needs("e", "A")), ErrAmbiguous, "both a and twin provide", "e a twin"},
		{"a target that is not there", g.Target(twin), ErrInvalid, "must be added", "twin"},
		{"a line takes no more", Linear("f").Add(a), ErrInvalid, "graph flows only", "f"},
		{"a line has no links", Linear("f", a).Link(a, b), ErrInvalid, "for graph flows only", "f"},
		{"a line has no target", Linear("f", a).Target(a), ErrInvalid, "only graph flows", "f"},
	} {
		t.Run(one.name, func(t *testing.T) { wantKind(t, one.err, one.kind, one.word, strings.Fields(one.atoms)...) })
	}
	if n := len(g.Items()); n != 3 || len(g.Links()) != 1 {
		t.Errorf("%d items and %d links are left, want 3 and 1", n, len(g.Links()))
	}
	r := rigged(t, Linear("f", needs("x", "p", "q"), needs("y", "q")), Options{})
	err := r.Run(t.Context())
	wantKind(t, err, ErrMissing, "x requires p, x requires q, y requires q", "x", "y")
	r.is(t, Pending)
	if err := r.Inject(t.Context(), Values{"p": 1, "q": 2}); err != nil { // control
		t.Fatal(err)
	}
	if err := r.run(t, Success); err != nil {
		t.Error(err)
	}
}

// TestPriorities: of ready atoms the higher priority starts first, and equal ones start in the order of the flow.
func TestPriorities(t *testing.T) {
	with := func(name string, p int) *Task {
		task := gives(name, 1)
		task.Priority = p
		return task
	}
	for _, pool := range []*Pool{nil, NewPool(1)} {
		r := rigged(t, Unordered("f", with("low", -1), with("a", 0), with("high", 9), with("b", 0), with("mid", 5)),
			Options{Workers: pool})
		r.run(t, Success)
		var got []string
		for _, change := range r.heard.Changes() {
			if name, is := strings.CutSuffix(change, " RUNNING"); is && name != "f" {
				got = append(got, name)
			}
		}
		if diff := cmp.Diff([]string{"high", "mid", "a", "b", "low"}, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	}
}

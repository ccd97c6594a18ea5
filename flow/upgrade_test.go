package flow

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// half runs a flow of a, b and c until b is done, and returns its storage.
func half(t *testing.T) *onDisk {
	t.Helper()
	disk := newDisk()
	var r *rig
	r = rigged(t, Linear("f", gives("a", 1), gives("b", 2), gives("c", 3)),
		Options{Storage: disk, Listeners: []Listener{func(e Event) {
			if e.Atom == "b" && e.New == Success {
				r.Suspend()
			}
		}}})
	r.run(t, Suspended)
	return disk
}

// TestUpgrade: a change that affects executed atoms is refused before anything is executed, unless Options.Upgrade
// accepts it. Atoms that have not run may change.
func TestUpgrade(t *testing.T) {
	newer := func(name string) *Task { task := gives(name, 9); task.Version = "2.0"; return task }
	was := func(name, old string) *Task {
		task := gives(name, 9)
		task.Was, task.Result = []string{old}, gives(old, 9).Result
		return task
	}
	for _, c := range []struct {
		name    string
		item    Item
		meaning []string
		end     string // of the atoms
	}{
		{"the same", Linear("f", gives("a", 1), gives("b", 1), gives("c", 1)), nil, "a SUCCESS, b SUCCESS, c SUCCESS"},
		{"new at the end", Linear("f", gives("a", 1), gives("b", 1), gives("c", 1), gives("d", 1)), nil, "a SUCCESS, b SUCCESS, c SUCCESS, d SUCCESS"},
		{"new in what is done", Linear("f", gives("a", 1), gives("x", 1), gives("b", 1), gives("c", 1)), []string{"x is new, and what comes after it has been done"}, "a SUCCESS, x SUCCESS, b SUCCESS, c SUCCESS"},
		{"gone before it ran", Linear("f", gives("a", 1), gives("b", 1)), nil, "a SUCCESS, b SUCCESS"},
		{"gone after it ran", Linear("f", gives("b", 1), gives("c", 1)), []string{"a is gone, and is SUCCESS"},
			"b SUCCESS, c SUCCESS"},
		{"newer before it ran", Linear("f", gives("a", 1), gives("b", 1), newer("c")), nil,
			"a SUCCESS, b SUCCESS, c SUCCESS"},
		{"newer after it ran", Linear("f", gives("a", 1), newer("b"), gives("c", 1)), []string{"b has version 2.0, and is SUCCESS under version 1.0"}, "a SUCCESS, b SUCCESS, c SUCCESS"},
		{"renamed", Linear("f", gives("a", 1), was("z", "b"), gives("c", 1)), nil, "a SUCCESS, z SUCCESS, c SUCCESS"},
		{"renamed without Was", Linear("f", gives("a", 1), gives("z", 1), gives("c", 1)),
			[]string{"b is gone, and is SUCCESS"}, "a SUCCESS, z SUCCESS, c SUCCESS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := half(t)
			r := rigged(t, c.item, Options{Storage: disk})
			err := r.Run(t.Context())
			if c.meaning != nil {
				if !errors.Is(err, ErrChanged) {
					t.Errorf("got %v, want %v", err, ErrChanged)
				}
				for _, rec := range must(disk.Load(t.Context())).Atoms {
					if rec.Attempts > 1 || rec.Name == "c" && rec.State != Pending {
						t.Errorf("%s was touched: %+v", rec.Name, rec)
					}
				}
				var asked []string
				r = rigged(t, c.item, Options{Storage: disk, Upgrade: func(d *Difference) error {
					asked = d.Meaning()
					return AcceptChanges(d)
				}})
				err = r.Run(t.Context())
				if diff := cmp.Diff(c.meaning, asked); diff != "" {
					t.Errorf("asked about (-want +got):\n%s", diff)
				}
			}
			if err != nil || r.State() != Success {
				t.Fatalf("%s: %v", r.State(), err)
			}
			r.atoms(t, c.end)
		})
	}
}

func must(s *Snapshot, err error) *Snapshot {
	if err != nil {
		panic(err)
	}
	return s
}

// TestUpgradeHookRefuses: it gets all differences, and its error is wrapped.
func TestUpgradeHookRefuses(t *testing.T) {
	z := gives("z", 1)
	z.Was, z.Version, z.Result = []string{"y", "a"}, "3", One("A")
	var got Difference
	r := rigged(t, Linear("f", z, gives("c", 1), gives("d", 1)),
		Options{Storage: half(t), Upgrade: func(d *Difference) error { got = *d; return errWoot }})
	if err := r.Run(t.Context()); !errors.Is(err, errWoot) || !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
	want := Difference{Added: []string{"d"}, Removed: []Removed{{"b", KindTask, Success}},
		Renamed: []Renamed{{"a", "z"}}, Versions: []VersionChange{{"z", "1.0", "3", Success}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Difference{})); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// TestRenamedIsStoredOnce: the next Runner, too, finds a record of the old name under the new one.
func TestRenamedIsStoredOnce(t *testing.T) {
	disk, n := half(t), 0
	make := func(was ...string) *Flow {
		z := does("z", func(context.Context) error { n++; return nil })
		z.Was, z.Result = was, One("B")
		return Linear("f", gives("a", 1), z, gives("c", 1), gives("d", 1))
	}
	r := rigged(t, make("b"), Options{Storage: disk})
	if err := r.run(t, Success); err != nil || n != 0 {
		t.Fatalf("%v, executed %d times", err, n)
	}
	r = rigged(t, make("b"), Options{Storage: disk})
	if err := r.run(t, Success); err != nil || n != 0 {
		t.Errorf("%v, executed %d times", err, n)
	}
}

// TestKindsDoNotChange: a stored task is no retry controller.
func TestKindsDoNotChange(t *testing.T) {
	r := &Retry{Name: "a", Execute: Times(1).Execute, Decide: Times(1).Decide}
	run := rigged(t, Linear("f", gives("b", 1), gives("c", 1)).With(r),
		Options{Storage: half(t), Upgrade: AcceptChanges})
	wantKind(t, run.Run(t.Context()), ErrDuplicate, "a is stored as a task, and is a retry now", "a")
}

// TestReshaped: the order, the nesting and the results of executed atoms are compared with the stored ones. Atoms that
// have not run may change.
func TestReshaped(t *testing.T) {
	a, b, c := func() Item { return gives("a", 1) }, func() Item { return gives("b", 1) }, func() Item {
		return gives("c", 1)
	}
	other := gives("b", 1)
	other.Result = One("Z")
	ahead := gives("c", 1)
	ahead.Result = One("Z")
	graph := func(links ...string) *Flow {
		g := Graph("f")
		at := map[byte]Item{'a': a(), 'b': b(), 'c': c()}
		if err := g.Add(at['a'], at['b'], at['c']); err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if err := g.Link(at[l[0]], at[l[1]]); err != nil {
				t.Fatal(err)
			}
		}
		return g
	}
	for _, one := range []struct {
		name string
		item Item
		want []string
	}{
		{"swapped", Linear("f", b(), a(), c()), []string{"b does not come after a any more, and b has run"}},
		{"swapped with what is ahead", Linear("f", a(), c(), b()), []string{"c does not come after b any more, and b has run"}},
		{"the last one first", Linear("f", c(), a(), b()), []string{"c does not come after b any more, and b has run"}},
		{"unordered", Unordered("f", a(), b(), c()), []string{
			"b does not come after a any more, and b has run", "c does not come after b any more, and b has run"}},
		{"unordered in part", Linear("f", a(), Unordered("in", b(), c())), []string{"b was moved from the flow to in, and is SUCCESS"}},
		{"what is ahead is nested", Linear("f", a(), b(), Unordered("in", c(), gives("d", 1))), nil},
		{"a graph in the same order", graph("ab", "bc"), nil},
		{"a graph without a link", graph("ab"), []string{"c does not come after b any more, and b has run"}},
		{"another name", Linear("f", a(), other, c()), []string{`b does not provide "B" any more, and is SUCCESS`}},
		{"another name ahead", Linear("f", a(), b(), ahead), nil},
		{"another name of the flow", Linear("g", a(), b(), c()), nil},
	} {
		t.Run(one.name, func(t *testing.T) {
			disk := half(t)
			err := rigged(t, one.item, Options{Storage: disk}).Run(t.Context())
			if one.want == nil && err != nil || one.want != nil && !errors.Is(err, ErrChanged) {
				t.Fatalf("got %v, want %q", err, one.want)
			}
			if one.want == nil {
				return
			}
			if text := err.Error(); !strings.Contains(text, one.want[0]) || !strings.Contains(text, "Options.Upgrade") {
				t.Errorf("no reason or remedy in %q", text)
			}
			var asked []string
			accept := func(d *Difference) error { asked = d.Meaning(); return AcceptChanges(d) }
			if err := rigged(t, one.item, Options{Storage: disk, Upgrade: accept}).Run(t.Context()); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(one.want, asked); diff != "" {
				t.Errorf("asked about (-want +got):\n%s", diff)
			}
			asked = nil
			if err := rigged(t, one.item, Options{Storage: disk, Upgrade: accept}).Run(t.Context()); err != nil ||
				len(asked) > 0 {
				t.Errorf("what was accepted is asked again: %q, %v", asked, err)
			}
		})
	}
}

// TestReshapedGraph: removed and new links matter if an atom at either end has run. So does a new order.
func TestReshapedGraph(t *testing.T) {
	begun := func(t *testing.T, item Item) *onDisk {
		disk := newDisk()
		r := rigged(t, item, Options{Storage: disk})
		if _, err := r.Advance(t.Context()); err != nil {
			t.Fatal(err)
		}
		return disk
	}
	a, wait, c := func() Item { return gives("a", 1) }, func() Item { return Wait("w", "go", 0) }, func() Item {
		return gives("c", 1)
	}
	for _, one := range []struct {
		name     string
		old, now Item
		want     string // empty: it goes on
	}{
		{"an order that was kept", Unordered("f", a(), wait(), c()), Linear("f", a(), c(), wait()), ""},
		{"an order that was not kept", Unordered("f", a(), wait(), c()), Linear("f", a(), wait(), c()),
			"w comes before c now, and c has run"},
		{"a flow that did not begin", Linear("f", wait(), a(), c()), Linear("f", wait(), c(), a()), ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			r := rigged(t, one.now, Options{Storage: begun(t, one.old)})
			_, err := r.Advance(t.Context())
			if one.want == "" && err != nil || one.want != "" &&
				(!errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), one.want)) {
				t.Errorf("got %v, want %q", err, one.want)
			}
		})
	}
}

// TestRefusalsNameTheRemedy that fits.
func TestRefusalsNameTheRemedy(t *testing.T) {
	newer := gives("b", 1)
	newer.Version = "2"
	for _, one := range []struct {
		item Item
		want []string
	}{
		{Linear("f", gives("b", 1), gives("c", 1)), []string{"Was", "Options.Upgrade"}},
		{Linear("f", gives("a", 1), newer, gives("c", 1)), []string{"Version", "Options.Upgrade"}},
	} {
		err := rigged(t, one.item, Options{Storage: half(t)}).Run(t.Context())
		for _, word := range one.want {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("no %q in %v", word, err)
			}
		}
	}
}

// TestRemovedTaskIsNotReverted: a flow that was accepted without a task that was done is not REVERTED while that is
// done; with the task it is.
func TestRemovedTaskIsNotReverted(t *testing.T) {
	disk := half(t)
	flawed := Linear("f", gives("b", 2), fails("c"))
	r := rigged(t, flawed, Options{Storage: disk, Upgrade: AcceptChanges})
	err := r.run(t, FailureState)
	var all *Failures
	if !errors.As(err, &all) || !all.Caused(TypeRemoved) || !errors.Is(err, errWoot) ||
		!slices.Contains(all.Atoms, "a") {
		t.Errorf("got %v", err)
	}
	r.atoms(t, "b REVERTED, c REVERTED")
	r = rigged(t, flawed, Options{Storage: disk, Upgrade: AcceptChanges})
	if err := r.run(t, FailureState); err == nil { // still
		t.Error("no error")
	}
	undone := 0
	a := gives("a", 1)
	a.Revert = func(context.Context, *Call) (any, error) { undone++; return nil, nil }
	r = rigged(t, Linear("f", a, gives("b", 2), fails("c")), Options{Storage: disk})
	if err := r.run(t, Reverted); err == nil || undone != 1 {
		t.Errorf("with the task: %v, reverted %d times", err, undone)
	}
}

package flow

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// half runs a flow of a, b and c until b is done, and gives what is stored.
func half(t *testing.T) *onDisk {
	t.Helper()
	disk := newDisk()
	var r *rig
	r = rigged(t, Linear("f", gives("a", 1), gives("b", 2), gives("c", 3)), Options{Storage: disk, Listeners: []Listener{func(e Event) {
		if e.Atom == "b" && e.New == Success {
			r.Suspend()
		}
	}}})
	r.run(t, Suspended)
	return disk
}

// TestUpgrade: what changes the meaning of what was done is refused before anything is done, unless somebody accepts it; what lies ahead may change.
func TestUpgrade(t *testing.T) {
	newer := func(name string) *Task { task := gives(name, 9); task.Version = "2.0"; return task }
	was := func(name, old string) *Task { task := gives(name, 9); task.Was = []string{old}; return task }
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
		{"gone after it ran", Linear("f", gives("b", 1), gives("c", 1)), []string{"a is gone, and is SUCCESS"}, "b SUCCESS, c SUCCESS"},
		{"newer before it ran", Linear("f", gives("a", 1), gives("b", 1), newer("c")), nil, "a SUCCESS, b SUCCESS, c SUCCESS"},
		{"newer after it ran", Linear("f", gives("a", 1), newer("b"), gives("c", 1)), []string{"b has version 2.0, and is SUCCESS under version 1.0"}, "a SUCCESS, b SUCCESS, c SUCCESS"},
		{"renamed", Linear("f", gives("a", 1), was("z", "b"), gives("c", 1)), nil, "a SUCCESS, z SUCCESS, c SUCCESS"},
		{"renamed and nobody says so", Linear("f", gives("a", 1), gives("z", 1), gives("c", 1)), []string{"b is gone, and is SUCCESS"}, "a SUCCESS, z SUCCESS, c SUCCESS"},
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
				r = rigged(t, c.item, Options{Storage: disk, Upgrade: func(d *Difference) error { asked = d.Meaning(); return AcceptChanges(d) }})
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

// TestUpgradeHookRefuses with its own error, and is told everything.
func TestUpgradeHookRefuses(t *testing.T) {
	z := gives("z", 1)
	z.Was, z.Version = []string{"y", "a"}, "3"
	var got Difference
	r := rigged(t, Linear("f", z, gives("c", 1), gives("d", 1)), Options{Storage: half(t), Upgrade: func(d *Difference) error { got = *d; return errWoot }})
	if err := r.Run(t.Context()); !errors.Is(err, errWoot) || !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
	want := Difference{Added: []string{"d"}, Removed: []Removed{{"b", KindTask, Success}}, Renamed: []Renamed{{"a", "z"}}, Versions: []VersionChange{{"z", "1.0", "3", Success}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Difference{})); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestRenamedIsStoredOnce: what was stored under the old name is found under the new one by the next Runner too.
func TestRenamedIsStoredOnce(t *testing.T) {
	disk, n := half(t), 0
	make := func(was ...string) *Flow {
		z := does("z", func(context.Context) error { n++; return nil })
		z.Was = was
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
	run := rigged(t, Linear("f", gives("b", 1), gives("c", 1)).With(r), Options{Storage: half(t), Upgrade: AcceptChanges})
	wantKind(t, run.Run(t.Context()), ErrDuplicate, "a is stored as a task, and is a retry now", "a")
}

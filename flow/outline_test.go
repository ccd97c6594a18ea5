package flow_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
)

func yes(flow.Values) (bool, error) { return true, nil }

// TestOutline: the structure of nested flows, through JSON and back.
func TestOutline(t *testing.T) {
	fetch := &flow.Task{Name: "fetch", Result: flow.One("file")}
	check := &flow.Task{Name: "check", Args: flow.Args{Requires: []string{"file"}}, Priority: 3, Version: "2.1"}
	tell := flow.Unordered("tell", &flow.Task{Name: "mail"}, &flow.Task{Name: "log"})
	g := flow.Graph("work").With(flow.Times(2))
	for _, err := range []error{g.Add(check, fetch, tell), g.LinkIf(check, tell, yes, flow.DepthFlow)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := flow.OutlineOf(flow.Linear("root", &flow.Task{Name: "begin"}, g))
	if err != nil {
		t.Fatal(err)
	}
	task := func(name string) *flow.Outline {
		return &flow.Outline{Kind: flow.KindTask, Name: name, Version: "1.0"}
	}
	want := &flow.Outline{Kind: flow.KindFlow, Name: "root", Pattern: flow.PatternLinear, Gives: []string{"file"},
		Items: []*flow.Outline{
			task("begin"),
			{
				Kind: flow.KindFlow, Name: "work", Pattern: flow.PatternGraph, Gives: []string{"file"},
				Retry: &flow.Outline{Kind: flow.KindRetry, Name: "work_retry", Version: "1.0"},
				Items: []*flow.Outline{
					{Kind: flow.KindTask, Name: "fetch", Version: "1.0", Gives: []string{"file"}},
					{Kind: flow.KindTask, Name: "check", Version: "2.1", Priority: 3, Needs: []string{"file"}},
					{Kind: flow.KindFlow, Name: "tell", Pattern: flow.PatternUnordered,
						Items: []*flow.Outline{task("mail"), task("log")}},
				},
				Links: []flow.OutlinedLink{{From: 0, To: 1, Names: []string{"file"}},
					{From: 1, To: 2, Depth: flow.DepthFlow}},
			},
		}}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	read := new(flow.Outline)
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"begin", "work_retry", "fetch", "check", "mail", "log"}, got.Atoms()); diff != "" {
		t.Error(diff)
	}
}

// TestOutlineNamesWhatIsStored: the atoms of an outline are those that a run leaves records of.
func TestOutlineNamesWhatIsStored(t *testing.T) {
	f := flow.Linear("f", &flow.Task{Name: "a"}, flow.Unordered("g", &flow.Task{Name: "b"}).With(flow.Times(1)))
	o, err := flow.OutlineOf(f)
	if err != nil {
		t.Fatal(err)
	}
	r, err := flow.New(f, flow.Options{Storage: flow.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var stored []string
	for _, rec := range r.Atoms() {
		stored = append(stored, rec.Name)
	}
	if diff := cmp.Diff(stored, o.Atoms()); diff != "" {
		t.Error(diff)
	}
}

// TestOutlineRefuses what cannot be run.
func TestOutlineRefuses(t *testing.T) {
	if _, err := flow.OutlineOf(nil); !errors.Is(err, flow.ErrInvalid) {
		t.Errorf("nothing: %v, want %v", err, flow.ErrInvalid)
	}
	if _, err := flow.OutlineOf(flow.Linear("f", &flow.Task{Name: "a"}, &flow.Task{Name: "a"})); !errors.Is(err,
		flow.ErrDuplicate) {
		t.Errorf("two of one name: %v, want %v", err, flow.ErrDuplicate)
	}
}

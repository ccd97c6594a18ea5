package flow_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stagepost/stagepost/flow"
)

// override is what we do where TaskFlow is wrong: other steps for a scenario, perhaps another flow, and why.
type override struct {
	Why   string         `json:"why"`
	Flow  *itemWords     `json:"flow"`
	Store map[string]any `json:"store"`
	Steps []step         `json:"steps"`
}

// ours reads the overrides.
func ours(t *testing.T) map[string]override {
	t.Helper()
	all := map[string]override{}
	open(t, "testdata/ours.yaml", &all)
	for id, o := range all {
		if o.Why == "" || len(o.Steps) == 0 {
			t.Fatalf("ours.yaml: %s has no reason, or no override", id)
		}
	}
	return all
}

// performance is a way to play a scenario.
type performance struct {
	name     string
	scenario *scenario
	parallel bool
	loose    bool

	unsuspended remains // what is left if the suspension of the last step is lost
}

// performances gives the entries which a scenario is played: with one worker and with several, with what it expects or,
// where that is known to be wrong, with what we state instead.
func performances(t *testing.T, s *scenario) []performance {
	t.Helper()
	engines := s.Engines
	if engines == nil {
		engines = []string{"serial", "parallel"}
	}
	versions := map[string]*scenario{"": s}
	other, has := ours(t)[s.ID]
	if has && (s.Defect || file() == standard) {
		one := *s
		one.Steps, one.Defect = other.Steps, false
		if other.Flow != nil {
			one.Flow, one.Store = other.Flow, other.Store
		}
		versions["ours/"] = &one
	}
	var all []performance
	for _, e := range engines {
		if e != "serial" && e != "parallel" {
			t.Fatalf("there is no engine %q", e)
		}
		for prefix, v := range versions {
			all = append(all, performance{name: prefix + e, scenario: v, parallel: e == "parallel", loose: v.Defect})
		}
	}
	if len(all) == 0 {
		t.Fatal("nothing is to be played")
	}
	return all
}

// pool gives the workers of a play.
func (f *performance) pool() *flow.Pool {
	if !f.parallel {
		return nil
	}
	if f.scenario.Workers > 0 {
		return flow.NewPool(f.scenario.Workers)
	}
	return flow.NewPool(2)
}

// keeps reports whether a scenario can be played only where the flow is kept.
func (s *scenario) keeps() bool {
	return slices.ContainsFunc(s.Steps, func(one step) bool { return one.Preset != nil || one.NewEngine != nil })
}

// TestScenarios plays the conformance scenarios of TaskFlow: those of testdata, or of the file that STAGEPOST_SCENARIOS
// names.
func TestScenarios(t *testing.T) {
	b := scenarios(t)
	if len(b.Scenarios)+len(b.Jobs)+len(b.Conductors)+len(b.Tables) == 0 {
		t.Fatalf("%s has no scenarios", file())
	}
	for _, e := range b.Scenarios {
		t.Run(e.id, func(t *testing.T) {
			s, err := e.read()
			if err != nil {
				t.Fatal(err)
			}
			if s.Build != nil {
				checkBuild(t, s)
			}
			if len(s.Steps) == 0 && s.Build == nil {
				t.Fatal("the scenario has no steps")
			}
			for _, f := range performances(t, s) {
				perform(t, f)
			}
		})
	}
}

// perform plays a scenario on every stage.
func perform(t *testing.T, f performance) {
	if len(f.scenario.Steps) == 0 {
		return
	}
	t.Run(f.name+"/memory", func(t *testing.T) {
		w := newHarness()
		playOn(t, f, w, memory{newLedger(w)})
	})
	if !f.scenario.keeps() {
		t.Run(f.name+"/bare", func(t *testing.T) { playOn(t, f, newHarness(), bare{}) })
	}
}

func playOn(t *testing.T, f performance, w *harness, on stage) {
	t.Helper()
	p := newPlay(t.Context(), f.scenario, w, on, f.pool())
	p.loose = f.loose
	p.all()
	for _, text := range p.wrong {
		t.Error(text)
	}
}

// checkBuild examines a flow that is made and not run.
func checkBuild(t *testing.T, s *scenario) {
	t.Helper()
	b, err := build(newHarness(), s.Flow)
	if text := s.Build.Raises.check(err); text != "" {
		t.Error(text)
	}
	if err != nil {
		return
	}
	p := &play{}
	names := func(want *[]string, what string, got []string) {
		if want != nil {
			p.differ(what, slices.Sorted(slices.Values(*want)), slices.Sorted(slices.Values(got)))
		}
	}
	names(s.Build.Requires, "requires", b.item.Needs())
	names(s.Build.Provides, "provides", b.item.Gives())
	if f, is := b.item.(*flow.Flow); is && s.Build.Items != nil {
		var items []string
		for _, item := range f.Items() {
			items = append(items, item.Title())
		}
		p.differ("items", *s.Build.Items, items)
	}
	if f, is := b.item.(*flow.Flow); is && s.Build.Links != nil {
		links, want := []string{}, []string{}
		for _, l := range f.Links() {
			links = append(links, l.From.Title()+" to "+l.To.Title())
		}
		for _, l := range *s.Build.Links {
			if len(l) != 2 {
				t.Fatalf("a link has two ends: %v", l)
			}
			want = append(want, l[0]+" to "+l[1])
		}
		names(&want, "links", links)
	}
	for _, text := range p.wrong {
		t.Error(text)
	}
}

// TestOurs plays what we do where TaskFlow is wrong, for the scenarios of which we know without having them.
func TestOurs(t *testing.T) {
	for id, o := range ours(t) {
		if o.Flow == nil {
			continue // it is played in the position of a scenario
		}
		for _, parallel := range []bool{false, true} {
			f := performance{name: "ours", scenario: &scenario{ID: id, Flow: o.Flow, Store: o.Store, Steps: o.Steps},
				parallel: parallel}
			t.Run(id, func(t *testing.T) {
				perform(t, f)
				crashEverywhere(t, f)
			})
		}
	}
}

// TestChecksRefuse is the control of the plays: each of these expectations is wrong, and must be noticed.
func TestChecksRefuse(t *testing.T) {
	const text = `{"id": "x", "store": {"n": 1}, "flow": {"linear": "f", "of": [{"task": "a", "do": {"add_one": "n"}, "undo": {"return": 3}, "provides": "m"},
		{"task": "b", "do": {"fail_if_gate": "bad"}}]}, "steps": [{"gate": {"bad": %s}}, {"run": %s}]}`
	play := func(bad, run string) []string {
		s, err := (entry{"x", []byte(fmt.Sprintf(text, bad, run))}).read()
		if err != nil {
			t.Fatalf("%s: %v", run, err)
		}
		w := newHarness()
		p := newPlay(t.Context(), s, w, memory{newLedger(w)}, nil)
		p.all()
		return p.wrong
	}
	for _, good := range [][2]string{{"false", `{}`}, {"true", `{"raises": {"error": "RuntimeError", "match": "^Woot!$"}}`}, {"true", `{"raises": {}}`}} {
		if wrong := play(good[0], good[1]); len(wrong) > 0 {
			t.Errorf("%s: %q", good[1], wrong)
		}
	}
	for _, run := range []string{
		`{"raises": {}}`, `{"flow_state": "REVERTED"}`, `{"values": {"n": 1}}`, `{"values": {"n": 1, "m": 3}}`,
		`{"values_include": {"k": null}}`,
		`{"atom_states": {"a": "PENDING"}}`, `{"atom_states": {"c": "SUCCESS"}}`,
		`{"atom_intentions": {"a": "REVERT"}}`, `{"atom_results": {"a": 5}}`,
		`{"revert_results": {"a": 3}}`, `{"execute_failures": {"a": "x"}}`, `{"revert_failures": ["a"]}`,
		`{"executed_with": {"a": [{"n": 2}]}}`,
		`{"executed_with": {"a": []}}`, `{"reverted_with": {"a": [{"result": 2}]}}`, `{"decider_histories": [["a"]]}`, `{"progress": {"a": [0]}}`,
		`{"machine_states": ["RESUMING"]}`, `{"capture": "some"}`, `{"requires": []}`, `{"suspend_on": {"task": "a", "state": "SUCCESS"}, "flow_state": "SUCCESS"}`,
		`{"events": ["f.f RUNNING"]}`, `{"never": ["a.t SUCCESS(2)"]}`,
	} {
		if wrong := play("false", run); len(wrong) == 0 {
			t.Errorf("%s must not pass", run)
		}
	}
	for _, run := range []string{`{}`, `{"raises": {"error": "ValueError"}}`, `{"raises": {"error": "RuntimeError", "match": "^oot"}}`, `{"raises": {"error": "WrappedFailure"}}`} {
		if wrong := play("true", run); len(wrong) == 0 {
			t.Errorf("%s must not pass", run)
		}
	}
}

package flow_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
)

// check compares the result of a step with its expectations.
func (p *play) check(c *checkWords) {
	if p.loose {
		return
	}
	w := p.harness
	var events, machine []string
	w.note(w.life(), func() {
		for _, e := range w.events {
			if c.Capture == "atoms" && e.letter == "f" || e.letter == "t" && slices.Contains(c.SkipTasks, e.name) {
				continue
			}
			events = append(events, e.String())
		}
		machine = slices.Clone(w.machine)
	})
	if c.Capture != "" && c.Capture != "all" && c.Capture != "atoms" {
		p.failf("unknown kind of capture %q", c.Capture)
	}
	for _, err := range c.events(events) {
		p.failf("%v", err)
	}
	if p.unmade != nil {
		return
	}
	if c.Machine != nil {
		if state := string(p.engine.State()); state != "FAILURE" { // which TaskFlow does not yield
			machine = append(machine, state)
		}
		p.differ("machine_states", *c.Machine, machine)
	}
	if c.FlowState != nil {
		p.differ("flow_state", *c.FlowState, string(p.engine.State()))
	}
	p.checkValues(c)
	p.checkAtoms(c)
	p.checkCalls(c)
	if c.Requires != nil || c.Provides != nil || c.Links != nil || c.Items != nil {
		p.failf("requires, provides, links and items are for build")
	}
}

func (p *play) differ(what string, want, got any) {
	if diff := cmp.Diff(filled(want), filled(got)); diff != "" {
		p.failf("%s (-want +got):\n%s", what, diff)
	}
}

// filled makes a plain value in which null and an empty list or map are the same.
func filled(v any) any {
	v = plain(v)
	switch all := v.(type) {
	case []any:
		if len(all) == 0 {
			return nil
		}
	case map[string]any:
		if len(all) == 0 {
			return nil
		}
	}
	return v
}

func (p *play) checkValues(c *checkWords) {
	if c.Values == nil && c.ValuesInclude == nil {
		return
	}
	got := p.engine.Values()
	if c.Values != nil {
		p.differ("values", *c.Values, got)
	}
	for name, want := range c.ValuesInclude {
		v, there := got[name]
		if !there {
			p.failf("there is no value %s: %v", name, got)
		}
		p.differ("value "+name, want, v)
	}
}

func (p *play) checkAtoms(c *checkWords) {
	atoms := map[string]flow.Record{}
	for _, r := range p.engine.Atoms() {
		atoms[r.Name] = r
	}
	the := func(name string) flow.Record {
		r, there := atoms[name]
		if !there {
			p.failf("there is no atom %q", name)
		}
		return r
	}
	for name, want := range c.AtomStates {
		p.differ("state of "+name, want, string(the(name).State))
	}
	for name, want := range c.AtomIntentions {
		p.differ("intention of "+name, want, string(the(name).Intention))
	}
	for name, want := range c.AtomResults {
		r := the(name)
		v := r.Result
		if r.Kind == flow.KindRetry && len(r.History) > 0 {
			v = &r.History[len(r.History)-1].Value
		}
		if v == nil {
			p.failf("%s has no result", name)
			continue
		}
		p.differ("result of "+name, want, v.Any())
	}
	for name, want := range c.RevertResults {
		r := the(name)
		if r.Reverted == nil {
			p.failf("%s has no result of a revert", name)
			continue
		}
		p.differ("revert result of "+name, want, r.Reverted.Any())
	}
	p.checkFailures("execute_failures", c.ExecuteFailures, p.engine.ExecuteFailures())
	p.checkFailures("revert_failures", c.RevertFailures, p.engine.RevertFailures())
}

func (p *play) checkFailures(what string, want *failureWords, got map[string]*flow.Failure) {
	if want == nil {
		return
	}
	texts, atoms := map[string]string{}, []string{}
	for name, f := range got {
		texts[name] = f.String()
		atoms = append(atoms, name)
	}
	if want.texts != nil {
		p.differ(what, want.texts, texts)
		return
	}
	p.differ(what, slices.Sorted(slices.Values(want.atoms)), slices.Sorted(slices.Values(atoms)))
}

func (p *play) checkCalls(c *checkWords) {
	w := p.harness
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, want := range c.ExecutedWith {
		got := slices.Clone(w.executed[name])
		for i := range got {
			got[i] = asked(got[i], want, i, "history")
		}
		p.differ(name+" executed with", lean(want), lean(got))
	}
	for name, want := range c.RevertedWith {
		got := slices.Clone(w.reverted[name])
		for i := range got { // a revert also gets the arguments of the execution; scenarios have only the others
			got[i] = only(got[i], want, i)
		}
		p.differ(name+" reverted with", lean(want), lean(got))
	}
	if c.DeciderHistories != nil {
		want := slices.Clone(*c.DeciderHistories)
		for i := range want {
			want[i] = slices.Sorted(slices.Values(want[i]))
		}
		p.differ("decider_histories", want, w.histories)
	}
	for name, want := range c.Progress {
		p.differ("progress of "+name, want, w.progress[name])
	}
}

// lean removes null arguments, which equal optional arguments without a value.
func lean(calls []map[string]any) []map[string]any {
	all := []map[string]any{}
	for _, call := range calls {
		one := map[string]any{}
		for arg, v := range call {
			if v != nil {
				one[arg] = v
			}
		}
		all = append(all, one)
	}
	return all
}

// only leaves out arguments that are not asked about.
func only(call map[string]any, want []map[string]any, i int) map[string]any {
	if i >= len(want) {
		return call
	}
	one := map[string]any{}
	for arg, v := range call {
		if _, asked := want[i][arg]; asked {
			one[arg] = v
		}
	}
	return one
}

// asked removes one argument if the scenario does not check it.
func asked(call map[string]any, want []map[string]any, i int, arg string) map[string]any {
	if i < len(want) {
		if _, is := want[i][arg]; is {
			return call
		}
	}
	one := maps.Clone(call)
	delete(one, arg)
	return one
}

// check describes the difference between an error and the expected one; empty: none.
func (r *raiseWords) check(err error) string {
	switch {
	case r == nil && err == nil:
		return ""
	case r == nil:
		return fmt.Sprintf("raises %s: %v", namesOf(err), err)
	case err == nil:
		return fmt.Sprintf("raises nothing, want %+v", *r)
	}
	pattern, wrong := regexp.Compile(r.Match)
	if wrong != nil {
		return fmt.Sprintf("match: %v", wrong)
	}
	candidates := []error{err}
	var several *flow.Failures
	if errors.As(err, &several) { // as TaskFlow's own tests do, one of those that are wrapped is searched for
		for _, one := range several.All {
			candidates = append(candidates, one)
		}
	}
	for _, one := range candidates {
		if _, textOnly := one.(*storedError); textOnly && pattern.MatchString(one.Error()) {
			return ""
		}
		if (r.Error == "" || r.Error == "Exception" || slices.Contains(namesOf(one), r.Error)) &&
			pattern.MatchString(one.Error()) {
			return ""
		}
	}
	return fmt.Sprintf("raises %s: %v, want %+v", namesOf(err), err, *r)
}

// kinds are our errors by TaskFlow's names, from the most special to the most general.
var kinds = []struct {
	kind  error
	names []string
}{
	{flow.ErrDuplicate, []string{"Duplicate"}},
	{flow.ErrAmbiguous, []string{"AmbiguousDependency", "DependencyFailure"}},
	{flow.ErrCyclic, []string{"DependencyFailure"}},
	{flow.ErrMissing, []string{"MissingDependencies", "DependencyFailure"}},
	{flow.ErrNotFound, []string{"NotFound"}},
	{flow.ErrInvalid, []string{"ValueError", "TypeError"}},
	{flow.ErrState, []string{"InvalidState", "ExecutionFailure"}},
	{flow.ErrBusy, []string{"ExecutionFailure"}},
}

// namesOf returns TaskFlow's names for an error.
func namesOf(err error) (names []string) {
	var several *flow.Failures
	if errors.As(err, &several) {
		return []string{"WrappedFailure"}
	}
	if typed, is := err.(flow.Typed); is {
		names = append(names, typed.FailureType())
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			names = append(names, k.names...)
		}
	}
	return names
}

package flow_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// crash makes the process of a play crash at a commit; another process continues. These differences from a play without
// a crash are allowed:
//
//   - Changes stored at the crash are not reported: the listeners crashed too.
//   - A request to suspend is lost with its process. The flow continues to its end, and the steps after the suspension
//     have nothing left to do. If it was the last step, the flow ends as without a suspension.
//   - The request of a run from FAILURE to repeat failed reverts is lost too: the flow ends in FAILURE again and is run
//     again.
//   - A flow whose end was stored is not run again by the step that ran it, because that would start it from the
//     beginning.
type crash struct {
	ledger *ledger
	states []lifecycle.State // of the flow after each step of the play without a crash; nil in that play itself
	step   int               // the present one
	defect bool              // the expectations of the steps are wrong
	late   bool              // the request to suspend came in one process, and another one continued
	strays bool              // the suspension that the scenario is about was lost
	wentOn bool              // it was that of the last step: the flow has ended, which the scenario does not expect
	seen   []lifecycle.State // of the flow after each step
}

// skips reports whether a step has nothing left to do.
func (c *crash) skips(p *play, i int) bool {
	c.step = i
	for len(c.seen) < i { // steps so far
		c.seen = append(c.seen, p.engineState())
	}
	if c.states != nil && i > 0 && !c.strays {
		c.strays = c.states[i-1] == flow.Suspended && c.seen[i-1] != flow.Suspended
	}
	return c.strays && (p.scenario.Steps[i].Run != nil || p.scenario.Steps[i].Suspend != nil)
}

func (p *play) engineState() lifecycle.State {
	if p.unmade != nil || p.engine == nil {
		return ""
	}
	return p.engine.State()
}

// survive does something during which the process may crash; then another process does it.
func (c *crash) survive(p *play, words *checkWords, do func() error) error {
	if c == nil {
		return do()
	}
	_, before, _, was := c.ledger.account()
	err := do()
	_, after, last, dead := c.ledger.account()
	if !dead || was {
		return err
	}
	p.end()
	p.begin()
	c.ledger.revive()
	c.ledger.Change(func(s *flow.Snapshot) { s.Live = false })
	p.open()
	if p.unmade != nil {
		return p.unmade
	}
	if after > before && over(last) {
		if err := p.engine.Load(p.ctx); err != nil {
			return err
		}
		return nil
	}
	c.late = c.states != nil && c.states[c.step] == flow.Suspended
	err = do()
	if c.states != nil && p.engine.State() == flow.FailureState && c.states[c.step] != flow.FailureState {
		err = do()
	}
	if !c.defect && c.states != nil && p.engine.State() == c.states[c.step] {
		if text := words.Raises.check(err); text != "" {
			p.failf("after a crash: %s", text)
		}
	}
	return err
}

// over reports whether a run ended with a move.
func over(last flow.Transition) bool {
	switch last.To {
	case flow.Success, flow.FailureState, flow.Reverted, flow.Pending:
		return last.Event != flow.Reset || last.To != flow.Pending
	case flow.Suspended:
		return last.From == flow.Suspending
	}
	return false
}

// remains is the stored result of a play.
type remains struct {
	State  lifecycle.State
	Values flow.Values
	Atoms  map[string]remnant
}

type remnant struct {
	State                  lifecycle.State
	Intention              flow.Intention
	Result, Reverted       any
	Failure, RevertFailure string
	History                any
	Attempts               int
}

func (p *play) remains() remains {
	all := remains{Atoms: map[string]remnant{}}
	if p.unmade != nil || p.engine.Load(p.base) != nil {
		return all
	}
	all.State = p.engineState()
	all.Values = plain(map[string]any(p.engine.Values())).(map[string]any)
	for _, r := range p.engine.Atoms() {
		one := remnant{State: r.State, Intention: r.Intention, Attempts: r.Attempts, History: plain(r.History)}
		if r.Result != nil {
			one.Result = plain(*r.Result)
		}
		if r.Reverted != nil {
			one.Reverted = plain(*r.Reverted)
		}
		if r.Failure != nil {
			one.Failure = r.Failure.String()
		}
		if r.RevertFailure != nil {
			one.RevertFailure = r.RevertFailure.String()
		}
		all.Atoms[r.Name] = one
	}
	return all
}

// reported lists the events of atoms that were reported in all steps.
func (w *harness) reported() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, e := range w.all {
		if e.letter != "f" {
			all = append(all, e.String())
		}
	}
	return all
}

// crashing plays a scenario with a crash at a commit; 0: none.
func crashing(t *testing.T, f performance, at int, lost bool, states []lifecycle.State) *play {
	t.Helper()
	l := newLedger(newHarness())
	l.crashAt, l.lost = at, lost
	return crashingOn(t, f, l, states)
}

// lying plays a scenario with a crash after a commit that the storage accepts and loses.
func lying(t *testing.T, f performance, at int, states []lifecycle.State) *play {
	t.Helper()
	l := newLedger(newHarness())
	l.forgets, l.crashAt, l.lost = at, at+1, true
	return crashingOn(t, f, l, states)
}

func crashingOn(t *testing.T, f performance, l *ledger, states []lifecycle.State) *play {
	t.Helper()
	w := l.harness
	w.pace, l.asJSON = 0.02, true
	p := newPlay(t.Context(), f.scenario, w, memory{l}, f.pool())
	p.crash, p.loose = &crash{ledger: l, states: states, defect: f.loose}, true
	p.all()
	for len(p.crash.seen) < len(f.scenario.Steps) {
		p.crash.seen = append(p.crash.seen, p.engineState())
	}
	if last := len(p.crash.seen) - 1; states != nil && !p.crash.strays && last >= 0 && states[last] == flow.Suspended {
		p.crash.strays = p.crash.seen[last] != flow.Suspended
		p.crash.wentOn = p.crash.strays
	}
	return p
}

// TestCrashScenarios plays every scenario with a crash at every commit, stored or lost, and continues in another
// process. The end is the same, no task whose success was stored is executed again, and the events of both processes
// have the same order.
func TestCrashScenarios(t *testing.T) {
	for _, e := range scenarios(t).Scenarios {
		t.Run(e.id, func(t *testing.T) {
			s, err := e.read()
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Steps) == 0 {
				return
			}
			for _, f := range performances(t, s) {
				crashEverywhere(t, f)
			}
		})
	}
}

func crashEverywhere(t *testing.T, f performance) {
	t.Helper()
	whole := crashing(t, f, 0, false, nil)
	if len(whole.wrong) > 0 {
		t.Errorf("%s without a crash: %q", f.name, whole.wrong)
	}
	want, reported := whole.remains(), whole.harness.reported()
	if n := len(whole.crash.seen); n > 0 && whole.crash.seen[n-1] == flow.Suspended {
		whole.begin()
		whole.act(&checkWords{}, func() error { return whole.engine.Run(whole.ctx) }) // from there to the end
		f.unsuspended = whole.remains()
	}
	for at := 1; ; at++ {
		for _, lost := range []bool{false, true} {
			p := crashing(t, f, at, lost, whole.crash.seen)
			if tried, _, _, _ := p.crash.ledger.account(); tried < at {
				return // it was over before
			}
			name := fmt.Sprintf("%s, crash at commit %d (lost: %v)", f.name, at, lost)
			for _, text := range append(p.wrong, compareRemains(f, p, want, reported)...) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// timed reports whether it depends on the time how many attempts a scenario takes.
func (s *scenario) timed() bool {
	var looks func(i *itemWords) bool
	looks = func(i *itemWords) bool {
		return i.Do != nil && i.Do.FailUntilElapsed != nil ||
			slices.ContainsFunc(i.Of, func(one itemWords) bool { return looks(&one) })
	}
	return looks(s.Flow)
}

// exact reports whether a scenario has one order of events only.
func (s *scenario) exact() bool {
	exact := false
	for i := range s.Steps {
		c := s.Steps[i].Run
		if c == nil {
			continue
		}
		if c.Segments != nil || c.Compare != "" && c.Compare != "exact" {
			return false
		}
		exact = exact || c.Events != nil
	}
	return exact
}

// compareRemains describes the differences between a play with a crash and one without that are not allowed.
func compareRemains(f performance, p *play, want remains, reported []string) (wrong []string) {
	got := p.remains()
	if p.crash.wentOn {
		want = f.unsuspended
	}
	if (p.crash.strays || p.crash.late) && slices.ContainsFunc(f.scenario.Steps, func(s step) bool {
		return s.ClearInjected != nil || s.Reset != nil || s.Gate != nil || s.NewEngine != nil &&
			s.NewEngine.Flow != nil
	}) {
		return nil // the step for the suspended flow ran on a finished one
	}
	if f.parallel || f.scenario.timed() { // which of several tasks came how far is chance
		if got.State != want.State {
			wrong = append(wrong, fmt.Sprintf("the flow is %s, want %s", got.State, want.State))
		}
		return wrong
	}
	if diff := cmp.Diff(want, got); diff != "" {
		wrong = append(wrong, "left (-without +with):\n"+diff)
	}
	if all := p.harness.reported(); f.scenario.exact() && !within(all, reported) {
		wrong = append(wrong, "reported (-without +with):\n"+cmp.Diff(reported, all))
	}
	return wrong
}

// TestCrashesAreNoticed is the control: a storage that accepts a commit without storing it is found.
func TestCrashesAreNoticed(t *testing.T) {
	const text = `{"id": "x", "flow": {"linear": "f", "of": [{"task": "a"}, {"task": "b", "do": {"return": 5}}, {"task": "c", "do": {"fail": "Woot!"}}]},
		"steps": [{"run": {"raises": {}, "events": []}}]}`
	s, err := (entry{"x", []byte(text)}).read()
	if err != nil {
		t.Fatal(err)
	}
	f := performance{name: "serial", scenario: s}
	whole := crashing(t, f, 0, false, nil)
	want, reported := whole.remains(), whole.harness.reported()
	tried, _, _, _ := whole.crash.ledger.account()
	// the next process repeats what the first and the last commit store: nothing is lost with them
	for at := 2; at < tried; at++ {
		p := lying(t, f, at, whole.crash.seen)
		if len(p.wrong) == 0 && len(compareRemains(f, p, want, reported)) == 0 {
			t.Errorf("the loss of commit %d was not found", at)
		}
	}
}

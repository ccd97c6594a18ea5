package flow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// play is one performance of a scenario.
type play struct {
	scenario *scenario
	words    *itemWords // of the flow as it is now
	harness  *harness
	stage    stage
	pool     *flow.Pool
	loose    bool // the expectations of steps are not checked; invariants are

	crash *crash // nil: no crash

	base   context.Context
	ctx    context.Context // of the process
	cancel context.CancelFunc
	engine engine
	unmade error // why there is no engine

	over  bool // what follows cannot be played here
	wrong []string
}

// errAnew is the error of an engine that does not restart a flow where a Runner would.
var errAnew = errors.New("it has ended and does not begin anew by itself")

// newPlay starts a play: a process with an engine, and the values of the flow.
func newPlay(ctx context.Context, s *scenario, w *harness, on stage, pool *flow.Pool) *play {
	p := &play{scenario: s, words: s.Flow, harness: w, stage: on, pool: pool, base: ctx}
	p.begin()
	return p
}

// begin begins a process.
func (p *play) begin() { p.ctx, p.cancel = context.WithTimeout(p.base, 3*patience) }

// end ends the process.
func (p *play) end() { p.cancel() }

func (p *play) failf(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// all plays every step.
func (p *play) all() {
	defer func() { p.end() }()
	p.open()
	if len(p.scenario.Store) > 0 && p.unmade == nil {
		p.act(&checkWords{}, func() error { return p.engine.Inject(p.ctx, settled(p.scenario.Store).(map[string]any)) })
	}
	for i := range p.scenario.Steps {
		if p.crash != nil && p.crash.skips(p, i) {
			continue
		}
		if p.over {
			break
		}
		before := len(p.wrong)
		p.step(&p.scenario.Steps[i])
		for k := before; k < len(p.wrong); k++ {
			p.wrong[k] = fmt.Sprintf("step %d: %s", i+1, p.wrong[k])
		}
	}
	p.wrong = append(p.wrong, p.harness.violations...)
}

// open makes an engine on the storage of the stage.
func (p *play) open() {
	b, err := build(p.harness, p.words)
	if p.unmade = err; err != nil {
		return
	}
	life := p.harness.life()
	o := flow.Options{
		ID: p.scenario.ID, Workers: p.pool, Upgrade: flow.AcceptChanges,
		Listeners:    []flow.Listener{p.harness.listen(life)},
		DeferReverts: p.scenario.Options.DeferReverts, NeverResolve: p.scenario.Options.NeverResolve,
	}.Watching(func(state string) {
		var entered func(string)
		p.harness.note(life, func() {
			p.harness.machine = append(p.harness.machine, state)
			entered = p.harness.entered
		})
		if entered != nil {
			entered(state)
		}
	})
	p.engine, p.unmade = p.stage.engine(b.item, o)
}

func (p *play) step(s *step) {
	switch {
	case s.Preset != nil:
		p.preset(s.Preset)
	case s.Run != nil:
		p.act(s.Run, func() error { return p.engine.Run(p.ctx) })
	case s.NewEngine != nil:
		p.renew(s.NewEngine)
	case s.Reset != nil:
		p.act(s.Reset, func() error { return p.engine.Reset(p.ctx) })
	case s.Suspend != nil:
		p.act(s.Suspend, func() error { p.engine.Suspend(); return nil })
	case s.Gate != nil:
		p.harness.note(p.harness.life(), func() { maps.Copy(p.harness.gates, s.Gate) })
	case s.Inject != nil:
		p.act(&checkWords{}, func() error { return p.engine.Inject(p.ctx, settled(s.Inject).(map[string]any)) })
	case s.ClearInjected != nil:
		p.act(s.ClearInjected, func() error { return p.engine.ClearInjected(p.ctx) })
	case s.Expect != nil:
		p.check(s.Expect)
	}
}

// renew is another process with another engine over the same storage.
func (p *play) renew(words *newEngineWords) {
	if words.Flow != nil {
		p.words = words.Flow
	}
	if err := p.stage.change(func(s *flow.Snapshot) { s.Live = false }); err != nil {
		p.failf("new_engine: %v", err)
	}
	p.open()
}

// act does something, records its events, and checks the result.
func (p *play) act(c *checkWords, do func() error) {
	if p.unmade == nil && p.engine == nil {
		p.failf("there is no engine")
		return
	}
	nth := 0
	w := p.harness
	w.note(w.life(), func() {
		w.recording, w.events, w.machine, w.progress = true, nil, nil, map[string][]float64{}
		w.asked, w.entered = nil, nil
		if c.SuspendOn != nil {
			w.asked = func(e event) {
				if c.SuspendOn.hits(e) {
					p.engine.Suspend()
				}
			}
		}
		if c.SuspendAfter != nil {
			w.entered = func(state string) {
				if state != c.SuspendAfter.State {
					return
				}
				if nth++; nth == max(c.SuspendAfter.Nth, 1) {
					p.engine.Suspend()
				}
			}
		}
	})
	err := p.unmade
	if err == nil {
		err = p.crash.survive(p, c, do)
	}
	w.note(w.life(), func() { w.recording, w.asked, w.entered = false, nil, nil })
	if errors.Is(err, errAnew) {
		p.over = true
		return
	}
	if p.ctx.Err() != nil {
		p.failf("it takes too long")
	}
	if !p.loose {
		if text := c.Raises.check(err); text != "" {
			p.failf("%s", text)
		}
	}
	p.truthful()
	p.check(c)
}

func (s *suspendWords) hits(e event) bool {
	letter, name := "t", s.Task
	switch {
	case s.Retry != "":
		letter, name = "r", s.Retry
	case s.Flow != "":
		letter, name = "f", s.Flow
	case s.Atom != "":
		letter, name = e.letter, s.Atom
	}
	return e.letter == letter && e.name == name && e.state == s.State
}

// truthful checks the invariants of every flow: states are in the tables, SUCCESS means that everything succeeded or
// was ignored, and REVERTED means that everything that failed was reverted.
func (p *play) truthful() {
	if p.unmade != nil {
		return
	}
	state := p.engine.State()
	if _, known := flow.Life.Stage(state); !known {
		p.failf("the flow is %q", state)
	}
	for _, r := range p.engine.Atoms() {
		table := flow.TaskLife
		if r.Kind == flow.KindRetry {
			table = flow.RetryLife
		}
		if _, known := table.Stage(r.State); !known {
			p.failf("%s is %q", r.Name, r.State)
		}
		if state == flow.Success && r.State != flow.Success && r.State != flow.Ignore {
			p.failf("the flow is SUCCESS, and %s is %s", r.Name, r.State)
		}
		if state == flow.Reverted && (r.State == flow.FailureState || r.State == flow.RevertFailure ||
			r.State == flow.Running || r.State == flow.Reverting) {
			p.failf("the flow is REVERTED, and %s is %s", r.Name, r.State)
		}
	}
}

// preset changes the stored records: the engine then behaves as if it had prepared the flow.
func (p *play) preset(all []preset) {
	if p.unmade != nil {
		p.failf("preset: %v", p.unmade)
		return
	}
	if err := p.engine.Load(p.ctx); err != nil {
		p.failf("preset: %v", err)
		return
	}
	atoms := p.engine.Atoms()
	var wrong error
	err := p.stage.change(func(s *flow.Snapshot) {
		s.Live = true
		if len(s.Atoms) == 0 {
			s.Atoms = atoms
		}
		for i := range all {
			wrong = errors.Join(wrong, all[i].apply(s))
		}
	})
	if err := errors.Join(err, wrong); err != nil {
		p.failf("preset: %v", err)
	}
	p.open()
}

func (c *preset) apply(s *flow.Snapshot) error {
	at := func(name string) *flow.Record {
		for i := range s.Atoms {
			if s.Atoms[i].Name == name {
				return &s.Atoms[i]
			}
		}
		return nil
	}
	var name string
	var set func(r *flow.Record)
	said := 0
	say := func(atom string, f func(r *flow.Record)) { name, set, said = atom, f, said+1 }
	if c.State != nil {
		say(c.State.Atom, func(r *flow.Record) { r.State = lifecycle.State(c.State.To) })
	}
	if c.Intention != nil {
		say(c.Intention.Atom, func(r *flow.Record) { r.Intention = flow.Intention(c.Intention.To) })
	}
	if c.Progress != nil {
		say(c.Progress.Atom, func(r *flow.Record) { r.Progress = c.Progress.To })
	}
	if c.Save != nil {
		say(c.Save.Atom, c.Save.apply)
	}
	if c.SaveRetryFailure != nil {
		say(c.SaveRetryFailure.Retry, func(r *flow.Record) {
			last := &r.History[len(r.History)-1]
			last.Failures = append(last.Failures, flow.FailedAtom{Atom: c.SaveRetryFailure.Atom,
				Failure: foreseen(c.SaveRetryFailure.Failure)})
		})
	}
	if c.FlowState != "" {
		s.State = lifecycle.State(c.FlowState)
		said++
	}
	switch {
	case said != 1:
		return fmt.Errorf("a preset has %d actions, want one", said)
	case set == nil:
		return nil
	}
	r := at(name)
	if r == nil {
		return fmt.Errorf("there is no atom %q", name)
	}
	set(r)
	return nil
}

// foreseen is the failure of an exception with a message.
func foreseen(message string) *flow.Failure { return flow.FailureOf(&raised{"RuntimeError", message}) }

func (c *presetSave) apply(r *flow.Record) {
	r.State = flow.Success
	if c.State != "" {
		r.State = lifecycle.State(c.State)
	}
	var f *flow.Failure
	if c.Failure != nil {
		f = foreseen(*c.Failure)
	}
	v := flow.ValueOf(settled(c.Result))
	switch {
	case r.State == flow.RevertFailure:
		r.RevertFailure = f
	case f != nil:
		r.Failure = f
	case r.State == flow.Reverted:
		r.Reverted = &v
	case r.Kind == flow.KindRetry:
		r.History = append(r.History, flow.Attempt{Value: v})
	default:
		r.Result = &v
	}
}

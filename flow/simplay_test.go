package flow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// entry is one observation of a simulation.
type entry struct {
	what string // see the checker
	run  int    // runner, counted from 1; calls of an earlier runner are ignored

	atom     string
	undo     bool
	attempt  int
	args     Values
	err      error
	fault    bool // the hook after it failed
	waits    bool
	decision Decision

	commit *Commit
	event  Event
	rest   *Rest
	state  lifecycle.State
	text   string
}

// crash is the behavior of the storage at a commit, counted from the last crash: the commit is stored or not. In both
// cases the runner gets an error.
type crash struct {
	at     int
	stored bool
	same   bool // the same runner continues, as after a short failure of the storage; otherwise another one
}

var errCrash = errors.New("the storage is gone")

// simulation is one simulation of a flow.
type simulation struct {
	*spec
	chart   *chart
	tamper  tamper
	mu      sync.Mutex // guards the rest
	log     []entry
	run     int
	stage   atomic.Int32
	events  int
	commits int  // since the last crash
	ran     bool // the flow has been RUNNING in this stage
	all     int  // commits
	crashes []crash
	store   *Memory
	signals map[string]Value
	runner  *Runner
	hits    map[string]int // crashes that happened
}

// tamper plants a defect, for the controls.
type tamper struct {
	store  func(n int, c *Commit) *Commit // the stored commit
	report func(e Event) []Event          // the reported events
	gauge  func(*gauge)
	twice  func(atom string, undo bool) bool
	warp   func([]entry) []entry // the log that the checker gets
}

func (p *simulation) logEntry(e entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.run == 0 {
		e.run = p.run
	}
	p.log = append(p.log, e)
}

// Load is part of Storage.
func (p *simulation) Load(ctx context.Context) (*Snapshot, error) {
	snap, err := p.store.Load(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	snap.Signals = map[string][]KeptSignal{}
	for name, v := range p.signals {
		snap.Signals[name] = []KeptSignal{{ID: name, Value: v}}
	}
	return snap, err
}

// Save is part of Storage.
func (p *simulation) Save(ctx context.Context, c *Commit) error {
	p.mu.Lock()
	p.commits++
	p.all++
	n := p.all
	var now *crash
	if len(p.crashes) > 0 && p.crashes[0].at == p.commits {
		now = &p.crashes[0]
	}
	p.mu.Unlock()
	if now != nil && !now.stored {
		return errCrash
	}
	own := *c
	own.Atoms = slices.Clone(c.Atoms)
	kept := &own
	if p.tamper.store != nil {
		kept = p.tamper.store(n, kept)
	}
	if err := p.store.Save(ctx, kept); err != nil {
		return err
	}
	p.logEntry(entry{what: "commit", commit: kept})
	p.ran = p.ran || c.Move != nil && c.Move.To == Running
	if now != nil {
		return errCrash
	}
	return nil
}

// listener is the listener of all runners.
func (p *simulation) listener() Listener {
	return func(e Event) {
		if e.Within != "" {
			return
		}
		reported := []Event{e}
		if p.tamper.report != nil {
			reported = p.tamper.report(e)
		}
		for _, e := range reported {
			p.logEntry(entry{what: "reported", event: e})
		}
		p.events++
		switch {
		case slices.Contains(p.suspends, p.events):
			p.logEntry(entry{what: "suspend"})
			p.runner.Suspend()
		case slices.Contains(p.stops, p.events):
			p.runner.Stop()
		}
	}
}

// newRunner makes another runner on the same storage.
func (p *simulation) newRunner() (*Runner, error) {
	p.mu.Lock()
	p.run++
	p.mu.Unlock()
	o := Options{
		ID: "world", Storage: p, DeferReverts: p.deferring, NeverResolve: p.never, RevertErrors: p.revertsErrs,
		Inject:    Values{},
		Listeners: []Listener{p.listener()}, Grace: time.Hour, Rand: rand.New(rand.NewPCG(p.seed, 31)),
	}
	p.root.each(func(f *part) {
		if f.steer != nil {
			o.Inject["values_"+f.name] = listOf(f.steer.n)
		}
	})
	if p.workers > 0 {
		o.Workers = NewPool(p.workers)
	}
	var r *Runner
	o.machine = func(state string) {
		if state == resuming {
			p.logEntry(entry{what: "resuming"})
		}
		if text := p.memoryOf(r); text != "" {
			p.logEntry(entry{what: "gauge", text: text + " when " + state})
		}
	}
	r, err := New(p.newItem(p.root), o)
	if err == nil {
		p.logEntry(entry{what: "open"})
	}
	p.runner = r
	return r, err
}

func listOf(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// memoryOf compares the gauge with a new gauge, and the ready atoms with those that a walk finds.
func (p *simulation) memoryOf(r *Runner) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.tamper.gauge != nil {
		p.tamper.gauge(&r.gauge)
	}
	fresh := newGauge(r.plan, r.recs)
	if !slices.Equal(fresh.unclear, r.gauge.unclear) || !slices.Equal(fresh.unquiet, r.gauge.unquiet) ||
		!slices.Equal(fresh.clear, r.gauge.clear) ||
		!slices.Equal(fresh.quiet, r.gauge.quiet) {
		return "the counters are not those of the states"
	}
	var recs [64]*Record
	for i, name := range p.chart.names {
		recs[i] = &r.recs[r.plan.byName[name]]
	}
	for i, name := range p.chart.names {
		clear, quiet := r.gauge.unclear[r.plan.byName[name]] == 0, r.gauge.unquiet[r.plan.byName[name]] == 0
		if want := p.chart.clear(i, recs[:]); clear != want {
			return fmt.Sprintf("all before %s is done: %t, want %t", name, clear, want)
		}
		if want := p.chart.quiet(i, recs[:]); quiet != want {
			return fmt.Sprintf("all after %s is undone: %t, want %t", name, quiet, want)
		}
	}
	return ""
}

// clear reports whether everything before an atom is done and no intention changes that.
func (c *chart) clear(i int, recs []*Record) bool {
	for _, k := range c.before[i].list() {
		rec := recs[k]
		if rec.State != "SUCCESS" && rec.State != "IGNORE" || rec.Intention != "EXECUTE" && rec.Intention != "IGNORE" {
			return false
		}
	}
	return true
}

// quiet reports whether everything after an atom is undone.
func (c *chart) quiet(i int, recs []*Record) bool {
	for _, k := range c.after[i].list() {
		if s := recs[k].State; s != "PENDING" && s != "REVERTED" && s != "IGNORE" {
			return false
		}
	}
	return true
}

// runFlow runs the stages of the simulation. It returns an error if the flow does not end.
func (p *simulation) runFlow(ctx context.Context) error {
	if _, err := p.newRunner(); err != nil {
		return err
	}
	for k, what := range p.stages {
		p.stage.Store(int32(k))
		p.ran = false
		p.logEntry(entry{what: "stage", attempt: k})
		var err error
		if what == "reset" {
			err = p.again(ctx, 20, p.resetFlow)
		} else {
			err = p.again(ctx, 400, p.advance)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// again repeats a step of a stage until it succeeds, with another runner after a crash.
func (p *simulation) again(ctx context.Context, most int, step func(context.Context) (through bool, err error)) error {
	for range most {
		through, err := step(ctx)
		if through {
			return nil
		}
		if !errors.Is(err, errCrash) {
			continue
		}
		dead := p.crashes[0]
		synctest.Wait() // active tasks in the pool continue; their outcomes are ignored
		if p.hits["crashes"]++; dead.stored {
			p.hits["stored"]++
		}
		p.crashes, p.commits = p.crashes[1:], 0
		p.logEntry(entry{what: "crash"})
		if dead.same {
			p.hits["same"]++
			p.mu.Lock()
			p.run++
			p.mu.Unlock()
			p.logEntry(entry{what: "open"})
		}
		if !dead.same {
			if _, err := p.newRunner(); err != nil {
				return err
			}
		}
		if snap, _ := p.store.Load(ctx); p.ran && slices.Contains([]lifecycle.State{Success, FailureState, Reverted},
			snap.State) {
			return nil // the commit is stored, only the reply was lost
		}
	}
	return errors.New("stuck: it comes to no end")
}

func (p *simulation) resetFlow(ctx context.Context) (bool, error) {
	p.logEntry(entry{what: "reset"})
	err := p.runner.Reset(context.WithValue(ctx, runKey{}, p.run))
	var wrong *StateError
	if errors.As(err, &wrong) { // a runner crashed and left it RUNNING: the next one continues
		err = nil
	}
	p.logEntry(entry{what: "was reset", err: err})
	return err == nil, err
}

func (p *simulation) advance(ctx context.Context) (bool, error) {
	p.logEntry(entry{what: "run"})
	rest, err := p.runner.Advance(context.WithValue(ctx, runKey{}, p.run))
	p.logEntry(entry{what: "return", rest: rest, err: err, state: p.runner.State()})
	if errors.Is(err, errCrash) {
		return false, err
	}
	if rest == nil {
		return !errors.Is(err, ErrStopped) && p.runner.State() != Suspended, nil
	}
	for _, name := range rest.Signals {
		p.runner.Signal(name, "came")
		if p.signals == nil {
			p.signals = map[string]Value{}
		}
		p.signals[name] = ValueOf("came")
	}
	if len(rest.Signals) == 0 && !rest.Until.IsZero() {
		time.Sleep(time.Until(rest.Until))
	}
	if p.forgets {
		p.logEntry(entry{what: "crash"})
		if _, err := p.newRunner(); err != nil {
			return true, err
		}
	}
	return false, nil
}

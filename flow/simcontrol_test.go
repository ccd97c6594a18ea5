package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/lifecycle"
)

// control is a planted defect and the property that it violates.
type control struct {
	name, property string
	tamper         tamper
	crashes        []crash
	misread        func(*part) // what the checker's chart gets wrong
}

// firstAtom changes the first record of a log for which change returns true.
func firstAtom(change func(*Record) bool) tamper {
	return tamper{warp: func(log []entry) []entry {
		for k := range log {
			if c := log[k].commit; c != nil {
				for i := range c.Atoms {
					if change(&c.Atoms[i]) {
						return log
					}
				}
			}
		}
		return log
	}}
}

// firstEntry changes the first entry of a log for which change returns true.
func firstEntry(change func(*entry) bool) tamper {
	return tamper{warp: func(log []entry) []entry {
		for k := range log {
			if change(&log[k]) {
				break
			}
		}
		return log
	}}
}

// dropping is storage that loses the records that drop selects.
func dropping(drop func(*Record) bool) tamper {
	return tamper{store: func(_ int, c *Commit) *Commit {
		own := *c
		own.Atoms = slices.DeleteFunc(slices.Clone(c.Atoms), func(r Record) bool { return drop(&r) })
		return &own
	}}
}

// unmoved is storage that does not store the moves of tasks to a state. These moves are not reported either, so that
// only the storage violates a property.
func unmoved(to lifecycle.State, instead func(Record) lifecycle.State) tamper {
	report := func(e Event) []Event {
		if e.New == to && e.Atom != "" {
			return nil
		}
		return []Event{e}
	}
	return tamper{report: report, store: func(_ int, c *Commit) *Commit {
		own := *c
		own.Atoms = slices.Clone(c.Atoms)
		for i := range own.Atoms {
			if r := &own.Atoms[i]; r.State == to && r.Kind == KindTask {
				r.State = instead(*r)
			}
		}
		return &own
	}}
}

func controls() []control {
	once := func(undo bool) func(string, bool) bool { return func(_ string, u bool) bool { return u == undo } }
	return []control{
		{name: "RUNNING is not stored", property: "running",
			tamper: unmoved(Running, func(Record) lifecycle.State { return Pending })},
		{name: "REVERTING is not stored", property: "running",
			tamper: unmoved(Reverting, func(r Record) lifecycle.State {
				if r.Failure != nil {
					return FailureState
				}
				return Success
			})},
		{name: "a write of SUCCESS is lost", property: "reported",
			tamper: dropping(func(r *Record) bool { return r.State == Success && r.Kind == KindTask })},
		{name: "a commit is stored by half", property: "intention",
			tamper: tamper{store: func(_ int, c *Commit) *Commit {
				own := *c
				if len(own.Atoms) > 2 && !own.Created {
					own.Atoms = own.Atoms[:len(own.Atoms)/2]
				}
				return &own
			}}},
		{name: "nothing is reported", property: "reported",
			tamper: tamper{report: func(e Event) []Event { return nil }}},
		{name: "all is reported twice", property: "reported", tamper: tamper{report: func(e Event) []Event {
			return []Event{e, e}
		}}},
		{name: "reported before it is stored", property: "reported", tamper: tamper{warp: func(log []entry) []entry {
			for k := 1; k < len(log); k++ {
				if log[k].what == "reported" && log[k-1].what == "commit" {
					log[k], log[k-1] = log[k-1], log[k]
				}
			}
			return log
		}}},
		{name: "executed twice", property: "again", tamper: tamper{twice: once(false)}},
		{name: "reverted twice", property: "again", tamper: tamper{twice: once(true)}},
		{name: "executed when the run is over", property: "late", crashes: []crash{{at: 4, stored: true}},
			tamper: firstEntry(func(e *entry) bool {
				if e.what == "begin" && e.run > 1 {
					e.run--
					return true
				}
				return false
			})},
		{name: "the gauge is off", property: "gauge", tamper: tamper{gauge: func(g *gauge) {
			g.unclear[len(g.unclear)-1]++
		}}},
		{name: "the order of an unordered flow is wrong", property: "order", misread: func(p *part) {
			if p.kind == "unordered" {
				p.kind = "linear"
			}
		}},
		{name: "reverted before what follows", property: "undo order", tamper: firstAtom(func(r *Record) bool {
			was := r.Intention == ToRevert && r.State == Success
			if was {
				r.State = Reverting
			}
			return was
		})},
		{name: "deciders decide the opposite", property: "decider", misread: func(p *part) {
			for k := range p.joins {
				if j := &p.joins[k]; j.says == "no" {
					j.says = "yes"
				} else if j.says == "yes" {
					j.says = "no"
				}
			}
		}},
		{name: "something is not meant to be reverted", property: "intention", tamper: firstAtom(func(r *Record) bool {
			was := r.Intention == ToRevert && r.State == Success
			if was {
				r.Intention = Execute
			}
			return was
		})},
		{name: "a history forgets", property: "intention", tamper: firstAtom(func(r *Record) bool {
			was := len(r.History) > 0
			r.History = nil
			return was
		})},
		{name: "PENDING becomes REVERTED", property: "table", tamper: firstAtom(func(r *Record) bool {
			was := r.State == Running
			if was {
				r.State = Reverted
			}
			return was
		})},
		{name: "a task that failed is SUCCESS", property: "result", tamper: firstEntry(func(e *entry) bool {
			was := e.what == "end" && e.err == nil && !e.undo
			if was {
				e.err = errors.New("it failed")
			}
			return was
		})},
		{name: "a wrong argument", property: "arguments", tamper: firstEntry(func(e *entry) bool {
			for name := range e.args {
				if strings.HasPrefix(name, "v_") {
					e.args[name] = "wrong"
					return true
				}
			}
			return false
		})},
		{name: "an error without names", property: "blame", tamper: firstEntry(func(e *entry) bool {
			was := e.what == "return" && e.err != nil
			if was {
				e.err = errors.New("something is wrong")
			}
			return was
		})},
		{name: "REVERTED where it is SUCCESS", property: "end", tamper: ending(Success, Reverted)},
		{name: "REVERTED where it is FAILURE", property: "end", tamper: ending(FailureState, Reverted)},
		{name: "FAILURE where it is REVERTED", property: "end", tamper: ending(Reverted, FailureState)},
	}
}

// ending makes flows that end in one state report another one.
func ending(is, says lifecycle.State) tamper {
	return tamper{warp: func(log []entry) []entry {
		for k := range log {
			e := &log[k]
			if e.commit != nil && e.commit.Move != nil && e.commit.Move.To == is {
				e.commit.Move.To = says
			}
			if e.what == "reported" && e.event.Atom == "" && e.event.New == is {
				e.event.New = says
			}
			if e.what == "return" && e.state == is {
				e.state = says
			}
		}
		return log
	}}
}

// TestCheckerSees is the control of TestSimulations: for every property there is a planted defect that the checker
// finds, in simulations without a violation otherwise.
func TestCheckerSees(t *testing.T) {
	for _, c := range controls() {
		t.Run(c.name, func(t *testing.T) {
			found := map[string]int{}
			for k := uint64(1); found[c.property] == 0 && k < 600; k++ {
				s := newSpec(k)
				if s.size() > 14 {
					continue
				}
				by := &spec{root: s.root.clone()}
				if c.misread != nil {
					by.root.each(c.misread)
				}
				if _, _, bad := simulate(t, s, chartOf(by), slices.Clone(c.crashes), c.tamper); bad != nil {
					found[bad.property]++
					if _, _, bad := simulate(t, s, chartOf(s), slices.Clone(c.crashes), tamper{}); bad != nil {
						t.Fatalf("wrong without the defect: %s: %s\n%s", bad.property, bad.text, s)
					}
				}
			}
			if found[c.property] == 0 {
				t.Errorf("%s is never seen to be broken: %v", c.property, found)
			}
		})
	}
}

// TestComparisonsSee is the control for the comparison of two simulations, for simulations that never end, and for
// leaked goroutines.
func TestComparisonsSee(t *testing.T) {
	s := newSpec(3)
	p, _, bad := simulate(t, s, chartOf(s), nil, tamper{})
	if bad != nil {
		t.Fatal(bad)
	}
	q, _, _ := simulate(t, s, chartOf(s), nil, tamper{report: func(Event) []Event { return nil }})
	if firstDifference(p.log, q.log) == nil || firstDifference(p.log, p.log[:len(p.log)-1]) == nil ||
		firstDifference(p.log, p.log) != nil {
		t.Error("two different logs are taken for equal")
	}
	q.store.Change(func(snap *Snapshot) { snap.Atoms[0].State = RevertFailure })
	if compareStorage(s, p.store, q.store) == nil || compareStorage(s, p.store, p.store) != nil {
		t.Error("two different ends are taken for equal")
	}
	endless := &spec{seed: 1, stages: []string{"run"},
		root: &part{kind: "linear", name: "f1",
			steer: &retrySpec{name: "f1_retry", kind: "times", n: 5000, pause: true},
			items: []*part{{kind: "task", name: "t1", conduct: behavior{fails: 5000}}}}}
	if _, _, bad := simulate(t, endless, chartOf(endless), nil, tamper{}); bad == nil ||
		!strings.Contains(bad.text, "stuck") {
		t.Errorf("a flow that never ends gives %v", bad)
	}
	got := func() (text string) {
		defer func() { text = fmt.Sprint(recover()) }()
		synctest.Test(t, func(*testing.T) { go func() { <-make(chan int) }() })
		return ""
	}()
	if !strings.Contains(got, "deadlock") {
		t.Errorf("a leaked goroutine gives %q", got)
	}
}

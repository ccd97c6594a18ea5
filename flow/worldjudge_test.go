package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// verdict is the first thing that was wrong: which property does not hold, and how that was seen.
type verdict struct {
	property, text string
	at             int    // entry of the log
	tale           string // the entries before it
}

// step is a change of an atom that was stored and is to be reported.
type step struct {
	from, to lifecycle.State
	commit   int
}

// checker reads the log of a play and holds it against taskflow.md. It has no state machine of its own but the stored
// records and what was reported; what may follow is found by walking the chart.
type judge struct {
	*spec
	c       *chart
	stage   int
	run     int
	running bool
	wished  bool
	reset   bool  // a reset is under way
	again   atoms // failed reverts that are tried once more, because the flow was run from FAILURE

	state  lifecycle.State
	recs   []*Record // as stored; never nil
	saved  int       // commits
	told   int       // commit of the change of an atom that was reported last
	untold [][]step
	moves  []Transition // of the flow, not reported

	begun   []bool // since it was moved to RUNNING or REVERTING
	busy    []bool
	spent   []bool
	out     []*entry // how it ended in this run
	closed  map[string]bool
	answers map[int]entry
	resumed atoms // FAILURE when the run began, and not seen resolved again
	faults  []string
	extra   bool // faults that a reverting flow forgets
	unsure  bool // deciders or controllers failed since the last commit

	bad  *verdict
	seen map[string]int // what this harness had, for the figures
}

func newJudge(s *spec, c *chart) *judge {
	n := len(c.names)
	j := &judge{spec: s, c: c, state: "PENDING", recs: make([]*Record, n), untold: make([][]step, n),
		begun: make([]bool, n), busy: make([]bool, n), spent: make([]bool, n),
		out: make([]*entry, n), closed: map[string]bool{}, answers: map[int]entry{}, seen: map[string]int{}}
	for i := range j.recs {
		j.recs[i] = &Record{State: "PENDING", Intention: "EXECUTE"}
	}
	return j
}

func (j *judge) wrong(property, format string, args ...any) {
	if j.bad == nil {
		j.bad = &verdict{property: property, text: fmt.Sprintf(format, args...)}
	}
}

// try reads the whole log.
func (j *judge) try(log []entry) *verdict {
	for k := range log {
		if j.read(&log[k]); j.bad != nil {
			j.bad.text, j.bad.at = fmt.Sprintf("entry %d: %s", k, j.bad.text), k
			return j.bad
		}
	}
	return nil
}

func (j *judge) read(e *entry) {
	switch e.what {
	case "stage":
		j.stage = e.attempt
	case "open", "crash":
		j.forget(e)
	case "run":
		j.begins()
	case "resuming":
		for i, rec := range j.recs {
			if rec.State == "FAILURE" && !j.never && (rec.Intention == "EXECUTE" || j.heard(i)) {
				j.resumed |= 1 << i
			}
		}
	case "reset":
		j.reset = true
	case "was reset":
		if j.reset = false; e.err == nil {
			j.allTold()
		}
	case "wish":
		j.wished = j.running
		j.seen["suspensions"]++
	case "gauge":
		j.wrong("gauge", "%s", e.text)
	case "commit":
		j.commit(e.commit)
	case "told":
		j.hear(e.event)
	case "begin":
		j.begin(e)
	case "end":
		if e.run == j.run {
			i := j.c.at[e.atom]
			j.busy[i], j.spent[i], j.out[i] = false, true, e
		}
	case "ask":
		j.answers[j.c.at[e.atom]] = *e
		if e.err != nil {
			j.fault(e.atom)
		}
	case "decider":
		j.fault(e.err.Error())
	case "return":
		j.returns(e)
	}
}

// mild reports whether errors of the flow itself revert it.
func (j *judge) mild() bool { return j.revertsErrs && !j.never }

// fault notes an error of a decider or controller.
func (j *judge) fault(atom string) {
	j.seen["engine faults"]++
	if j.mild() {
		j.unsure, j.extra = true, true
	} else {
		j.faults = append(j.faults, atom)
	}
}

// forget is what a crash does: what was not reported never will be.
func (j *judge) forget(e *entry) {
	j.wished, j.run, j.running, j.moves, j.again, j.told = false, e.run, false, nil, 0, j.saved
	j.faults = nil // what is not stored is forgotten; the records still report
	clear(j.untold)
	clear(j.answers)
}

func (j *judge) begins() {
	j.running = true
	for i, rec := range j.recs {
		if j.state == "FAILURE" && rec.State == "REVERT_FAILURE" {
			j.again |= 1 << i
		}
	}
	if j.state != "RUNNING" {
		j.faults, j.extra = nil, false
	}
	j.unsure, j.resumed = false, 0
	clear(j.busy)
	clear(j.spent)
	clear(j.out)
}

// hear checks that what is reported is what was stored, in that order, step by step.
func (j *judge) hear(e Event) {
	if e.Atom == "" {
		if len(j.moves) == 0 || j.moves[0].From != e.Old || j.moves[0].To != e.New {
			j.wrong("told", "the flow is told to go from %s to %s; stored and not told is %v", e.Old, e.New, j.moves)
			return
		}
		j.moves = j.moves[1:]
		return
	}
	i := j.c.at[e.Atom]
	if len(j.untold[i]) == 0 || j.untold[i][0].from != e.Old || j.untold[i][0].to != e.New {
		j.wrong("told", "%s is told to go from %s to %s; stored and not told is %v", e.Atom, e.Old, e.New, j.untold[i])
		return
	}
	if j.untold[i][0].commit < j.told {
		j.wrong("told", "%s is told to be %s after changes that were stored later", e.Atom, e.New)
	}
	j.told = j.untold[i][0].commit
	j.untold[i] = j.untold[i][1:]
}

// begin checks that an execution or revert may begin.
func (j *judge) begin(e *entry) {
	i := j.c.at[e.atom]
	rec := j.recs[i]
	what, want := "execution", lifecycle.State("RUNNING")
	if e.undo {
		what, want = "revert", "REVERTING"
	}
	switch {
	case e.run != j.run:
		j.wrong("late", "the %s of %s begins when the run is over", what, e.atom)
	case rec.State != want:
		j.wrong("running", "the %s of %s begins while it is stored as %s", what, e.atom, rec.State)
	case len(j.untold[i]) > 0:
		j.wrong("told", "the %s of %s begins before it is told", what, e.atom)
	case j.busy[i] || j.spent[i] || !e.undo && j.closed[key(e.atom, e.attempt)]:
		j.wrong("again", "the %s of %s begins again (attempt %d)", what, e.atom, e.attempt)
	case !e.undo && e.attempt != rec.Attempts:
		j.wrong("again", "%s is called with attempt %d; stored is %d", e.atom, e.attempt, rec.Attempts)
	case !e.undo:
		for _, k := range j.c.before[i].list() {
			if s := j.recs[k].State; s != "SUCCESS" && s != "IGNORE" {
				j.wrong("order", "%s begins while %s before it is %s", e.atom, j.c.names[k], s)
			}
		}
	default:
		for _, k := range j.c.after[i].list() {
			if s := j.recs[k].State; s != "PENDING" && s != "REVERTED" && s != "IGNORE" {
				j.wrong("undo order", "the revert of %s begins while %s after it is %s", e.atom, j.c.names[k], s)
			}
		}
	}
	j.begun[i], j.busy[i] = true, true
	j.arguments(e)
}

func key(atom string, attempt int) string { return fmt.Sprint(atom, "/", attempt) }

// arguments checks that an atom gets what those before it gave.
func (j *judge) arguments(e *entry) {
	for name, got := range e.args {
		k, given := j.c.giver[name]
		if !given {
			continue
		}
		want, there := j.whole(k, name)
		if strings.HasPrefix(name, "round_") && !there {
			continue // optional
		}
		if !there || !ValueOf(got).Equal(want) {
			j.wrong("arguments", "%s gets %v as %s; stored is %v (%t)", e.atom, got, name, want.Any(), there)
		}
	}
}

// whole gives what an atom gave.
func (j *judge) whole(k int, name string) (Value, bool) {
	rec := j.recs[k]
	if rec.State != "SUCCESS" {
		return Value{}, false
	}
	if j.c.retry[k] != nil {
		if len(rec.History) == 0 {
			return Value{}, false
		}
		return rec.History[len(rec.History)-1].Value, true
	}
	if rec.Result == nil || j.c.task[k].short && name != "" {
		return Value{}, false
	}
	return *rec.Result, true
}

// lacks reports whether something is not there that an atom needs.
func (j *judge) lacks(i int) bool {
	return j.c.task[i] != nil && slices.ContainsFunc(j.c.task[i].needs, func(name string) bool {
		_, there := j.whole(j.c.giver[name], name)
		return !there
	})
}

func (j *judge) allTold() {
	if len(j.moves) > 0 {
		j.wrong("told", "nobody is told of the flow's %v", j.moves)
	}
	for i, steps := range j.untold {
		if len(steps) > 0 {
			j.wrong("told", "nobody is told of %v of %s", steps, j.c.names[i])
		}
	}
}

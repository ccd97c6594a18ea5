package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// violationFound is the first violation: the property and a description.
type violationFound struct {
	property, text string
	at             int    // entry of the log
	before         string // the entries before it
}

// step is a change of an atom that was stored and is to be reported.
type step struct {
	from, to lifecycle.State
	commit   int
}

// checker checks the log of a simulation against the properties of flows. It has no state machine of its own: it
// compares stored records and reported events, and walks the chart to find what may follow.
type checker struct {
	*spec
	c            *chart
	stage        int
	run          int
	running      bool
	suspendAsked bool
	reset        bool  // a reset is under way
	again        atoms // failed reverts that are repeated because the flow was run from FAILURE

	state      lifecycle.State
	recs       []*Record // as stored; never nil
	saved      int       // commits
	reported   int       // commit of the change of an atom that was reported last
	unreported [][]step
	moves      []Transition // of the flow, not reported

	begun   []bool // since it was moved to RUNNING or REVERTING
	busy    []bool
	spent   []bool
	out     []*entry // how it ended in this run
	closed  map[string]bool
	answers map[int]entry
	resumed atoms // FAILURE when the run began, and not resolved again yet
	faults  []string
	extra   bool // faults for which the flow is reverted
	unsure  bool // deciders or controllers failed since the last commit

	bad  *violationFound
	seen map[string]int // what this flow had, for the figures
}

func newChecker(s *spec, c *chart) *checker {
	n := len(c.names)
	j := &checker{spec: s, c: c, state: "PENDING", recs: make([]*Record, n), unreported: make([][]step, n),
		begun: make([]bool, n), busy: make([]bool, n), spent: make([]bool, n),
		out: make([]*entry, n), closed: map[string]bool{}, answers: map[int]entry{}, seen: map[string]int{}}
	for i := range j.recs {
		j.recs[i] = &Record{State: "PENDING", Intention: "EXECUTE"}
	}
	return j
}

func (j *checker) violation(property, format string, args ...any) {
	if j.bad == nil {
		j.bad = &violationFound{property: property, text: fmt.Sprintf(format, args...)}
	}
}

// check reads the whole log.
func (j *checker) check(log []entry) *violationFound {
	for k := range log {
		if j.checkEntry(&log[k]); j.bad != nil {
			j.bad.text, j.bad.at = fmt.Sprintf("entry %d: %s", k, j.bad.text), k
			return j.bad
		}
	}
	return nil
}

func (j *checker) checkEntry(e *entry) {
	switch e.what {
	case "stage":
		j.stage = e.attempt
	case "open", "crash":
		j.clearFault(e)
	case "run":
		j.beginRun()
	case "resuming":
		for i, rec := range j.recs {
			if rec.State == "FAILURE" && !j.never && (rec.Intention == "EXECUTE" || j.isReported(i)) {
				j.resumed |= 1 << i
			}
		}
	case "reset":
		j.reset = true
	case "was reset":
		if j.reset = false; e.err == nil {
			j.checkAllReported()
		}
	case "suspend":
		j.suspendAsked = j.running
		j.seen["suspensions"]++
	case "gauge":
		j.violation("gauge", "%s", e.text)
	case "commit":
		j.checkCommit(e.commit)
	case "reported":
		j.checkEvent(e.event)
	case "begin":
		j.checkBegin(e)
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
		j.checkReturn(e)
	}
}

// mild reports whether errors of the flow itself revert it.
func (j *checker) mild() bool { return j.revertsErrs && !j.never }

// fault notes an error of a decider or controller.
func (j *checker) fault(atom string) {
	j.seen["engine faults"]++
	if j.mild() {
		j.unsure, j.extra = true, true
	} else {
		j.faults = append(j.faults, atom)
	}
}

// clearFault clears what a crash loses: events that were not reported are never reported.
func (j *checker) clearFault(e *entry) {
	j.suspendAsked, j.run, j.running, j.moves, j.again, j.reported = false, e.run, false, nil, 0, j.saved
	j.faults = nil // faults are not stored
	clear(j.unreported)
	clear(j.answers)
}

func (j *checker) beginRun() {
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

// checkEvent checks that the reported changes are the stored changes, in order.
func (j *checker) checkEvent(e Event) {
	if e.Atom == "" {
		if len(j.moves) == 0 || j.moves[0].From != e.Old || j.moves[0].To != e.New {
			j.violation("reported", "the flow is reported to go from %s to %s; stored and not reported is %v", e.Old,
				e.New, j.moves)
			return
		}
		j.moves = j.moves[1:]
		return
	}
	i := j.c.at[e.Atom]
	if len(j.unreported[i]) == 0 || j.unreported[i][0].from != e.Old || j.unreported[i][0].to != e.New {
		j.violation("reported", "%s is reported to go from %s to %s; stored and not reported is %v", e.Atom, e.Old,
			e.New, j.unreported[i])
		return
	}
	if j.unreported[i][0].commit < j.reported {
		j.violation("reported", "%s is reported to be %s after changes that were stored later", e.Atom, e.New)
	}
	j.reported = j.unreported[i][0].commit
	j.unreported[i] = j.unreported[i][1:]
}

// checkBegin checks that an execution or revert may begin.
func (j *checker) checkBegin(e *entry) {
	i := j.c.at[e.atom]
	rec := j.recs[i]
	what, want := "execution", lifecycle.State("RUNNING")
	if e.undo {
		what, want = "revert", "REVERTING"
	}
	switch {
	case e.run != j.run:
		j.violation("late", "the %s of %s begins when the run is over", what, e.atom)
	case rec.State != want:
		j.violation("running", "the %s of %s begins while it is stored as %s", what, e.atom, rec.State)
	case len(j.unreported[i]) > 0:
		j.violation("reported", "the %s of %s begins before it is reported", what, e.atom)
	case j.busy[i] || j.spent[i] || !e.undo && j.closed[key(e.atom, e.attempt)]:
		j.violation("again", "the %s of %s begins again (attempt %d)", what, e.atom, e.attempt)
	case !e.undo && e.attempt != rec.Attempts:
		j.violation("again", "%s is called with attempt %d; stored is %d", e.atom, e.attempt, rec.Attempts)
	case !e.undo:
		for _, k := range j.c.before[i].list() {
			if s := j.recs[k].State; s != "SUCCESS" && s != "IGNORE" {
				j.violation("order", "%s begins while %s before it is %s", e.atom, j.c.names[k], s)
			}
		}
	default:
		for _, k := range j.c.after[i].list() {
			if s := j.recs[k].State; s != "PENDING" && s != "REVERTED" && s != "IGNORE" {
				j.violation("undo order", "the revert of %s begins while %s after it is %s", e.atom, j.c.names[k], s)
			}
		}
	}
	j.begun[i], j.busy[i] = true, true
	j.checkArguments(e)
}

func key(atom string, attempt int) string { return fmt.Sprint(atom, "/", attempt) }

// checkArguments checks that the arguments of an atom are the stored results of the atoms before it.
func (j *checker) checkArguments(e *entry) {
	for name, got := range e.args {
		k, given := j.c.giver[name]
		if !given {
			continue
		}
		want, there := j.resultOf(k, name)
		if strings.HasPrefix(name, "round_") && !there {
			continue // optional
		}
		if !there || !ValueOf(got).Equal(want) {
			j.violation("arguments", "%s gets %v as %s; stored is %v (%t)", e.atom, got, name, want.Any(), there)
		}
	}
}

// resultOf returns a stored result of an atom.
func (j *checker) resultOf(k int, name string) (Value, bool) {
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

// lacksArguments reports whether an argument of an atom has no value.
func (j *checker) lacksArguments(i int) bool {
	return j.c.task[i] != nil && slices.ContainsFunc(j.c.task[i].needs, func(name string) bool {
		_, there := j.resultOf(j.c.giver[name], name)
		return !there
	})
}

func (j *checker) checkAllReported() {
	if len(j.moves) > 0 {
		j.violation("reported", "the flow's %v is not reported", j.moves)
	}
	for i, steps := range j.unreported {
		if len(steps) > 0 {
			j.violation("reported", "%v of %s is not reported", steps, j.c.names[i])
		}
	}
}

package flow

import (
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// flowMoves, taskMoves and retryMoves are TaskFlow's tables with the two additional resets.
var (
	flowMoves = pairsOf(`PENDING>RUNNING RUNNING>SUCCESS RUNNING>FAILURE RUNNING>REVERTED RUNNING>SUSPENDING RUNNING>RESUMING SUCCESS>PENDING SUCCESS>RUNNING
		FAILURE>RUNNING REVERTED>PENDING SUSPENDING>SUCCESS SUSPENDING>FAILURE SUSPENDING>REVERTED SUSPENDING>SUSPENDED SUSPENDING>RESUMING SUSPENDED>RUNNING
		RESUMING>SUSPENDED FAILURE>PENDING SUSPENDED>PENDING`)
	taskMoves = pairsOf(`PENDING>RUNNING PENDING>IGNORE RUNNING>SUCCESS RUNNING>FAILURE SUCCESS>REVERTING FAILURE>REVERTING REVERTING>REVERTED
		REVERTING>REVERT_FAILURE REVERTED>PENDING IGNORE>PENDING`)
	retryMoves = pairsOf(`SUCCESS>RETRYING RETRYING>RUNNING`)
)

func pairsOf(text string) map[string]bool {
	all := map[string]bool{}
	for _, pair := range strings.Fields(text) {
		all[pair] = true
	}
	return all
}

// change is the effect of a commit.
type change struct {
	next      []*Record
	reset     bool
	retried   atoms // controllers that begin another attempt
	restarted atoms // what follows them
	ignored   atoms
	succeeded atoms
	failures  []int // to be resolved
	perhaps   []int // failed with attempts left: resolved if another failure came first
	faulty    bool  // an error of the flow itself, which reverts the flow
}

// checkCommit checks a commit against what was stored before.
func (j *checker) checkCommit(c *Commit) {
	j.saved++
	ch := &change{next: slices.Clone(j.recs), reset: j.reset || c.Move != nil && c.Move.Event == Reset,
		faulty: j.unsure}
	for k := range c.Atoms {
		rec := &c.Atoms[k]
		i := j.c.at[rec.Name]
		if ch.next[i] = rec; j.c.retry[i] != nil && j.recs[i].State == "SUCCESS" &&
			(rec.State == "RUNNING" || rec.State == "RETRYING") {
			ch.retried |= 1 << i
			ch.restarted |= j.c.after[i]
			j.seen["retries"]++
		}
	}
	if c.Move != nil {
		if c.Move.From != j.state || !flowMoves[string(c.Move.From)+">"+string(c.Move.To)] {
			j.violation("table", "the flow is stored as %s, and moves from %s to %s", j.state, c.Move.From, c.Move.To)
		}
		j.moves = append(j.moves, *c.Move)
	}
	for i := range ch.next {
		if ch.next[i] != j.recs[i] {
			j.changed(i, ch)
		}
	}
	j.checkDecided(ch)
	j.intended(c, ch)
	j.recs, j.unsure = ch.next, false
	if ch.reset {
		j.again = 0
	}
	if c.Move != nil {
		j.state = c.Move.To
	}
	clear(j.answers)
}

// changed checks the change of one atom and records the events that must be reported.
func (j *checker) changed(i int, ch *change) {
	old, rec := j.recs[i], ch.next[i]
	if rec.Waits {
		j.spent[i], j.out[i] = false, nil
		if rec.Tries > old.Tries {
			j.closed[key(rec.Name, old.Attempts)] = true
			j.seen["tries"]++
		}
	}
	if old.State == rec.State {
		return
	}
	if j.isUndone(i, old, rec, ch) {
		return
	}
	from := old.State
	for _, to := range j.statesBetween(i, old, rec, ch) {
		legal := taskMoves[string(from)+">"+string(to)] || j.c.retry[i] != nil &&
			retryMoves[string(from)+">"+string(to)]
		switch {
		case to == "PENDING":
			legal = ch.reset || ch.restarted.has(i) || from == "RUNNING" && !j.begun[i]
		case from == "REVERT_FAILURE":
			legal = j.again.has(i) && to == "REVERTING"
			j.again &^= 1 << i
		}
		if !legal {
			j.violation("table", "%s is stored as %s after %s (by %s)", rec.Name, rec.State, old.State, to)
		}
		j.unreported[i] = append(j.unreported[i], step{from, to, j.saved})
		j.enters(i, from, to, ch)
		from = to
	}
}

// isUndone reports whether a commit only undoes a move that was not reported, and drops that move.
func (j *checker) isUndone(i int, old, rec *Record, ch *change) bool {
	steps := j.unreported[i]
	if len(steps) == 0 || ch.reset || steps[len(steps)-1].to != old.State || steps[len(steps)-1].from != rec.State ||
		old.State != "RUNNING" && old.State != "REVERTING" {
		return false
	}
	if j.begun[i] {
		j.violation("table", "the move of %s from %s to %s is undone, and the work had begun", rec.Name, rec.State,
			old.State)
	}
	j.unreported[i] = steps[:len(steps)-1]
	return true
}

// statesBetween returns the states that an atom passed from one stored state to the next.
func (j *checker) statesBetween(i int, old, rec *Record, ch *change) []lifecycle.State {
	switch {
	case old.State == "RUNNING" && rec.State == "REVERTING" && rec.Failure != nil:
		return []lifecycle.State{"FAILURE", "REVERTING"}
	case old.State == "RUNNING" && rec.State == "REVERTING":
		return []lifecycle.State{"SUCCESS", "REVERTING"}
	case old.State == "SUCCESS" && rec.State == "RUNNING" && ch.retried.has(i):
		return []lifecycle.State{"RETRYING", "RUNNING"}
	}
	return []lifecycle.State{rec.State}
}

// enters checks the conditions under which an atom enters a state.
func (j *checker) enters(i int, from, to lifecycle.State, ch *change) {
	name, out := j.c.names[i], j.out[i]
	switch to {
	case "RUNNING":
		j.begun[i], j.spent[i], j.out[i] = false, false, nil
		if !j.c.clear(i, ch.next) {
			j.violation("order", "%s is moved to RUNNING, and not all before it is done", name)
		}
		if depth, err := j.decidersOf(i, ch.next); from == "PENDING" && (depth != "" || err != nil) {
			j.violation("decider", "%s is moved to RUNNING, and a decider is against it", name)
		}
	case "RETRYING":
		if !j.c.quiet(i, j.recs) {
			j.violation("undo order", "%s is moved to RETRYING, and not all after it was undone", name)
		}
	case "SUCCESS":
		j.closed[key(name, j.recs[i].Attempts)] = true
		ch.succeeded |= 1 << i
		if out == nil || out.err != nil || out.fault {
			j.violation("result", "%s is stored as SUCCESS and did not succeed", name)
		}
	case "FAILURE":
		j.closed[key(name, j.recs[i].Attempts)] = true
		j.checkFailure(i, ch)
	case "REVERTING":
		j.seen["reverts"]++
		j.begun[i], j.spent[i], j.out[i] = false, false, nil
		if !j.c.quiet(i, ch.next) {
			j.violation("undo order", "%s is moved to REVERTING, and not all after it is undone", name)
		}
		if ch.next[i].Intention != "REVERT" {
			j.violation("intention", "%s is reverted, and is meant to %s", name, ch.next[i].Intention)
		}
	case "REVERTED":
		f := ch.next[i].Failure
		nothing := !j.begun[i] && f != nil && f.Type == TypeNotFound // Execute was not called: nothing to revert
		if (out == nil || out.err != nil || out.fault) && !nothing {
			j.violation("result", "%s is stored as REVERTED and was not", name)
		}
	case "REVERT_FAILURE":
		j.seen["revert failures"]++
		j.faults = append(j.faults, name)
		if !j.begun[i] || out != nil && out.fault {
			ch.faulty = ch.faulty || j.mild()
		}
	case "IGNORE":
		j.seen["ignored"]++
		ch.ignored |= 1 << i
	}
}

// checkFailure classifies a failure.
func (j *checker) checkFailure(i int, ch *change) {
	old, out := j.recs[i], j.out[i]
	j.seen["failures"]++
	switch {
	case out != nil && out.fault || !j.begun[i] && j.lacksArguments(i) && !old.Waits:
		if !j.mild() {
			j.violation("result", "%s is stored as FAILURE because of an error of the flow, which is not to revert it", j.c.names[i])
		}
		ch.faulty = true
	case j.never && out != nil && out.err != nil && !out.waits:
		j.faults = append(j.faults, j.c.names[i])
	case out == nil || out.waits:
		if ch.next[i].Intention == "EXECUTE" {
			j.violation("result", "%s is stored as FAILURE and did not fail", j.c.names[i])
		}
		j.seen["cancelled"]++
	case out.err == nil:
		j.violation("result", "%s is stored as FAILURE and did not fail", j.c.names[i])
	case j.c.task[i] != nil && old.Tries+1 < j.c.task[i].conduct.tries:
		ch.perhaps = append(ch.perhaps, i)
	default:
		ch.failures = append(ch.failures, i)
	}
}

// decidersOf calls the deciders of an atom. It returns the widest depth of those that refuse it.
func (j *checker) decidersOf(i int, recs []*Record) (Depth, error) {
	var widest Depth
	for _, w := range j.c.gates[i] {
		var result any
		if w.source >= 0 {
			if recs[w.source].State == "IGNORE" {
				continue
			}
			if r := recs[w.source].Result; r != nil {
				result = r.Any()
			}
		}
		yes, err := w.join.answer(result, j.stage)
		if err != nil {
			return "", err
		}
		if order := []Depth{"", DepthAtom, DepthNeighbors, DepthFlow, DepthAll}; !yes &&
			slices.Index(order, w.join.depth) > slices.Index(order, widest) {
			widest = w.join.depth
		}
	}
	return widest, nil
}

// checkDecided checks that a commit ignores the atoms that deciders refuse.
func (j *checker) checkDecided(ch *change) {
	if ch.ignored == 0 || ch.faulty {
		return
	}
	view := slices.Clone(ch.next)
	for _, i := range ch.ignored.list() {
		view[i] = &Record{State: "PENDING", Intention: "EXECUTE"}
	}
	for again := true; again; {
		again = false
		for i := range view {
			if view[i].State != "PENDING" || view[i].Intention != "EXECUTE" || !j.c.clear(i, view) {
				continue
			}
			depth, err := j.decidersOf(i, view)
			if err != nil || depth == "" {
				continue
			}
			for _, k := range j.c.ignoredBy(i, depth).list() {
				if view[k].State == "PENDING" {
					view[k] = &Record{State: "IGNORE", Intention: "IGNORE"}
					again = true
				}
			}
		}
	}
	for i := range view {
		if was := ch.ignored.has(i); was && view[i].State != "IGNORE" {
			j.violation("decider", "%s is ignored, and no decider is against it", j.c.names[i])
		} else if !was && view[i].State == "IGNORE" && ch.next[i].State != "IGNORE" && len(j.faults) == 0 {
			j.violation("decider", "%s is not ignored with the others", j.c.names[i])
		}
	}
}

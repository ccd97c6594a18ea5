package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// intentions has the intention of every atom, and the names of the failed atoms in the histories of the controllers, by
// attempt.
type intentions struct {
	intents []Intention
	history [][][]string
}

func (h *intentions) clone() *intentions {
	c := &intentions{slices.Clone(h.intents), make([][][]string, len(h.history))}
	for i := range h.history {
		for _, names := range h.history[i] {
			c.history[i] = append(c.history[i], slices.Clone(names))
		}
	}
	return c
}

func intentionsOf(recs []*Record) *intentions {
	h := &intentions{make([]Intention, len(recs)), make([][][]string, len(recs))}
	for i, rec := range recs {
		h.intents[i] = rec.Intention
		for _, a := range rec.History {
			names := []string{}
			for _, f := range a.Failures {
				names = append(names, f.Atom)
			}
			slices.Sort(names)
			h.history[i] = append(h.history[i], names)
		}
	}
	return h
}

// differ describes the first difference.
func (h *intentions) differ(o *intentions, c *chart) string {
	for i := range h.intents {
		if h.intents[i] != o.intents[i] {
			return fmt.Sprintf("%s is meant to %s, want %s", c.names[i], o.intents[i], h.intents[i])
		}
	}
	for i := range h.history {
		if !slices.EqualFunc(h.history[i], o.history[i], func(a, b []string) bool { return slices.Equal(a, b) }) {
			return fmt.Sprintf("the history of %s is %v, want %v", c.names[i], o.history[i], h.history[i])
		}
	}
	return ""
}

// intended checks intentions and histories against TaskFlow's rules of resolution.
func (j *checker) intended(c *Commit, ch *change) {
	if j.bad != nil {
		return
	}
	want := intentionsOf(j.recs)
	for i, rec := range ch.next {
		restarted := ch.reset || ch.restarted.has(i)
		if restarted || ch.retried.has(i) {
			want.intents[i] = "EXECUTE"
		}
		if restarted || rec.State == "REVERTED" && j.recs[i].State != "REVERTED" {
			want.history[i] = nil
		}
		if j.c.retry[i] != nil && ch.succeeded.has(i) {
			want.history[i] = append(want.history[i], []string{})
		}
		if ch.ignored.has(i) {
			want.intents[i] = "IGNORE"
		}
	}
	failures := ch.failures
	if c.Move == nil || c.Move.Event != Suspend {
		failures = append(failures, j.resumed.list()...)
		j.resumed = 0
	}
	got := intentionsOf(ch.next)
	first := ""
	for _, some := range [][]int{failures, append(slices.Clone(failures), ch.perhaps...)} {
		try := want.clone()
		for _, i := range some {
			j.resolveFailure(i, try)
		}
		if ch.faulty {
			for i := range try.intents {
				try.intents[i] = "REVERT"
			}
		}
		text := try.differ(got, j.c)
		if text == "" {
			return
		}
		if first == "" {
			first = text
		}
	}
	j.violation("intention", "%s", first)
}

// resolveFailure applies what is decided about the failure of an atom.
func (j *checker) resolveFailure(i int, h *intentions) {
	d, r, ok := j.resolution(i, h)
	if !ok {
		return
	}
	whole := h.intents
	switch {
	case d == "REVERT_ALL":
		for k := range whole {
			whole[k] = "REVERT"
		}
		return
	case d == "REVERT":
		whole[r] = "REVERT"
	case whole[r] != "REVERT":
		whole[r] = "RETRY"
	}
	for _, k := range j.c.after[r].list() {
		whole[k] = "REVERT"
	}
}

// isReported reports whether the controller of an atom has the atom's failure in its history. The failure of an atom
// that only waited when another one failed is never reported, also not after a crash.
func (j *checker) isReported(i int) bool {
	g := j.c.governor[i]
	if g < 0 {
		return true
	}
	h := intentionsOf(j.recs).history[g]
	return len(h) > 0 && slices.Contains(h[len(h)-1], j.c.names[i])
}

// resolution is the decision by TaskFlow's rules, from the answers of the controllers.
func (j *checker) resolution(i int, h *intentions) (d Decision, r int, ok bool) {
	g := j.c.governor[i]
	if g < 0 {
		return "REVERT_ALL", -1, true
	}
	if last := len(h.history[g]) - 1; last >= 0 && !slices.Contains(h.history[g][last], j.c.names[i]) {
		h.history[g][last] = append(h.history[g][last], j.c.names[i])
		slices.Sort(h.history[g][last])
	}
	a, asked := j.answers[g]
	if !asked || a.err != nil {
		return "", g, false
	}
	if a.decision != "REVERT" {
		return a.decision, g, true
	}
	up, above, ok := j.resolution(g, h)
	switch {
	case !ok:
		return "", g, false
	case j.deferring, up == "RETRY", up == "REVERT_ALL" && above >= 0:
		return up, above, true
	}
	return "REVERT", g, true
}

// checkReturn checks the result of a run.
func (j *checker) checkReturn(e *entry) {
	j.running = false
	defer func() { j.suspendAsked = j.suspendAsked && e.rest != nil }()
	switch {
	case errors.Is(e.err, errCrash):
		return
	case e.state != j.state:
		j.violation("end", "the flow is reported as %s; stored is %s", e.state, j.state)
	case errors.Is(e.err, ErrStopped):
		return
	}
	j.checkAllReported()
	var engaged, lacking bool
	for i, rec := range j.recs {
		if rec.State != "RUNNING" && rec.State != "REVERTING" || rec.Waits {
			continue
		}
		engaged = true
		if out := j.out[i]; out != nil && out.fault {
			j.faults = append(j.faults, rec.Name)
		} else if !j.begun[i] || out == nil {
			lacking = lacking || j.lacksArguments(i)
		}
	}
	if e.rest != nil {
		if j.state != "RUNNING" || engaged || len(j.faults) > 0 {
			j.violation("end", "the flow rests while it is %s (active: %t, faults: %v)", j.state, engaged, j.faults)
		}
		return
	}
	j.checkEnd(e, lacking)
}

// leftover describes an atom that could be executed or reverted, or that waits.
func (j *checker) leftover() string {
	for i, rec := range j.recs {
		switch {
		case rec.State == "RUNNING" || rec.State == "REVERTING" || rec.State == "RETRYING",
			rec.State == "REVERT_FAILURE" && j.again.has(i) && j.c.quiet(i, j.recs),
			rec.State == "PENDING" && rec.Intention == "EXECUTE" && j.c.clear(i, j.recs),
			(rec.State == "SUCCESS" || rec.State == "FAILURE") &&
				(rec.Intention == "REVERT" || rec.Intention == "RETRY") && j.c.quiet(i, j.recs):
			return rec.Name
		}
	}
	return ""
}

func (j *checker) checkEnd(e *entry, lacking bool) {
	left := j.leftover()
	good, bad := true, false
	for _, rec := range j.recs {
		good = good && (rec.State == "SUCCESS" || rec.State == "IGNORE")
		bad = bad || rec.State == "FAILURE" || rec.State == "REVERT_FAILURE"
	}
	want := "REVERTED"
	switch {
	case len(j.faults) > 0 || lacking && !j.mild() && j.state == "FAILURE":
		want = "FAILURE"
	case left != "" && j.suspendAsked:
		want = "SUSPENDED"
	case left != "":
		j.violation("end", "the flow ends as %s, and %s is left", j.state, left)
		return
	case good:
		want = "SUCCESS"
	case bad:
		want = "FAILURE"
	}
	if string(j.state) != want {
		j.violation("end", "the flow ends as %s, want %s (faults %v)", j.state, want, j.faults)
		return
	}
	j.seen["ended "+want]++
	if (want == "SUCCESS" || want == "SUSPENDED") != (e.err == nil) {
		j.violation("blame", "a flow that is %s gives the error %v", want, e.err)
	}
	if e.err != nil && !j.extra && (len(j.faults) > 0 || !lacking) {
		j.blames(e.err.Error(), want)
	}
}

// blames checks that an error names the failed atoms.
func (j *checker) blames(text, state string) {
	names := slices.Clone(j.faults)
	if len(names) == 0 {
		for _, rec := range j.recs {
			if rec.Failure != nil && rec.Failure.Type != TypeCancelled || rec.RevertFailure != nil {
				names = append(names, rec.Name)
			}
		}
	}
	for _, name := range names {
		if !strings.Contains(text, name) {
			j.violation("blame", "the error of a flow that is %s does not name %s: %s", state, name, text)
		}
	}
}

package draw

import (
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// appear is how a state appears, beside its word: never by colour alone.
type look struct {
	class   string // in an SVG, of boxes and their edges
	symbol  string // in a terminal
	plain   string // idem, ASCII
	colour  string // idem, the number of an SGR sequence
	fill    string // DOT and Mermaid
	stroke  string
	urgency int // smaller is shown first when there is no space for all
}

const waits lifecycle.State = "waits" // RUNNING and no one works on it: no state, only a check

var looks = map[lifecycle.State]look{
	flow.RevertFailure: {"worse", "✘", "!", "31", "#fde3e1", "#b3261e", 0},
	flow.FailureState:  {"failed", "✗", "!", "31", "#fde3e1", "#b3261e", 0},
	flow.Running:       {"running", "▸", ">", "36", "#d7e5ff", "#0b57d0", 1},
	flow.Reverting:     {"reverting", "↶", "<", "35", "#eee2fa", "#7a3fc0", 1},
	flow.Retrying:      {"running", "↻", "@", "36", "#d7e5ff", "#0b57d0", 1},
	waits:              {"waits", "◷", "~", "33", "#ffe29a", "#7a5a00", 2},
	flow.Reverted:      {"reverted", "↲", "-", "35", "#eee2fa", "#7a3fc0", 3},
	flow.Success:       {"success", "✓", "+", "32", "#dff3e6", "#1a7340", 5},
	flow.Ignore:        {"ignored", "⊘", "/", "2", "#ffffff", "#667182", 5},
	flow.Pending:       {"pending", "◦", ".", "2", "#f3f5f8", "#667182", 4},
	flow.Suspending:    {"waits", "◷", "~", "33", "#ffe29a", "#7a5a00", 2},
	flow.Suspended:     {"waits", "◷", "~", "33", "#ffe29a", "#7a5a00", 2},
	flow.Resuming:      {"running", "▸", ">", "36", "#d7e5ff", "#0b57d0", 1},
	flow.Deleted:       {"ignored", "⊘", "/", "2", "#ffffff", "#667182", 5},
}

// culprit is the check of what failed and was reverted for it, or is being reverted: no state, only a check.
var culprit = look{"culprit", "✗", "!", "31", "#eee2fa", "#b3261e", 0}

// unknown is the check of what no one has stated anything about.
var unknown = look{"pending", "◦", ".", "", "#f3f5f8", "#667182", 6}

// status is what is stated of an atom.
type status struct {
	look
	word     string  // the state; empty: nothing is known
	attempt  int     // 0: not stated
	took     string  // or has taken so far
	note     string  // what it waits for, why it failed
	failure  bool    // the note is of a failure
	progress float64 // 0 to 1; negative: not shown
}

// statusOf reads a record; nil states nothing.
func statusOf(rec *flow.Record, now time.Time) status {
	if rec == nil {
		return status{look: unknown, progress: -1}
	}
	s := status{look: lookOf(rec.State, rec.Waits || pauses(rec, now)), word: cut(clean(string(rec.State)), 20),
		progress: -1}
	switch active := rec.State == flow.Running || rec.State == flow.Reverting; {
	case active && !rec.Began.IsZero() && !now.IsZero():
		s.took = took(now.Sub(rec.Began))
	case !active && rec.State != flow.Pending && rec.State != flow.Ignore && !rec.Began.IsZero() &&
		!rec.Ended.Before(rec.Began):
		s.took = took(rec.Ended.Sub(rec.Began))
	}
	if (rec.State == flow.Running || rec.State == flow.Reverting) && rec.Progress > 0 {
		s.progress = min(rec.Progress, 1)
	}
	s.attempt = rec.Attempts
	if rec.Kind == flow.KindRetry {
		s.attempt = len(rec.History)
		if rec.State == flow.Running {
			s.attempt++
		}
	} else if s.attempt == 1 {
		s.attempt = 0
	}
	s.note = noteOf(rec, now)
	s.failure = s.note != "" && (rec.State == flow.FailureState || rec.State == flow.RevertFailure || caused(rec))
	if caused(rec) && (rec.State == flow.Reverted || rec.State == flow.Reverting) {
		s.look, s.note = culprit, "failed: "+s.note
	}
	return s
}

// caused reports whether an atom has failed by itself, and not because something else did or its flow was ended.
func caused(rec *flow.Record) bool {
	switch f := rec.Failure; rec.State {
	case flow.FailureState, flow.Reverting, flow.Reverted, flow.RevertFailure:
		return f != nil && f.Type != flow.TypeCancelled && f.Type != flow.TypeInterrupted
	}
	return false
}

func lookOf(s lifecycle.State, waiting bool) look {
	if waiting {
		return looks[waits]
	}
	l, ok := looks[s]
	if !ok {
		return unknown
	}
	return l
}

// pauses reports whether a retry controller lets time pass before the next attempt.
func pauses(rec *flow.Record, now time.Time) bool {
	return rec.Kind == flow.KindRetry && rec.Intention == flow.ToRetry && rec.Due.After(now)
}

// noteOf states in one line what an atom waits for or why it failed.
func noteOf(rec *flow.Record, now time.Time) string {
	switch {
	case pauses(rec, now):
		return "next attempt " + due(rec.Due, now)
	case rec.State == flow.Running && rec.Waits && rec.Awaits == "" && backsOff(rec):
		return "tries again " + due(rec.Due, now) + ", after " + failure(rec.Failure)
	case rec.State == flow.Running && rec.Waits && rec.Awaits != "":
		note := "waits for the signal " + clean(rec.Awaits)
		if !rec.Due.IsZero() {
			note += ", " + until(rec.Due, now)
		}
		return note
	case rec.State == flow.Running && rec.Waits:
		return "waits " + until(rec.Due, now)
	case rec.State == flow.RevertFailure && rec.RevertFailure != nil && caused(rec):
		return failure(rec.RevertFailure) + "; it had failed: " + failure(rec.Failure)
	case rec.State == flow.RevertFailure && rec.RevertFailure != nil:
		return failure(rec.RevertFailure)
	case rec.Failure != nil && rec.State != flow.Success && rec.State != flow.Pending && rec.State != flow.Ignore:
		return failure(rec.Failure)
	}
	return ""
}

// backsOff reports whether what waits has failed and is to be tried again.
func backsOff(rec *flow.Record) bool {
	return rec.Tries > 0 && rec.Failure != nil && !rec.Ended.IsZero()
}

// due states when something is to happen.
func due(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "at once"
	case now.IsZero():
		return "at " + moment(t, now)
	case !t.After(now):
		return "at " + moment(t, now) + ", now"
	}
	return fmt.Sprintf("at %s, in %s", moment(t, now), took(t.Sub(now)))
}

// until states how long something lasts.
func until(t, now time.Time) string {
	if t.IsZero() {
		return "for nothing"
	}
	return "until" + strings.TrimPrefix(due(t, now), "at")
}

func failure(f *flow.Failure) string {
	if f.Message == "" {
		return clean(f.Type)
	}
	return clean(f.Type) + ": " + clean(f.Message)
}

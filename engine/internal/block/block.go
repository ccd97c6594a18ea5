// Package block decides what keeps a job from moving, for the engine, which acts on it, and package explain.
package block

import (
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Never is when a job is due that waits for a person.
var Never = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

// Rests reports whether a step left a job at rest until a person moves it.
func Rests(j *job.Job) bool { return !j.Claimed() && !j.Due.Before(Never) }

// Exhausted reports whether a job waits for a person because its attempts or its starts were used up in a state that
// has no failure exit.
func Exhausted(j *job.Job) bool {
	return Rests(j) && !j.Ended && (j.Cause == cause.Attempts || j.Cause == cause.Poison)
}

// Definition returns what keeps a program whose lifecycle has a hash, and which adopts others, from continuing a job
// that was created under another definition; nil if nothing does.
func Definition(j *job.Job, hash string, adopts []string) *job.Blocker {
	if j.Definition == hash || slices.Contains(adopts, j.Definition) {
		return nil
	}
	return &job.Blocker{
		Code: "definition", Since: j.Changed, Holder: "the operator of the new version",
		Sentence: fmt.Sprintf("it was created under definition %s of %s, this version has %s",
			j.Definition, j.Kind, hash),
		Remedy: "let a version with the old definition finish it, or, if the states mean the same, " +
			"add the hash to Adopts",
	}
}

// TimedOut is the event that a timer prefers where a state has it.
const TimedOut lifecycle.Event = "timeout"

// TimerEvent returns the event by which a timer takes a job out of a state. own is the event of the work for it, if
// any. overdue: the deadline of the job has passed, not only the time for the state.
func TimerEvent(
	life *lifecycle.Table, own lifecycle.Event, p lifecycle.Position, overdue bool,
) (lifecycle.Event, bool) {
	if k := life.Kind(p.State); k == "" || k == lifecycle.End {
		return "", false
	}
	if own != "" && !overdue {
		if _, err := life.Next(p, own, lifecycle.Timer); err == nil {
			return own, true
		}
	}
	if a, ok := life.Transition(p.State, TimedOut); ok && a.By&lifecycle.Timer != 0 {
		return TimedOut, true
	}
	for _, c := range []lifecycle.Class{lifecycle.Fail, lifecycle.Reenter, lifecycle.Move, lifecycle.Pass} {
		if e, ok := life.Choose(p, c, lifecycle.Timer); ok {
			return e, true
		}
	}
	return "", false
}

// Stateless returns what keeps a job from moving whose state the lifecycle does not have; nil if it has it.
func Stateless(j *job.Job, life *lifecycle.Table) *job.Blocker {
	if life.Kind(j.State) != "" {
		return nil
	}
	return &job.Blocker{
		Code: "definition", Since: j.Changed, Holder: "the operator of the new version",
		Sentence: fmt.Sprintf("this version of %s (definition %s) has no state %s, and the job has definition %s",
			j.Kind, life.Hash(), j.State, j.Definition),
		Remedy: "let a version with the old definition finish it, or give this version the state",
	}
}

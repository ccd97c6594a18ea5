// Package block decides what keeps a job from moving, for the engine, which acts on it, and package explain.
package block

import (
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
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

package engine

import (
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Blocker is one thing that keeps a job from moving.
type Blocker struct {
	Code     string    `json:"code"`
	Sentence string    `json:"sentence"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`   // when it ends by itself or is examined again
	Holder   string    `json:"holder,omitempty"` // who or what can end it
	Remedy   string    `json:"remedy,omitempty"` // what the reader can do that is no command

	Remedies []job.Remedy `json:"remedies,omitempty"` // what the reader can do, as commands
}

// Codes of blockers that the engine records. Gates and steps add theirs; package explain has those of its answers.
const (
	BlockHold       = "hold"       // a hold on something the job belongs to
	blockDefinition = "definition" // created under another definition of its lifecycle
	BlockStopped    = "stopped"    // no worker takes jobs
)

// CheckDefinition returns what keeps the work from continuing a job that was created under another definition of its
// lifecycle, or nil.
func (w *Work) CheckDefinition(j *job.Job) *Blocker {
	if w.knows(j) {
		return nil
	}
	return &Blocker{
		Code: blockDefinition, Since: j.Changed, Holder: "whoever runs the new version",
		Sentence: fmt.Sprintf("it was created under definition %s of %s, this version has %s", j.Definition, j.Kind, w.Life.Hash()),
		Remedy:   "let a version that knows the old definition finish it, or add the hash to Adopts after checking that the states mean the same",
	}
}

// Rests reports whether a step left a job by [Run.Rest] until a person moves it.
func Rests(j *job.Job) bool { return !j.Claimed() && !j.Due.Before(never) }

// Exhausted reports whether a job waits for a person because its attempts or its starts were used up in a state that
// has no failure exit.
func Exhausted(j *job.Job) bool {
	return Rests(j) && !j.Ended && (j.Cause == CauseAttempts || j.Cause == CausePoison)
}

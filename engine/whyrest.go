package engine

import (
	"cmp"
	"fmt"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// movers gives the people who may move a job from where it stands.
func movers(w *Work, j *job.Job) lifecycle.Actor {
	people := lifecycle.Actor(0)
	for _, x := range Exits(w.Life, j.Position) {
		people |= x.By & (lifecycle.Operator | lifecycle.Owner)
	}
	return people
}

// rests tells whether a step left a job by [Run.Rest] until a person moves it.
func rests(j *job.Job) bool { return !j.Claimed() && !j.Due.Before(never) }

// exhausted tells whether a job waits for a person because its attempts or its starts were used up where there is no failure exit.
func exhausted(j *job.Job) bool {
	return rests(j) && !j.Ended && (j.Cause == CauseAttempts || j.Cause == CausePoison)
}

func whyRests(w *Work, j *job.Job) *Blocker {
	b := &Blocker{Code: cmp.Or(j.Cause, BlockPerson), Sentence: j.Message, Since: j.Entered, Holder: movers(w, j).String()}
	if b.Sentence == "" {
		stage, _ := w.Life.Stage(j.State)
		b.Sentence = fmt.Sprintf("%s: %s", j.State, stage.Doc)
	}
	b.Remedy = "see the moves: one of them takes it away"
	if exhausted(j) {
		b.Holder = lifecycle.Operator.String()
		first := "correct what the reason names"
		if j.Cause == CausePoison {
			first = "find out in the log what ended its workers, and correct that"
		}
		b.Remedy = fmt.Sprintf("%s, then let it be tried again: stagepost priority %s %d; or end it by one of its moves", first, j.ID, j.Priority)
		return b
	}
	if w.Explain != nil {
		w.Explain(j, b)
	}
	return b
}

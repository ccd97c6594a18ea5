package explain

import (
	"cmp"
	"fmt"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// movers gives the people who may move a job from where it stands.
func movers(w *engine.Work, j *job.Job) lifecycle.Actor {
	people := lifecycle.Actor(0)
	for _, x := range exitsOf(w.Life, j.Position) {
		people |= x.By & (lifecycle.Operator | lifecycle.Owner)
	}
	return people
}

func whyRests(w *engine.Work, j *job.Job) *engine.Blocker {
	b := &engine.Blocker{Code: cmp.Or(j.Cause, BlockPerson), Sentence: j.Message, Since: j.Entered, Holder: movers(w, j).String()}
	if b.Sentence == "" {
		stage, _ := w.Life.Stage(j.State)
		b.Sentence = fmt.Sprintf("%s: %s", j.State, stage.Doc)
	}
	b.Remedy = "see the moves: one of them takes it away"
	if engine.Exhausted(j) {
		b.Holder = lifecycle.Operator.String()
		first := "correct what the reason names"
		if j.Cause == engine.CausePoison {
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

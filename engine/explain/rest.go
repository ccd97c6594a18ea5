package explain

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// movers returns the people who may move a job out of its state.
func movers(w *engine.Work, j *job.Job) lifecycle.Actor {
	people := lifecycle.Actor(0)
	for _, x := range exitsOf(w.Life, j.Position) {
		people |= x.By & (lifecycle.Operator | lifecycle.Owner)
	}
	return people
}

func whyRests(w *engine.Work, j *job.Job, can []job.Remedy) *job.Blocker {
	b := &job.Blocker{Code: cmp.Or(j.Cause, BlockPerson), Sentence: j.Message, Since: j.Entered,
		Holder: movers(w, j).String()}
	if b.Sentence == "" {
		stage, _ := w.Life.Stage(j.State)
		b.Sentence = fmt.Sprintf("%s: %s", j.State, stage.Doc)
	}
	b.Remedies = can
	if block.Exhausted(j) {
		b.Holder = lifecycle.Operator.String()
		b.Remedy = "correct what the reason names, then let it be tried again"
		again := job.Reordering(j.ID, j.Priority, "lets it be tried again, with the same priority")
		b.Remedies = append([]job.Remedy{again}, can...)
		if j.Cause == cause.Poison {
			b.Remedy = "find out what ended its workers, correct that, then let it be tried again"
			logs := job.Running("logs "+string(j.ID), "shows what it did last")
			b.Remedies = append([]job.Remedy{logs}, b.Remedies...)
		}
		return b
	}
	if w.Explain != nil {
		w.Explain(j, b)
	}
	return b
}

// timed completes the blocker of a job that a timer moves, which ends the wait if nothing else does before.
func timed(w *engine.Work, j *job.Job, b *job.Blocker) *job.Blocker {
	if b == nil || j.Expires.IsZero() || !b.Until.IsZero() && b.Until.Before(j.Expires) {
		return b
	}
	late := !j.Deadline.IsZero() && !j.Expires.Before(j.Deadline)
	ev, ok := block.TimerEvent(w.Life, w.Elapsed[j.State], j.Position, late)
	if !ok {
		return b
	}
	to, err := w.Life.Next(j.Position, ev, lifecycle.Timer)
	if err != nil {
		return b
	}
	own := *b
	own.Until = j.Expires
	own.Sentence += fmt.Sprintf("; a timer moves it to %s at %s if it still waits then", to.State,
		j.Expires.UTC().Format(time.RFC3339))
	return &own
}

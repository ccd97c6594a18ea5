package explain

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// whyEnded tells how a job came to its end.
func (e *Explainer) whyEnded(ctx context.Context, w *engine.Work, j *job.Job, x *Explanation) error {
	history, err := e.store.History(ctx, j.ID, 0, 0)
	if err != nil {
		return err
	}
	x.Chain = causes(w.Life, history)
	if len(history) > 0 {
		last := history[len(history)-1]
		if a, ok := w.Life.Transition(last.From, last.Event); ok {
			x.Rule = fmt.Sprintf("%s -%s-> %s: %s", last.From, last.Event, last.To, reasonOf(j, &last, a.Doc))
		}
	}
	b := engine.Blocker{Code: BlockEnded, Since: j.Entered, Sentence: fmt.Sprintf("it has ended: %s, outcome %s", j.State, j.Outcome)}
	if j.Message != "" {
		b.Sentence += " (" + j.Message + ")"
	}
	if len(x.Moves) > 0 {
		b.Remedy = "see the moves"
	}
	x.Blockers = append(x.Blockers, b)
	return nil
}

// reasonOf gives what ended a job, as it was recorded: the refusal, the error or a person's reason. Only where there is none, the sentence of
// the transition stands for it, which names all that could have been.
func reasonOf(j *job.Job, last *job.Event, doc string) string {
	text := last.Note
	if text == "" && j.Outcome == lifecycle.Failed {
		text = j.Message
	}
	switch {
	case text == "":
		return doc
	case last.Cause != "":
		return text + " [" + last.Cause + "]"
	}
	return text
}

// causes picks from a history what led to its end: the last success and everything after it.
func causes(life *lifecycle.Table, history []job.Event) []job.Event {
	from := 0
	for i, h := range history {
		if a, ok := life.Transition(h.From, h.Event); ok && a.Class == lifecycle.Pass && !life.Ended(h.To) {
			from = i
		}
	}
	return history[from:]
}

package explain

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// whyEnded reports how a job came to its end.
func (e *Explainer) whyEnded(ctx context.Context, w *engine.Work, j *job.Job, x *api.Explanation) error {
	history, err := e.store.History(ctx, j.ID, 0, 0)
	if err != nil {
		return err
	}
	x.Chain = causes(w.Life, history)
	b := job.Blocker{
		Code: BlockEnded, Since: j.Entered, Sentence: "it ended as " + string(j.State), Remedies: offered(x.Moves),
	}
	if len(history) > 0 {
		b.Sentence = happened(w.Life, j, &history[len(history)-1])
	}
	if w.Explain != nil {
		w.Explain(j, &b)
	}
	if len(history) > 0 {
		last := &history[len(history)-1]
		x.Rule = fmt.Sprintf("%s -%s-> %s: %s", last.From, last.Event, last.To,
			strings.TrimPrefix(b.Sentence, string(last.To)+": "))
		if last.Cause != "" && last.Event != job.Create { // whose cause is the digest of a request
			x.Rule += " [" + last.Cause + "]"
		}
	}
	x.Blockers = append(x.Blockers, b)
	return nil
}

// happened states what ended a job: the message of the step, else the note, else the description of the state. If a
// person ended it, the text has the person and the reason.
func happened(life *lifecycle.Table, j *job.Job, last *job.Event) string {
	stage, _ := life.Stage(j.State)
	meaning := fmt.Sprintf("%s: %s", j.State, stage.Doc)
	if last.By&(lifecycle.Operator|lifecycle.Owner) == 0 {
		return cmp.Or(j.Message, last.Note, meaning)
	}
	by := fmt.Sprintf(" (%s by %s)", last.Event, cmp.Or(last.Actor, last.By.String()))
	if last.Note != "" {
		return fmt.Sprintf("%s: %s%s", j.State, last.Note, by)
	}
	return strings.TrimSuffix(meaning, ".") + by
}

// causes returns the entries of a history that led to the end: the last success and all entries after it.
func causes(life *lifecycle.Table, history []job.Event) []job.Event {
	from := 0
	for i, h := range history {
		if a, ok := life.Transition(h.From, h.Event); ok && a.Class == lifecycle.Pass && !life.Ended(h.To) {
			from = i
		}
	}
	return history[from:]
}

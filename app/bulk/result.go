package bulk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Result is the result of a bulk. While it runs, the numbers are those of the last finished page.
type Result = api.BulkResult

// Refusal is a reason with the jobs that were refused for it.
type Refusal = api.BulkRefusal

// Bounds of the recorded refusals.
const (
	maxReasons    = 20
	maxExamples   = 100 // of all reasons together
	statedReasons = 3   // in a message
	otherReason   = "other reasons"
)

func seen(r *Result) int { return r.Done + r.Refused + r.Changed + r.Skipped }

// anyID finds the ids of jobs in a sentence: reasons that differ only in ids are one reason.
var anyID = regexp.MustCompile(`\b[a-z]+_[0-9A-HJKMNP-TV-Z]{26}\b`)

// refuse counts a refusal under its reason.
func refuse(r *Result, id job.ID, err error) {
	var e *job.Error
	if errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	var illegal *lifecycle.Illegal
	byLifecycle := errors.As(err, &illegal)
	reason := anyID.ReplaceAllString(err.Error(), "...")
	r.Refused++
	examples := 0
	at := -1
	for i := range r.Refusals {
		examples += len(r.Refusals[i].Sample)
		if r.Refusals[i].Reason == reason || at < 0 && r.Refusals[i].Reason == otherReason {
			at = i
		}
	}
	if at < 0 {
		if len(r.Refusals) == maxReasons-1 {
			reason, byLifecycle = otherReason, false
		}
		at = len(r.Refusals)
		r.Refusals = append(r.Refusals, Refusal{Reason: reason, Lifecycle: byLifecycle})
	}
	r.Refusals[at].Jobs++
	if examples < maxExamples {
		r.Refusals[at].Sample = append(r.Refusals[at].Sample, id)
	}
}

// useful returns refusals in the order in which people read them: those by rules, which state what to do, before those
// by lifecycles, and the most frequent first.
func useful(refusals []Refusal) []Refusal {
	rank := func(r *Refusal) int {
		switch {
		case r.Reason == otherReason:
			return 2
		case r.Lifecycle:
			return 1
		}
		return 0
	}
	all := slices.Clone(refusals)
	slices.SortStableFunc(all, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.Jobs, a.Jobs))
	})
	return all
}

// sentence returns the result as one: "37 of 40 done, 3 refused: a Completed job cannot be retried ...".
func sentence(r *Result) string {
	text := fmt.Sprintf("%d of %d done", r.Done, r.Matches)
	if r.Changed > 0 {
		text += fmt.Sprintf(", %d changed meanwhile", r.Changed)
	}
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d deleted", r.Skipped)
	}
	if r.Refused == 0 {
		return text
	}
	text += fmt.Sprintf(", %d refused", r.Refused)
	reasons := useful(r.Refusals)
	for i, one := range reasons {
		switch {
		case i == statedReasons:
			if i == len(reasons)-1 {
				return text + "; and 1 more reason"
			}
			return text + fmt.Sprintf("; and %d more reasons", len(reasons)-i)
		case len(reasons) == 1:
			text += ": " + one.Reason
		default:
			text += fmt.Sprintf("; %d: %s", one.Jobs, one.Reason)
		}
	}
	return text
}

// Result returns the result of a bulk. If it was cancelled or could not continue, the histories of the jobs of its
// last page show how far it had come.
func (a *App) Result(ctx context.Context, id job.ID) (Result, error) {
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil {
		return Result{}, err
	}
	if j.Kind != Kind {
		return Result{}, job.Errorf(job.Invalid, "bulk", id, "it is of kind %s, not a bulk", j.Kind)
	}
	var q Request
	var d record
	err = json.Unmarshal(j.Spec, &q)
	if len(j.Data) > 0 {
		err = errors.Join(err, json.Unmarshal(j.Data, &d))
	}
	if err != nil {
		return Result{}, job.Errorf(job.Internal, "decode", id, "%w", err)
	}
	if j.Ended {
		for i := range d.Page {
			did, err := a.did(ctx, id, &q, &d.Page[i])
			if err != nil {
				return Result{}, err
			}
			if did {
				d.Done++
			}
		}
	}
	return d.Result, nil
}

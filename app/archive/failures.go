package archive

import (
	"context"
	"strings"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// maxCause bounds the reason of a failure in the catalog, in bytes.
const maxCause = 500

// blame enters into the catalog which activities a failed job could not archive, so that triggers pause before they try
// the same content again. If an archiving task failed, only its activity is blamed: the others may succeed without it.
// Else all activities of the job are. A job that a person cancelled blames none.
func (t *task) blame(ctx context.Context, tasks map[string]job.Task) error {
	if t.Job().Outcome == lifecycle.Cancelled {
		return nil
	}
	var failed, all []catalog.Failure
	add := func(to *[]catalog.Failure, activity, fingerprint, cause string) {
		*to = append(*to, catalog.Failure{
			Source: t.spec.Source, Activity: activity, Fingerprint: fingerprint, Job: string(t.Job().ID),
			At: t.Now().UTC(), Cause: strings.ToValidUTF8(cause[:min(len(cause), maxCause)], ""),
		})
	}
	reason := t.Job().Message
	for _, name := range sortedKeys(tasks) {
		one := tasks[name]
		if !strings.HasPrefix(name, activityTask) {
			continue
		}
		var d extracted
		if err := decode(one.Data, &d); err != nil {
			return err
		}
		if one.State == Failed || one.State == TimedOut {
			add(&failed, d.Activity.ID, d.Fingerprint, one.Message)
		}
		add(&all, d.Activity.ID, d.Fingerprint, reason)
	}
	if len(all) == 0 { // it failed before it had tasks
		for _, id := range t.spec.Activities {
			add(&all, id, "", reason)
		}
	}
	if len(failed) > 0 {
		all = failed
	}
	for _, f := range all {
		if err := t.app.options.Catalog.PutFailure(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

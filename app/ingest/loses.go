package ingest

import (
	"context"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// jobLoses asks for confirmation before a job is deleted of which the depositor has not been told how it ended, and says what will not be told.
// Nobody deletes a job while the report about it is being written: the report would tell what is no longer so.
func (a *App) jobLoses(ctx context.Context, j *job.Job, act *operator.Act) (job.Require, error) {
	if j.Parent == "" {
		return job.Require{}, nil
	}
	b, err := a.engine.Store().Get(ctx, j.Parent)
	switch {
	case job.KindOf(err) == job.NotFound:
		return job.Require{}, nil
	case err != nil:
		return job.Require{}, err
	case b.State == record.Reporting || b.State == record.UpdateReporting:
		return job.Require{}, job.Errorf(job.Refused, "delete", j.ID, "its batch %s is %s and the report is being written: try again in a moment", b.ID, b.State)
	case act.Confirm:
		return job.Require{ParentIn: []lifecycle.State{record.Pending, record.Held, record.Processing, record.Completed, record.Failed, record.Deleted}}, nil
	}
	var loses []string
	if !b.Ended {
		loses = append(loses, fmt.Sprintf("its batch %s is %s and its report will lack the job", b.ID, b.State))
	} else if b.State == record.Failed && j.Retries > 0 { // one that was never sent back is as the report says, and that need not be read
		r, err := a.standing(ctx, b.ID)
		if err != nil {
			return job.Require{}, err
		}
		loses = r.untold(j.ID)
	}
	return job.Require{ParentIn: []lifecycle.State{record.Completed, record.Failed, record.Deleted}}, confirm(j, loses)
}

// untold says what the depositor has not been told of one job of an ended batch.
func (r *standing) untold(id job.ID) []string {
	if r.now.Changes == nil || !r.changed || r.now.Changes.Missing {
		return nil
	}
	for _, one := range r.now.Changes.Succeeded {
		if one == id {
			return []string{"it succeeded since the last report of its batch " + string(r.now.Batch) + " and the depositor will not be told"}
		}
	}
	for _, one := range r.now.Changes.Newly {
		if one == id {
			return []string{"it failed for another reason than the last report of its batch " + string(r.now.Batch) + " says and the depositor will not be told"}
		}
	}
	return nil
}

// batchLoses asks for confirmation before a batch is deleted with something in it that is nowhere else: what was never looked at, jobs that could
// be retried, news and mails that the depositor does not have yet.
func (a *App) batchLoses(ctx context.Context, b *job.Job, act *operator.Act) error {
	if act.Confirm {
		return nil
	}
	r, err := a.standing(ctx, b.ID)
	if err != nil {
		return err
	}
	var loses []string
	if b.State == record.Held {
		loses = append(loses, "its payload was never looked at and goes with it")
	}
	if b.State == record.Failed {
		loses = append(loses, r.unreported()...)
	}
	messages, err := a.engine.Store().Outbox(ctx, job.OutboxCall{Job: b.ID})
	if err != nil {
		return err
	}
	waiting := 0
	for i := range messages {
		if m := &messages[i]; m.Topic == mailTopic && m.Settled == job.Pending {
			waiting++
		}
	}
	if waiting > 0 {
		loses = append(loses, plural(waiting, "mail to the depositor has", "mails to the depositor have")+" not left yet and may not be sent")
	}
	return confirm(b, loses)
}

// unreported says what a failed batch has that the depositor was not told of, and what goes with it.
func (r *standing) unreported() []string {
	var loses []string
	untold := func(n int, what string) {
		if n > 0 {
			loses = append(loses, fmt.Sprintf("%s %s since the last report and the depositor will not be told", plural(n, "job", "jobs"), what))
		}
	}
	if c := r.now.Changes; c != nil && c.Missing {
		loses = append(loses, "the last report is gone, so that nobody can say what the depositor was not told")
	} else if c != nil && r.changed {
		untold(len(c.Succeeded), "succeeded")
		untold(len(c.Newly), "failed for another reason")
		untold(len(c.Deleted), map[bool]string{true: "was deleted", false: "were deleted"}[len(c.Deleted) == 1])
	}
	if r.reports == 0 && len(r.now.Jobs) > 0 {
		loses = append(loses, fmt.Sprintf("no report was made of its %s and the depositor will not be told", plural(len(r.now.Jobs), "job", "jobs")))
	}
	if r.now.Failed > 0 {
		what := "files go; nothing of them can be retried"
		if r.now.Failed == 1 {
			loses = append(loses, "1 failed job and its "+strings.Replace(what, "of them", "of it", 1))
		} else {
			loses = append(loses, fmt.Sprintf("%d failed jobs and their %s", r.now.Failed, what))
		}
	}
	return loses
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// confirm is the refusal that names what is lost, or nil if nothing is.
func confirm(j *job.Job, loses []string) error {
	if len(loses) == 0 {
		return nil
	}
	return job.Errorf(job.Refused, "delete", j.ID, "%s: confirm to delete it all the same", strings.Join(loses, "; "))
}

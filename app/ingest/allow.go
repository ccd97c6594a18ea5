package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// allowBatch returns what a person's event requires of a batch beyond its lifecycle.
func (a *App) allowBatch(ctx context.Context, j *job.Job, act *operator.Act) (job.Require, error) {
	switch act.Event {
	case record.Release:
		return job.Require{Free: true}, nil
	case record.Update:
		return job.Require{Idle: true}, nil
	case record.Delete:
		return job.Require{Idle: true}, a.batchLoses(ctx, j, act)
	}
	return job.Require{}, nil
}

// allowJob returns what a person's event requires of a job beyond its lifecycle.
func (a *App) allowJob(ctx context.Context, j *job.Job, act *operator.Act) (job.Require, error) {
	switch act.Event {
	case record.Release:
		return job.Require{Free: true}, nil
	case record.Retry:
		if why, wrong := needsNew[j.Cause]; wrong {
			return job.Require{}, job.Errorf(job.Refused, "retry", j.ID,
				"%s (%s): hand it in again as a new submission", why, j.Message)
		}
		return job.Require{ParentIn: []lifecycle.State{record.Processing, record.Failed}}, nil
	case record.Delete:
		return a.jobLoses(ctx, j, act)
	}
	return job.Require{}, nil
}

// after decodes what an attempt found out, which is in the change if it set it.
func after[T any](j *job.Job, c *job.Change) (T, error) {
	var d T
	text := c.Set.Data
	if len(text) == 0 {
		text = j.Data
	}
	if len(text) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, job.Errorf(job.Internal, "decode", j.ID, "data: %w", err)
	}
	return d, nil
}

// owed is a postcondition that does not hold: the work of a state was reported as done, and is not.
func owed(j *job.Job, format string, args ...any) error {
	return fail(CauseStorage, "%s is not done: %w", j.State, fmt.Errorf(format, args...))
}

// jobOwes checks that a job leaves a phase with what the phase is for. A completed job has a version in the inventory
// and in every storage location.
func (a *App) jobOwes(ctx context.Context, j *job.Job, c *job.Change) error {
	d, err := after[record.JobData](j, c)
	if err != nil {
		return err
	}
	switch j.State {
	case record.Processing:
		if d.Identity == nil || d.Identity.ARK == "" {
			return owed(j, "the object has no identifier")
		}
	case record.Storing:
		if d.Identity == nil || d.Version == 0 || len(d.Places) == 0 {
			return owed(j, "no version was stored")
		}
	case record.Recording, record.Notify:
		by, err := a.recorded(ctx, j, &d)
		if err == nil && j.State == record.Notify {
			err = a.storedIn(ctx, j, &d, by)
		}
		return err
	}
	return nil
}

// recorded checks that the inventory has the version of a job, and gives the job that stored it: an earlier one if the
// object was stored already, as it is.
func (a *App) recorded(ctx context.Context, j *job.Job, d *record.JobData) (by string, err error) {
	if d.Same != nil {
		all, err := a.inventory.Objects(ctx, inventory.Query{ARK: d.Same.ARK})
		if err != nil {
			return "", err
		}
		for _, o := range all {
			for i := range o.Versions {
				if v := &o.Versions[i]; v.Number == d.Same.Version {
					d.Identity, d.Places = &d.Same.Identity, v.Places
					return v.Job, nil
				}
			}
		}
		return "", owed(j, "the inventory has no version %d of %s", d.Same.Version, d.Same.ARK)
	}
	if d.Identity == nil {
		return "", owed(j, "the object has no identifier")
	}
	ark, version, err := a.inventory.VersionOf(ctx, string(j.ID))
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		return "", owed(j, "the inventory has no version of this job")
	case err != nil:
		return "", err
	case d.Identity.ARK != ark || d.Version != version:
		return "", owed(j, "the inventory has version %d of %s, the job another", version, ark)
	}
	return string(j.ID), nil
}

// storedIn checks that every storage location of the record has the version, which a job stored.
func (a *App) storedIn(ctx context.Context, j *job.Job, d *record.JobData, by string) error {
	if len(d.Places) == 0 {
		return owed(j, "no storage location has the version")
	}
	for _, p := range d.Places {
		root, err := a.locations.Open(ctx, p.Dir, true)
		if err != nil {
			return placeError(p.Dir, err)
		}
		object, err := root.Object(d.Identity.ARK)
		if errors.Is(err, ocfl.ErrNotFound) {
			return owed(j, "storage location %s does not have %s", p.Dir, d.Identity.ARK)
		}
		if err != nil {
			return placeError(p.Dir, err)
		}
		if !slices.Contains(object.Versions(), p.Name) || object.Inventory().Versions[p.Name].Key() != by {
			return owed(j, "storage location %s does not have %s of %s", p.Dir, p.Name, d.Identity.ARK)
		}
	}
	return nil
}

// batchOwes checks that a batch leaves a state with what the state is for: a payload that was read, all its jobs, a
// report.
func (a *App) batchOwes(_ context.Context, j *job.Job, c *job.Change) error {
	d, err := after[record.BatchData](j, c)
	if err != nil {
		return err
	}
	switch n := j.Children; {
	case j.State == record.Pending && (d.Type == "" || d.Jobs == 0):
		return owed(j, "the payload was not read")
	case j.State == record.Pending:
	case !n.Settled():
		return owed(j, "%d of %d jobs have ended", n.Created()-n.Open, n.Expected)
	case j.State == record.Processing:
	case d.Reports == 0 || d.Reported == "":
		return owed(j, "no report was made")
	case n.Created() == 0:
		return owed(j, "no job was made")
	case n.Failed > 0:
		return owed(j, "%d jobs failed", n.Failed)
	}
	return nil
}

// jobLoses asks for confirmation before a job is deleted whose end was not reported to the depositor, and names what
// will not be reported. A job is not deleted while the report about it is being written: the report would be out of
// date.
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
		return job.Require{}, job.Errorf(job.Refused, "delete", j.ID,
			"its batch %s is %s: jobs are deleted after its report is written (stagepost why %s)", b.ID, b.State, b.ID)
	case act.Confirm:
		return job.Require{ParentIn: []lifecycle.State{record.Pending, record.Held, record.Processing, record.Completed,
			record.Failed, record.Deleted}}, nil
	}
	var loses []string
	if !b.Ended {
		loses = append(loses, fmt.Sprintf("its batch %s is %s and its report will lack the job", b.ID, b.State))
		// one that was never retried is as in the report, which need not be read
	} else if b.State == record.Failed && j.Retries > 0 {
		r, err := a.standing(ctx, b.ID)
		if err != nil {
			return job.Require{}, err
		}
		loses = r.unreported(j.ID)
	}
	return job.Require{ParentIn: []lifecycle.State{record.Completed, record.Failed, record.Deleted}}, confirm(j, loses)
}

// unreported names what was not reported to the depositor about one job of an ended batch.
func (r *standing) unreported(id job.ID) []string {
	if r.now.Changes == nil || !r.changed || r.now.Changes.Missing {
		return nil
	}
	for _, one := range r.now.Changes.Succeeded {
		if one == id {
			return []string{"it succeeded since the last report of its batch " + string(r.now.Batch) +
				", which will not be reported to the depositor"}
		}
	}
	for _, one := range r.now.Changes.Newly {
		if one == id {
			return []string{"it failed for another reason than in the last report of its batch " + string(r.now.Batch) +
				", which will not be reported to the depositor"}
		}
	}
	return nil
}

// batchLoses asks for confirmation before a batch is deleted with content that is nowhere else: a payload that was not
// read, jobs that could be retried, news and mails that the depositor does not have yet.
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
		loses = append(loses, "its payload was never read and is deleted with it")
	}
	if b.State == record.Failed {
		loses = append(loses, r.unreportedJobs()...)
	}
	messages, err := job.MessagesOf(ctx, a.engine.Store(), b.ID)
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
		loses = append(loses, plural(waiting, "mail to the depositor has",
			"mails to the depositor have")+" not left yet and may not be sent")
	}
	return confirm(b, loses)
}

// unreportedJobs names what a failed batch has that was not reported to the depositor, and what is deleted with it.
func (r *standing) unreportedJobs() []string {
	var loses []string
	note := func(n int, what string) {
		if n > 0 {
			loses = append(loses, fmt.Sprintf("%s %s since the last report, which will not be reported to the "+
				"depositor", plural(n, "job", "jobs"), what))
		}
	}
	if c := r.now.Changes; c != nil && c.Missing {
		loses = append(loses, "the last report is missing: it is unknown what was not reported to the depositor")
	} else if c != nil && r.changed {
		note(len(c.Succeeded), "succeeded")
		note(len(c.Newly), "failed for another reason")
		note(len(c.Deleted), map[bool]string{true: "was deleted", false: "were deleted"}[len(c.Deleted) == 1])
	}
	if r.reports == 0 && len(r.now.Jobs) > 0 {
		loses = append(loses, fmt.Sprintf("no report was made of its %s, which will not be reported to the depositor",
			plural(len(r.now.Jobs), "job", "jobs")))
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

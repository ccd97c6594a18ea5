package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// course decides about the activities of a course, and starts one archive job for those that are to be archived.
func (p *pass) course(ctx context.Context, course string) error {
	p.Log().Info(string(MarkRunning), "course", course)
	if done, err := p.adopt(ctx, course); done || err != nil {
		return err
	}
	all, err := p.source.Activities(ctx, course)
	if err != nil {
		return err
	}
	decisions, err := p.decide(ctx, course, all)
	if err != nil {
		return err
	}
	id, err := p.start(ctx, course, decisions)
	if err != nil {
		return err
	}
	for _, d := range decisions {
		if starts(&d) {
			d.Job = id
		}
		p.note(d)
	}
	return nil
}

// starts reports whether the decision is to archive.
func starts(d *Decision) bool { return d.Mark == MarkArchive || d.Mark == MarkForce }

// owner is the owner of the jobs of the run.
func (p *pass) owner() string { return cmp.Or(p.order.Schedule.Owner, "schedule/"+p.order.Name) }

// adopt finds the job that an earlier attempt at this run started for a course, before it crashed.
func (p *pass) adopt(ctx context.Context, course string) (bool, error) {
	page, err := p.app.engine.Store().List(ctx, job.Query{
		Kinds: []job.Kind{archive.Kind}, Owner: p.owner(), Key: idOf(p.Job().ID, course), Limit: 1,
	})
	if err != nil || len(page.Jobs) == 0 {
		return false, err
	}
	var r archive.Request
	if err := json.Unmarshal(page.Jobs[0].Spec, &r); err != nil {
		return false, fmt.Errorf("%s: %w", page.Jobs[0].ID, err)
	}
	started(&p.record, page.Jobs[0].ID)
	for _, id := range r.Activities {
		p.note(Decision{
			Mark: MarkArchive, Course: course, Activity: id, Job: page.Jobs[0].ID,
			Reason: "an earlier attempt at this run decided it",
		})
	}
	return true, nil
}

// decide gives a decision about each activity of a course.
func (p *pass) decide(ctx context.Context, course string, all []source.Activity) ([]Decision, error) {
	decisions := make([]Decision, len(all))
	var now []catalog.Current
	var compared []int // indexes of the activities in now
	for i, a := range all {
		d := &decisions[i]
		*d = Decision{Mark: MarkIgnore, Course: course, Activity: a.ID, Module: a.Module, Name: a.Name}
		if d.Reason = p.source.Archivable(a); d.Reason != "" {
			continue
		}
		print, err := p.source.Fingerprint(ctx, a)
		if err != nil {
			if ctx.Err() != nil || cause.Temporary(err) && !p.Last() {
				return nil, err
			}
			d.Mark, d.Reason = MarkSkip, "its content cannot be compared: "+err.Error()
			continue
		}
		now, compared = append(now, catalog.Current{Activity: a.ID, Fingerprint: print}), append(compared, i)
	}
	s := &p.order.Schedule
	rows, err := p.app.options.Catalog.Overview(ctx, s.Source, course, now, s.backoff())
	if err != nil {
		return nil, err
	}
	busy, err := p.app.unfinished(ctx, s.Source, course)
	if err != nil {
		return nil, err
	}
	for k, i := range compared {
		unknown, err := p.app.options.Catalog.Attempts(ctx, s.Source, all[i].ID, "", s.backoff())
		if err != nil {
			return nil, err
		}
		decideOne(&decisions[i], s, rows[k], busy.job(all[i].ID), unknown, p.Now())
	}
	return decisions, nil
}

// decideOne decides about an activity that can be archived. busy is an unfinished job that archives it; unknown are the
// failures before its fingerprint was known.
func decideOne(
	d *Decision, s *Schedule, row catalog.Row, busy job.ID, unknown catalog.Attempts, now time.Time,
) {
	d.Mark, d.State = MarkSkip, string(row.State)
	attempts := row.Attempts
	if unknown.Next.After(attempts.Next) {
		attempts = unknown
	}
	switch {
	case busy != "":
		d.Reason = fmt.Sprintf("%s is not finished", busy)
		return
	case row.State == catalog.Expired:
		d.Reason = "its archive was deleted, and it did not change since"
		return
	case row.State == catalog.Archived && !s.ArchiveUnchanged:
		d.Reason = fmt.Sprintf("it did not change since it was archived by %s", row.Newest.Job)
		return
	case attempts.Failures > 0 && attempts.Last.After(row.Newest.Archived) && now.Before(attempts.Next):
		d.Reason = fmt.Sprintf("its archive failed (%s), last at %s (%s); the next attempt is not before %s",
			times(attempts.Failures), stamp(attempts.Last), attempts.Cause, stamp(attempts.Next))
		d.Wait = &api.ArchiveWait{
			Failures: attempts.Failures, Last: attempts.Last, Until: attempts.Next, Cause: attempts.Cause,
		}
		return
	}
	d.Mark = MarkArchive
	switch row.State {
	case catalog.Missing:
		d.Reason = "there is no archive of it"
	case catalog.Changed:
		d.Reason = fmt.Sprintf("it changed since it was archived by %s", row.Newest.Job)
	default:
		d.Mark = MarkForce
		d.Reason = fmt.Sprintf("the schedule archives what did not change since %s", row.Newest.Job)
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// start starts the archive job of a course. It gives no id if there is nothing to archive, or in a dry run.
func (p *pass) start(ctx context.Context, course string, decisions []Decision) (job.ID, error) {
	var ids []string
	for i := range decisions {
		if starts(&decisions[i]) {
			ids = append(ids, decisions[i].Activity)
		}
	}
	s := &p.order.Schedule
	if len(ids) == 0 || s.DryRun {
		return "", nil
	}
	slices.Sort(ids)
	j, err := p.app.options.Jobs.Submit(ctx, archive.Request{
		Source: s.Source, Course: course, Activities: ids, Preset: s.Preset, Trigger: archive.TriggerSchedule,
		Note: fmt.Sprintf("schedule %s, run %s", p.order.Name, p.Job().ID),
	}, archive.Ordered{
		Owner: p.owner(), Actor: "schedule/" + p.order.Name, Key: idOf(p.Job().ID, course), By: lifecycle.Engine,
	})
	if err != nil {
		return "", err
	}
	started(&p.record, j.ID)
	return j.ID, nil
}

// activeJobs are the unfinished jobs of a course.
type activeJobs struct {
	all job.ID            // archives every activity; empty: none does
	one map[string]job.ID // by activity
}

func (b *activeJobs) job(activity string) job.ID { return cmp.Or(b.one[activity], b.all) }

// unfinished gives the archive jobs of a course that have not ended.
func (a *App) unfinished(ctx context.Context, name, course string) (b activeJobs, err error) {
	b.one = map[string]job.ID{}
	q := job.Query{Kinds: []job.Kind{archive.Kind}, Tag: "course=" + course, Ended: new(bool), Limit: 1000}
	for {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return b, err
		}
		for i := range page.Jobs {
			var r archive.Request
			if err := json.Unmarshal(page.Jobs[i].Spec, &r); err != nil {
				return b, errors.Join(fmt.Errorf("job %s", page.Jobs[i].ID), err)
			}
			switch {
			case r.Source != name || r.Course != course:
				continue
			case len(r.Activities) == 0:
				b.all = page.Jobs[i].ID
			}
			for _, id := range r.Activities {
				b.one[id] = page.Jobs[i].ID
			}
		}
		if q.After = page.Next; q.After == "" {
			return b, nil
		}
	}
}

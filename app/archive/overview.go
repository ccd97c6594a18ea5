package archive

import (
	"context"
	"errors"
	"sync"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/custody"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// excluded is the state of an activity that cannot be archived.
const excluded = "excluded"

// Overview compares the activities of a course with the newest complete archive of each, by their fingerprints. It only
// reads the source.
func (a *App) Overview(ctx context.Context, name, course string) (api.ArchiveOverview, error) {
	r := Request{Source: name, Course: course, Trigger: TriggerManual}
	if err := a.check(&r); err != nil {
		return api.ArchiveOverview{}, err
	}
	src, err := a.options.Sources.Source(name)
	if err != nil {
		return api.ArchiveOverview{}, err
	}
	c, err := courseOf(ctx, src, name, course, "")
	if err != nil {
		return api.ArchiveOverview{}, sourced("overview", err)
	}
	all, err := src.Activities(ctx, course)
	if err != nil {
		return api.ArchiveOverview{}, sourced("overview", err)
	}
	compared, err := a.compare(ctx, src, name, course, all)
	if err != nil {
		return api.ArchiveOverview{}, err
	}
	o := api.ArchiveOverview{Source: name, Course: viewCourse(c), Counts: map[string]int{}, Activities: compared}
	for _, one := range compared {
		o.Counts[one.State]++
	}
	return o, nil
}

// compare gives the state of each activity of a course, and the archived ones that the course has no more.
func (a *App) compare(
	ctx context.Context, src source.Source, name, course string, all []source.Activity,
) ([]api.ArchiveActivity, error) {
	now, err := a.fingerprints(ctx, src, all)
	if err != nil {
		return nil, sourced("overview", err)
	}
	rows, err := a.options.Catalog.Overview(ctx, name, course, now, catalog.Backoff{})
	if err != nil {
		return nil, err
	}
	views := make([]api.ArchiveActivity, 0, len(rows))
	for i, r := range rows {
		v := custody.ViewArchived(&r.Newest)
		v.State, v.Failures, v.Cause = string(r.State), r.Attempts.Failures, r.Attempts.Cause
		if i < len(all) { // as the source has it now
			one := all[i]
			v.ID, v.Module, v.Name, v.Section, v.URL = one.ID, one.Module, one.Name, one.Section, one.URL
			if v.Reason = src.Archivable(one); v.Reason != "" {
				v.State = excluded
			}
		}
		views = append(views, v)
	}
	return views, nil
}

// fingerprints reads the fingerprints of activities, several at once. One that cannot be archived has none.
func (a *App) fingerprints(
	ctx context.Context, src source.Source, all []source.Activity,
) ([]catalog.Current, error) {
	now, errs := make([]catalog.Current, len(all)), make([]error, len(all))
	slots := make(chan struct{}, a.options.Tasks)
	var wait sync.WaitGroup
	for i, one := range all {
		now[i].Activity = one.ID
		if src.Archivable(one) != "" {
			continue
		}
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				now[i].Fingerprint, errs[i] = src.Fingerprint(ctx, one)
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return now, errors.Join(errs...)
}

func viewCourse(c source.Course) api.ArchiveCourse {
	return api.ArchiveCourse{ID: c.ID, Name: c.Name, ShortName: c.ShortName, Category: c.Category, URL: c.URL}
}

// sourced gives an error of a source the kind by which callers act: a person can change what a source refuses.
func sourced(op string, err error) error {
	var e *source.Error
	var known *job.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known) && !errors.As(err, &e):
		return err
	case cause.Temporary(err):
		return job.Errorf(job.Unavailable, op, "", "%w", err)
	}
	return job.Errorf(job.Refused, op, "", "%w", err)
}

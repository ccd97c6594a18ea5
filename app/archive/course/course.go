// Package course reads what there is to archive in a course, and compares it with what is archived. It changes nothing.
package course

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/custody"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// Excluded is the state of an activity that cannot be archived.
const Excluded = "excluded"

// Reader reads courses.
type Reader struct {
	Catalog *catalog.Catalog
	Slots   int // fingerprints that are read at once
}

// Choose selects the activities that a request archives, and those that it leaves out. id is that of the job; empty:
// there is none yet. Errors: NotFound for an activity that the course does not have, Refused if none can be archived.
func Choose(
	src source.Source, r *api.ArchiveRequest, s *api.ArchiveSettings, all []source.Activity, id job.ID,
) (chosen []source.Activity, skipped []packaging.Excluded, err error) {
	missing := map[string]bool{}
	for _, id := range r.Activities {
		missing[id] = true
	}
	for _, a := range all {
		asked := missing[a.ID]
		if len(r.Activities) > 0 && !asked {
			continue
		}
		delete(missing, a.ID)
		reason := src.Archivable(a)
		switch {
		case reason == "":
			chosen = append(chosen, a)
		case asked && !*s.ActivityOptional:
			return nil, nil, job.Errorf(job.Refused, "archive", id, "activity %s (%s) cannot be archived: %s",
				a.ID, a.Name, reason)
		default:
			skipped = append(skipped, packaging.Excluded{Activity: a, Reason: reason})
		}
	}
	if len(missing) > 0 {
		return nil, nil, job.Errorf(job.NotFound, "archive", id, "course %s has no activity %s", r.Course,
			slices.Sorted(maps.Keys(missing))[0])
	}
	if len(chosen) == 0 {
		return nil, nil, job.Errorf(job.Refused, "archive", id, "course %s has no activity that can be archived",
			r.Course)
	}
	return chosen, skipped, nil
}

// Of reads a course of the source that is configured as name. A course that the source does not give is NotFound. id is
// that of the job; empty: there is none.
func Of(ctx context.Context, src source.Source, name, course string, id job.ID) (source.Course, error) {
	courses, err := src.Courses(ctx, []string{course})
	if err != nil {
		return source.Course{}, err
	}
	if len(courses) != 1 {
		return source.Course{}, job.Errorf(job.NotFound, "archive", id,
			"source %s has no course %s that may be archived", name, course)
	}
	return courses[0], nil
}

// Compare gives the state of each activity of a course, and the archived ones that the course has no more.
func (r Reader) Compare(
	ctx context.Context, src source.Source, name, course string, all []source.Activity,
) ([]api.ArchiveActivity, error) {
	now, err := r.fingerprints(ctx, src, all)
	if err != nil {
		return nil, Sourced("overview", err)
	}
	rows, err := r.Catalog.Overview(ctx, name, course, now, catalog.Backoff{})
	if err != nil {
		return nil, err
	}
	views := make([]api.ArchiveActivity, 0, len(rows))
	for i, row := range rows {
		v := custody.ViewArchived(&row.Newest)
		v.State, v.Failures, v.Cause = string(row.State), row.Attempts.Failures, row.Attempts.Cause
		if i < len(all) { // as the source has it now
			one := all[i]
			v.ID, v.Module, v.Name, v.Section, v.URL = one.ID, one.Module, one.Name, one.Section, one.URL
			if v.Reason = src.Archivable(one); v.Reason != "" {
				v.State = Excluded
			}
		}
		views = append(views, v)
	}
	return views, nil
}

// fingerprints reads the fingerprints of activities, several at once. One that cannot be archived has none.
func (r Reader) fingerprints(
	ctx context.Context, src source.Source, all []source.Activity,
) ([]catalog.Current, error) {
	now, errs := make([]catalog.Current, len(all)), make([]error, len(all))
	slots := make(chan struct{}, r.Slots)
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

// View gives a course as the API has it.
func View(c source.Course) api.ArchiveCourse {
	return api.ArchiveCourse{ID: c.ID, Name: c.Name, ShortName: c.ShortName, Category: c.Category, URL: c.URL}
}

// Sourced gives an error of a source the kind by which callers act: a person can change what a source refuses.
func Sourced(op string, err error) error {
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

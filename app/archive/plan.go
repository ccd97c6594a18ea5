package archive

import (
	"cmp"
	"context"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/course"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/job"
)

// Plan states what a request would archive, and where. It reads the source, and neither starts nor stores anything. A
// request that [App.Submit] refuses is refused with the same error.
func (a *App) Plan(ctx context.Context, r Request) (api.ArchivePlan, error) {
	r.Preset, r.Trigger = cmp.Or(r.Preset, "default"), cmp.Or(r.Trigger, TriggerManual)
	if err := a.check(&r); err != nil {
		return api.ArchivePlan{}, err
	}
	s, err := a.settings(&r)
	if err != nil {
		return api.ArchivePlan{}, err
	}
	if _, err := a.policy(&s); err != nil {
		return api.ArchivePlan{}, err
	}
	src, err := a.options.Sources.Source(r.Source)
	if err != nil {
		return api.ArchivePlan{}, err
	}
	p, err := a.plan(ctx, src, &r, &s)
	return p, course.Sourced("plan", err)
}

func (a *App) plan(ctx context.Context, src source.Source, r *Request, s *Settings) (p api.ArchivePlan, err error) {
	facts, err := src.Check(ctx)
	if err != nil {
		return p, err
	}
	c, err := course.Of(ctx, src, r.Source, r.Course, "")
	if err != nil {
		return p, err
	}
	all, err := src.Activities(ctx, r.Course)
	if err != nil {
		return p, err
	}
	chosen, skipped, err := course.Choose(src, r, s, all, "")
	if err != nil {
		return p, err
	}
	now := time.Now()
	p = api.ArchivePlan{
		Source:   api.ArchiveSource{Name: r.Source, Kind: facts.Kind, Title: facts.Name, URL: facts.URL},
		Course:   course.View(c),
		Settings: *s, RetainTo: settings.Retain(s, now), Warnings: facts.Warnings,
	}
	p.Source.Version = facts.Version
	if p.Package, err = settings.PackageName(s, c, chosen, now); err != nil {
		return p, err
	}
	if err := a.planActivities(ctx, src, r, s, chosen, &p); err != nil {
		return p, err
	}
	for _, one := range skipped {
		p.Skipped = append(p.Skipped, api.ArchiveActivity{
			ID: one.ID, Module: one.Module, Name: one.Name, Section: one.Section, URL: one.URL, State: course.Excluded,
			Reason: one.Reason,
		})
	}
	if p.Locations, err = a.planLocations(ctx, s); err != nil {
		return p, err
	}
	return p, a.planBackups(ctx, src, s, &p)
}

// planActivities adds the activities with the number of their items, and with the sizes of their newest archives.
func (a *App) planActivities(
	ctx context.Context, src source.Source, r *Request, s *Settings, chosen []source.Activity, p *api.ArchivePlan,
) error {
	compared, err := a.reader().Compare(ctx, src, r.Source, r.Course, chosen)
	if err != nil {
		return err
	}
	for i, one := range chosen {
		plan, err := src.Plan(ctx, one, s.Content)
		if err != nil {
			return err
		}
		v := compared[i] // those after them are no activities of this request
		v.Items, v.Warnings = len(plan.Items), plan.Warnings
		if p.Items += v.Items; v.State == string(catalog.Missing) {
			p.Unknown++
		}
		p.Bytes += v.Bytes
		p.Activities = append(p.Activities, v)
	}
	return nil
}

// planBackups warns of backups that cannot be made. The job is then refused.
func (a *App) planBackups(ctx context.Context, src source.Source, s *Settings, p *api.ArchivePlan) error {
	if !*s.CourseBackup && !*s.ActivityBackups {
		return nil
	}
	b := source.BackupsOf(src)
	if b == nil {
		return job.Errorf(job.Refused, "plan", "", "source %s makes no backups: "+
			"set course_backup and activity_backups to false", p.Source.Name)
	}
	reason, err := b.CanBackup(ctx)
	if err == nil && reason != "" {
		err = job.Errorf(job.Refused, "plan", "", "source %s cannot make backups: %s", p.Source.Name, reason)
	}
	return err
}

// planLocations describes where the settings store an archive, and why a location cannot be used now.
func (a *App) planLocations(ctx context.Context, s *Settings) ([]api.ArchiveLocation, error) {
	var all []api.ArchiveLocation
	for _, l := range a.locations(s) {
		v := api.ArchiveLocation{Name: l.Name, Kind: l.Kind, Address: l.Address, Tier: l.Tier}
		if err := a.options.Copies.Reachable(ctx, l.Name); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			v.Reason = err.Error()
		}
		all = append(all, v)
	}
	return all, nil
}

// Available lists the sources and the storage locations of the configuration.
func (a *App) Available(ctx context.Context) (api.ArchiveSources, error) {
	all, err := a.planLocations(ctx, &Settings{})
	v := api.ArchiveSources{Sources: []api.ArchiveSource{}, Locations: all}
	for _, name := range a.options.Sources.Names() {
		v.Sources = append(v.Sources, api.ArchiveSource{Name: name})
	}
	return v, err
}

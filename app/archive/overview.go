package archive

import (
	"context"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/course"
)

// Overview compares the activities of a course with the newest complete archive of each, by their fingerprints. It only
// reads the source.
func (a *App) Overview(ctx context.Context, name, id string) (api.ArchiveOverview, error) {
	r := Request{Source: name, Course: id, Trigger: TriggerManual}
	if err := a.check(&r); err != nil {
		return api.ArchiveOverview{}, err
	}
	src, err := a.options.Sources.Source(name)
	if err != nil {
		return api.ArchiveOverview{}, err
	}
	c, err := course.Of(ctx, src, name, id, "")
	if err != nil {
		return api.ArchiveOverview{}, course.Sourced("overview", err)
	}
	all, err := src.Activities(ctx, id)
	if err != nil {
		return api.ArchiveOverview{}, course.Sourced("overview", err)
	}
	compared, err := a.reader().Compare(ctx, src, name, id, all)
	if err != nil {
		return api.ArchiveOverview{}, err
	}
	o := api.ArchiveOverview{Source: name, Course: course.View(c), Counts: map[string]int{}, Activities: compared}
	for _, one := range compared {
		o.Counts[one.State]++
	}
	return o, nil
}

// reader reads courses.
func (a *App) reader() course.Reader {
	return course.Reader{Catalog: a.options.Catalog, Slots: a.options.Tasks}
}

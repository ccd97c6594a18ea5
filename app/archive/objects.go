package archive

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// objectTask is the prefix of the names of tasks that store a version of an object: object/ROOT/ACTIVITY.
const objectTask = "object/"

// versionName is the directory of the metadata of a version in the working directory.
const versionName = "version"

// storeVersions stores each activity as a version of its object in every OCFL storage root. A version is made once for
// each job, whatever crashes.
func (t *task) storeVersions(ctx context.Context) error {
	if t.data.Settings.Package != settings.PackageOCFL {
		return nil
	}
	var units []unit
	var names []string
	for _, root := range sortedKeys(t.app.options.Objects()) {
		for _, a := range t.data.Activities {
			name := objectTask + root + "/" + a.ID
			units, names = append(units, unit{name: name}), append(names, name)
		}
	}
	if err := t.planTasks(ctx, units); err != nil {
		return err
	}
	if err := t.Save(ctx); err != nil {
		return err
	}
	if done, err := t.finished(ctx, names); done || err != nil {
		return err // their files are not needed
	}
	found, err := t.gather(ctx)
	if err != nil {
		return notAgain(err)
	}
	facts, stage := t.facts(found), t.Fence() // the record of the job changes while the tasks run
	return t.runTasks(ctx, names, t.app.options.Tasks, func(ctx context.Context, p *part) error {
		return t.storeVersion(ctx, facts, stage, found, p)
	})
}

// finished reports whether all tasks are Finished.
func (t *task) finished(ctx context.Context, names []string) (bool, error) {
	have, err := t.tasks(ctx)
	return !slices.ContainsFunc(names, func(name string) bool { return have[name].State != Finished }), err
}

// notAgain makes an error of files that are damaged or lost a permanent one: they are fetched in PostProcessing only.
func notAgain(err error) error {
	var d damaged
	if errors.As(err, &d) {
		return lost{fmt.Errorf("%w, and it was packaged before: archive the course again", err)}
	}
	return err
}

// storeVersion stores one activity in one storage root, and enters the version in the catalog for fixity checks.
func (t *task) storeVersion(
	ctx context.Context, facts packaging.Facts, stage string, g *gathered, p *part,
) (err error) {
	root, activity, _ := strings.Cut(strings.TrimPrefix(p.record.Name, objectTask), "/")
	objects := t.app.options.Objects()[root]
	if objects == nil { // the configuration changed since the task was planned
		return job.Errorf(job.Unavailable, "archive", t.Job().ID, "the OCFL storage root %s is no longer configured: "+
			"add it to objects in archive.yaml", root)
	}
	from, err := t.dir.OpenRoot(workdir.ContentName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	name := path.Join(versionName, root, source.SafeName(activity))
	if err := t.dir.MkdirAll(name, 0o750); err != nil {
		return err
	}
	into, err := t.dir.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	if err := t.app.options.Catalog.PlanVersion(ctx, copies.RootPrefix+root,
		packaging.ObjectID(facts.Source, activity), string(t.Job().ID)); err != nil {
		return err
	}
	v, err := packaging.StoreVersion(ctx, packaging.VersionInput{
		Facts: facts, Activity: activity, Files: g.files, Gathered: from, Into: into,
		Root: objects, Stage: stage + "-" + source.SafeName(activity),
	})
	switch {
	case errors.Is(err, packaging.ErrChanged):
		return lost{fmt.Errorf("the working directory changed after it was packaged: archive the course again: %w",
			err)}
	case err != nil:
		return err
	}
	row, err := audit.Stored(objects, root, v.Object, v.Version, string(t.Job().ID), t.Now())
	if err != nil {
		return err
	}
	row.Bytes = v.Bytes
	if err := t.app.options.Catalog.PutVersion(ctx, row); err != nil {
		return err
	}
	p.keep(ctx, v)
	return nil
}

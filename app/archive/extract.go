package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/course"
	"github.com/stagepost/stagepost/app/archive/printing"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
)

// Prefixes of the names of tasks.
const (
	activityTask = "activity/"
	courseTask   = "course"
)

// Units of the working directory.
const (
	courseUnit   = "course"
	activityUnit = "activities/"
)

// maxDrifts is how often an activity that changed while it was archived is archived again.
const maxDrifts = 2

// extracted is the data of an archiving task.
type extracted struct {
	Activity    source.Activity `json:"activity"`
	Fingerprint string          `json:"fingerprint,omitempty"` // before the first fetch
	Drifts      int             `json:"drifts,omitempty"`      // times that it changed meanwhile
	Drift       bool            `json:"drift,omitempty"`       // it was archived although it changed
	Items       int             `json:"items,omitempty"`
	Fetched     int             `json:"fetched,omitempty"` // files when all items were complete; zero: they are not
	Waits       int             `json:"waits,omitempty"`   // times that PDF files were missing
	Warnings    []string        `json:"warnings,omitempty"`
}

// prepare is the step of PreProcessing: it reads what there is to archive and plans a task for each activity.
func (t *task) prepare(ctx context.Context) error {
	src, err := t.app.options.Sources.Source(t.spec.Source)
	if err != nil {
		return err
	}
	if t.data.Facts, err = src.Check(ctx); err != nil {
		return err
	}
	if t.data.Course, err = course.Of(ctx, src, t.spec.Source, t.spec.Course, t.Job().ID); err != nil {
		return err
	}
	t.SetWords(t.data.Course.Name)
	activities, err := src.Activities(ctx, t.spec.Course)
	if err != nil {
		return err
	}
	t.data.Activities, t.data.Skipped, err = course.Choose(src, &t.spec, &t.data.Settings, activities, t.Job().ID)
	if err != nil {
		return err
	}
	t.data.Warnings = t.data.Facts.Warnings
	t.data.Organization = t.app.options.Organization()
	units := []unit{{name: courseTask}}
	for _, a := range t.data.Activities {
		units = append(units, unit{activityTask + a.ID, extracted{Activity: a}})
	}
	made, err := t.backupUnits(ctx, src)
	if err != nil {
		return err
	}
	if err := t.enter(ctx); err != nil {
		return err
	}
	return t.planTasks(ctx, append(units, made...))
}

// extract is the step of ActivityArchiving: it runs the archiving tasks, and starts the backups, which are fetched in
// the next phase.
func (t *task) extract(ctx context.Context) error {
	src, err := t.app.options.Sources.Source(t.spec.Source)
	if err != nil {
		return err
	}
	names := []string{courseTask}
	for _, a := range t.data.Activities {
		names = append(names, activityTask+a.ID)
	}
	started, err := t.backupsToStart(ctx)
	if err != nil {
		return err
	}
	names = append(names, started...)
	err = t.runTasks(ctx, names, t.app.options.Tasks, func(ctx context.Context, p *part) error {
		switch {
		case p.record.Name == courseTask:
			return t.describe(ctx, src)
		case strings.HasPrefix(p.record.Name, backupTask):
			return t.startBackup(ctx, src, p)
		}
		return t.archive(ctx, src, p)
	})
	var w waiting
	if err != nil && !(errors.As(err, &w) && w.later) {
		return err
	}
	return t.passed()
}

// backupsToStart names the backup tasks that the source has not accepted yet.
func (t *task) backupsToStart(ctx context.Context) ([]string, error) {
	have, err := t.tasks(ctx)
	accepted := func(name string) bool { return have[name].State == Awaiting }
	return slices.DeleteFunc(t.backupNames(), accepted), err
}

// describe fetches what is known of the course.
func (t *task) describe(ctx context.Context, src source.Source) (err error) {
	u, err := t.dir.Unit(courseUnit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	if err := u.Check(ctx); err != nil {
		return err
	}
	if u.Done(courseTask) {
		return nil
	}
	people, err := src.Describe(ctx, t.spec.Course, t.data.Settings.Content, u.Item(courseTask, nil))
	if err != nil {
		return err
	}
	if err := u.SetPeople(people); err != nil {
		return err
	}
	return u.Finish(courseTask)
}

// errChanged reports that an activity changed while it was archived.
type errChanged struct{ name string }

func (e errChanged) Error() string   { return fmt.Sprintf("%s changed while it was archived", e.name) }
func (e errChanged) Cause() string   { return "changed" }
func (e errChanged) Temporary() bool { return true }

// archive fetches an activity. A repetition fetches only the items that are not complete, unless the activity changed.
func (t *task) archive(ctx context.Context, src source.Source, p *part) (err error) {
	var d extracted
	if err := decode(p.record.Data, &d); err != nil {
		return err
	}
	a := d.Activity
	u, err := t.dir.Unit(unitOf(a))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	if d.Fetched > 0 {
		if complete(u) == d.Fetched {
			return t.printAll(ctx, p, u, &d)
		}
		d.Fetched = 0 // the working directory is another one
		if err := p.save(ctx, d); err != nil {
			return err
		}
	}
	before, err := src.Fingerprint(ctx, a)
	if err != nil {
		return err
	}
	if d.Fingerprint != before {
		if err := u.Reset(); err != nil {
			return err
		}
		d.Fingerprint = before
		p.keep(ctx, d)
	} else if err := u.Check(ctx); err != nil {
		return err
	}
	if err := t.fetch(ctx, src, p, u, &d); err != nil {
		return err
	}
	after, err := src.Fingerprint(ctx, a)
	if err != nil {
		return err
	}
	if after != before {
		if d.Drifts++; d.Drifts <= maxDrifts {
			p.keep(ctx, d)
			return errChanged{a.Name}
		}
		d.Drift = true
		d.Warnings = append(d.Warnings, errChanged{a.Name}.Error())
	}
	if t.prints() {
		d.Fetched = complete(u)
		if err := errors.Join(u.Sync(), p.save(ctx, d)); err != nil {
			return err
		}
		return t.printAll(ctx, p, u, &d)
	}
	p.keep(ctx, d)
	return nil
}

// complete counts the files of complete items. Those of PDF files do not count.
func complete(u *workdir.Unit) (n int) {
	for _, f := range u.Files() {
		if !printing.IsPDF(f.Item) && u.Done(f.Item) {
			n++
		}
	}
	return n
}

// printAll adds the PDF files of an activity.
func (t *task) printAll(ctx context.Context, p *part, u *workdir.Unit, d *extracted) error {
	warnings, err := t.print(ctx, u, unitOf(d.Activity), d.Waits)
	var w waiting
	if errors.As(err, &w) {
		d.Waits++
		p.keep(ctx, d)
	}
	if err != nil {
		return err
	}
	for _, one := range warnings {
		if !slices.Contains(d.Warnings, one) {
			d.Warnings = append(d.Warnings, one)
		}
	}
	p.keep(ctx, d)
	return nil
}

// fetch fetches the items of an activity that are not complete.
func (t *task) fetch(ctx context.Context, src source.Source, p *part, u *workdir.Unit, d *extracted) error {
	settings := t.data.Settings.Content
	plan, err := src.Plan(ctx, d.Activity, settings)
	if err != nil {
		return err
	}
	planned := map[string]bool{}
	for _, item := range plan.Items {
		planned[item.Key] = true
	}
	if len(planned) != len(plan.Items) {
		return fmt.Errorf("the source plans two items of activity %s under one key", d.Activity.ID)
	}
	if err := u.Prune(func(item string) bool { return planned[item] || printing.IsPDF(item) }); err != nil {
		return err
	}
	if err := u.SetPeople(plan.People); err != nil {
		return err
	}
	d.Items, d.Warnings = len(plan.Items), plan.Warnings
	total := int64(len(plan.Items))
	for i, item := range plan.Items {
		if !u.Done(item.Key) {
			if err := src.Fetch(ctx, d.Activity, item, settings, u.Item(item.Key, nil)); err != nil {
				return err
			}
			if err := u.Finish(item.Key); err != nil {
				return err
			}
		}
		p.progress(ctx, int64(i)+1, total)
	}
	return nil
}

// unitOf names the unit of an activity.
func unitOf(a source.Activity) string { return activityUnit + source.SafeName(a.Module+"-"+a.ID) }

// started sets the deadline when a job begins: the time in the queue does not count.
func (t *task) started(context.Context) error {
	t.data.Started = t.Now().UTC().Truncate(time.Microsecond)
	if d := settings.Deadline(&t.data.Settings); d > 0 {
		t.SetDeadline(t.Now().Add(d))
	}
	return t.SetData(t.data)
}

// initialize is the step of Uninitialized: it fixes the settings.
func (t *task) initialize(context.Context) error {
	s, err := t.app.settings(&t.spec)
	if err != nil {
		return err
	}
	t.data.Settings = s
	return t.SetData(t.data)
}

// sortedKeys lists the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

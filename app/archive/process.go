package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/printing"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// packageName is the directory of the package in the working directory.
const packageName = "package"

// enter enters the archive into the catalog when its job begins.
func (t *task) enter(ctx context.Context) error {
	j := t.Job()
	return t.app.options.Catalog.Begin(ctx, catalog.Archive{
		Job: string(j.ID), Source: t.spec.Source, Course: t.data.Course.ID, CourseName: t.data.Course.Name,
		Category: t.data.Course.Category, Owner: j.Owner, Origin: t.spec.Trigger, Settings: encode(t.data.Settings),
		Created: j.Created,
	})
}

// process is the step of PostProcessing: it checks every file, makes the package with its checksums, and enters both
// into the catalog.
func (t *task) process(ctx context.Context) error {
	if t.data.Failures[PostProcessing] > 0 { // a file may have been damaged: fetch it again
		if err := t.refetch(ctx); err != nil {
			return err
		}
	}
	if t.data.Packaged.IsZero() { // all attempts make the same bytes
		t.data.Packaged = t.Now().UTC().Truncate(time.Second)
		if err := errors.Join(t.SetData(t.data), t.Save(ctx)); err != nil {
			return err
		}
	}
	found, err := t.gather(ctx)
	if err != nil {
		return err
	}
	p, err := t.pack(ctx, found)
	if err != nil {
		return err
	}
	t.data.Package = p
	t.SetBytes(p.Bytes)
	if err := t.index(ctx, found, p); err != nil {
		return err
	}
	return t.passed()
}

// gathered is what the phases before have gathered.
type gathered struct {
	activities []packaging.Activity
	files      []packaging.File
	people     map[string][]source.Person // by activity; the course's under the empty id
	tasks      map[string]extracted       // by activity
	warnings   []string                   // of backups
}

// gather reads the ledgers of the working directory. It fails unless every archiving task is Finished (defect B5 of the
// original: a partial archive passed as a whole one), and unless the directory has what the tasks fetched: it can be
// older than their records after a power cut or a restore, and then the next attempt fetches what it lacks.
func (t *task) gather(ctx context.Context) (*gathered, error) {
	tasks, err := t.tasks(ctx)
	if err != nil {
		return nil, err
	}
	g := &gathered{people: map[string][]source.Person{}, tasks: map[string]extracted{}}
	err = g.unit(t.dir, courseUnit, "", packaging.Metadata, func(u *workdir.Unit) bool { return u.Done(courseTask) })
	if err != nil {
		return nil, err
	}
	for _, a := range t.data.Activities {
		one := tasks[activityTask+a.ID]
		if one.State != Finished {
			return nil, job.Errorf(job.Internal, "archive", t.Job().ID, "the task %s is %s, not Finished",
				activityTask+a.ID, one.State)
		}
		var d extracted
		if err := decode(one.Data, &d); err != nil {
			return nil, err
		}
		g.tasks[a.ID] = d
		g.activities = append(g.activities, packaging.Activity{
			Activity: a, Fingerprint: d.Fingerprint, Drift: d.Drift, Warnings: d.Warnings,
		})
		err := g.unit(t.dir, unitOf(a), a.ID, packaging.Payload, func(u *workdir.Unit) bool {
			return len(slices.DeleteFunc(u.Items(), printing.IsPDF)) == d.Items
		})
		if err != nil {
			return nil, err
		}
	}
	if names := t.backupNames(); len(names) > 0 {
		err = g.unit(t.dir, backupUnit, "", packaging.Backup, func(u *workdir.Unit) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return len(filesOf(u, name)) == 0 })
		})
	}
	for _, name := range t.backupNames() {
		var d requested
		if err := decode(tasks[name].Data, &d); err != nil {
			return nil, err
		}
		for _, w := range d.Warnings {
			g.warnings = append(g.warnings, name+": "+w)
		}
	}
	return g, err
}

// filesOf lists the files of an item.
func filesOf(u *workdir.Unit, item string) []workdir.File {
	return slices.DeleteFunc(u.Files(), func(f workdir.File) bool { return f.Item != item })
}

// unit adds the files and people of a unit, if it is whole.
func (g *gathered) unit(
	d *workdir.Dir, name, activity string, role packaging.Role, whole func(*workdir.Unit) bool,
) error {
	u, err := d.Unit(name)
	if err != nil {
		return err
	}
	if !whole(u) {
		err := damaged{fmt.Errorf("the working directory lacks files of %s", name)}
		return errors.Join(err, u.Close())
	}
	for _, f := range u.Files() {
		one := packaging.File{
			Path: f.Name, Name: strings.TrimPrefix(f.Name, name+"/"), Size: f.Size,
			Original: cmp.Or(f.Origin.Name, f.Asked), SHA256: f.SHA256, SHA512: f.SHA512,
			Origin: f.Origin, Activity: activity, Role: role,
		}
		if role == packaging.Metadata { // of the course: in the folder of its unit
			one.Name = ""
		}
		g.files = append(g.files, one)
	}
	people, err := u.People()
	g.people[activity] = append(g.people[activity], people...)
	return errors.Join(err, u.Close())
}

// persons gives all people, each once.
func (g *gathered) persons() (all []source.Person) {
	seen := map[string]bool{}
	for _, activity := range sortedKeys(g.people) {
		for _, p := range g.people[activity] {
			if !seen[p.ID] {
				seen[p.ID] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// pack makes the package.
func (t *task) pack(ctx context.Context, g *gathered) (_ *packaging.Package, err error) {
	name, err := settings.PackageName(&t.data.Settings, t.data.Course, t.data.Activities, t.data.Started)
	if err != nil {
		return nil, err
	}
	from, err := t.dir.OpenRoot(workdir.ContentName)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := t.dir.MkdirAll(packageName, 0o750); err != nil {
		return nil, err
	}
	into, err := t.dir.OpenRoot(packageName)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	p, err := packaging.Build(ctx, packaging.Input{
		Name: name, Facts: t.facts(g), Files: g.files, Gathered: from, Into: into,
		Containers: []packaging.Container{packaging.Container(t.data.Settings.Pack)},
		Progress:   func(done, total int64) { t.Progress(done, total, "bytes") },
	})
	switch {
	case errors.Is(err, packaging.ErrChanged):
		return nil, damaged{err}
	case errors.Is(err, packaging.ErrInput):
		return nil, job.Errorf(job.Invalid, "archive", t.Job().ID, "%w", err)
	}
	return p, err
}

// damaged is a gathered file that is not what was fetched. The next attempt fetches it again.
type damaged struct{ error }

func (damaged) Cause() string   { return "damaged" }
func (damaged) Temporary() bool { return true }
func (d damaged) Unwrap() error { return d.error }

// facts gives what the metadata of the package state.
func (t *task) facts(g *gathered) packaging.Facts {
	j := t.Job()
	return packaging.Facts{
		Job: packaging.Job{
			ID: string(j.ID), Identifier: packaging.JobURN(string(j.ID)), Title: t.data.Course.Name,
			Owner:   j.Owner,
			Trigger: t.spec.Trigger, Organization: t.data.Organization, Requested: j.Created.UTC(),
			Started: t.data.Started, Packaged: t.data.Packaged, RetainUntil: t.retain(), Settings: t.data.Settings,
		},
		Source: t.data.Facts, Course: t.data.Course, Activities: g.activities, People: g.persons(),
		Locations: t.app.locations(&t.data.Settings),
		Software: packaging.Software{
			Name: "Stagepost", Version: t.app.options.Version, Go: runtime.Version(),
			URL: "https://github.com/stagepost/stagepost",
		},
		Events: t.happened(g), Excluded: t.data.Skipped, Warnings: g.warnings,
	}
}

// happened gives the events before packaging.
func (t *task) happened(g *gathered) []packaging.Event {
	var all []packaging.Event
	for _, a := range g.activities {
		outcome, note := "success", strings.Join(a.Warnings, "; ")
		if note != "" {
			outcome = "warning"
		}
		all = append(all, packaging.Event{
			Type: "capture", Time: t.data.Packaged, Detail: "fetched from " + t.data.Facts.Name, Outcome: outcome,
			Note: note, Activity: a.ID,
		})
	}
	return all
}

// retain gives the time until which the archive is kept; zero: indefinitely.
func (t *task) retain() time.Time { return settings.Retain(&t.data.Settings, t.data.Packaged) }

// index enters what the archive contains into the catalog.
func (t *task) index(ctx context.Context, g *gathered, p *packaging.Package) error {
	c, id := t.app.options.Catalog, string(t.Job().ID)
	for _, a := range g.activities {
		one := catalog.Activity{
			Job: id, Activity: a.ID, Module: a.Module, Name: a.Name, URL: a.URL, Section: a.Section,
			Fingerprint: a.Fingerprint, Items: int64(g.tasks[a.ID].Items), Drift: a.Drift, Archived: t.data.Packaged,
		}
		for _, f := range g.files {
			if f.Activity == a.ID {
				one.Bytes += f.Size
			}
		}
		if err := c.PutActivity(ctx, one); err != nil {
			return err
		}
	}
	if err := t.indexPeople(ctx, g); err != nil {
		return err
	}
	var all []catalog.Artifact
	for _, product := range append(slices.Clone(p.Products), p.Seal) {
		one := catalog.Artifact{
			Job: id, Path: product.Name, Size: product.Size, SHA256: product.SHA256, SHA512: product.SHA512,
			Role: catalog.Payload, Created: t.data.Packaged,
		}
		if product == p.Seal || path.Ext(product.Name) == ".sha256" {
			one.Role = catalog.Metadata
		}
		all = append(all, one)
	}
	return c.PutArtifacts(ctx, id, all)
}

// indexPeople enters whose data the archive contains, and where.
func (t *task) indexPeople(ctx context.Context, g *gathered) error {
	var people []catalog.Person
	var contents []catalog.Content
	for _, p := range g.persons() {
		people = append(people, catalog.Person{
			Source: t.spec.Source, ID: p.ID, Username: p.Username, Number: p.Number, Name: p.Name, Email: p.Email,
		})
	}
	for _, f := range g.files {
		if f.Origin.Person != "" {
			contents = append(contents, catalog.Content{
				Activity: f.Activity, Person: f.Origin.Person, Kind: "file", Path: f.Path,
			})
		}
	}
	for _, activity := range sortedKeys(g.people) {
		for _, p := range g.people[activity] {
			contents = append(contents, catalog.Content{Activity: activity, Person: p.ID, Kind: "participant"})
		}
	}
	return t.app.options.Catalog.PutPeople(ctx, string(t.Job().ID), people, contents)
}

// refetch fetches again what was damaged or lost after it had been fetched.
func (t *task) refetch(ctx context.Context) error {
	src, err := t.app.options.Sources.Source(t.spec.Source)
	if err != nil {
		return err
	}
	if err := t.describe(ctx, src); err != nil {
		return err
	}
	for _, a := range t.data.Activities {
		if err := t.refetchOne(ctx, src, a); err != nil {
			return err
		}
	}
	return t.refetchBackups(ctx, src)
}

func (t *task) refetchOne(ctx context.Context, src source.Source, a source.Activity) (err error) {
	u, err := t.dir.Unit(unitOf(a))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	if err := u.Check(ctx); err != nil {
		return err
	}
	plan, err := src.Plan(ctx, a, t.data.Settings.Content)
	if err != nil {
		return err
	}
	if err := u.SetPeople(plan.People); err != nil {
		return err
	}
	for _, item := range plan.Items {
		if u.Done(item.Key) {
			continue
		}
		if err := src.Fetch(ctx, a, item, t.data.Settings.Content, u.Item(item.Key, nil)); err != nil {
			return err
		}
		if err := u.Finish(item.Key); err != nil {
			return err
		}
	}
	if t.prints() {
		_, err = t.print(ctx, u, unitOf(a), maxWaits)
	}
	return err
}

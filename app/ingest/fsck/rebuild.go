package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/job"
)

// Rebuild defines how an inventory is rebuilt.
type Rebuild struct {
	Source          // of what the inventory is made; Installation and Records must be given
	Skip   []string // storage locations that are lost: what only they had is left out
	// storage locations that are given to this installation, also those of another one
	Adopt    []string
	Actor    string                             // who adopts
	Note     string                             // why
	Progress func(objects int, location string) // called after each object; defaults to none
}

// Rebuilt is what a new inventory has.
type Rebuilt struct {
	Locations []string `json:"locations"`
	Objects   int      `json:"objects"`
	Versions  int      `json:"versions"`
	Names     int      `json:"names"`          // jobs that have an identifier
	Lost      int      `json:"lost"`           // versions that a record names and no location has
	Faults    []string `json:"faults"`         // what could not be entered, or is damaged
	Kept      string   `json:"kept,omitempty"` // the file of the inventory that was there before
}

// RebuiltName is the name of the new inventory until it is whole.
const RebuiltName = "inventory-rebuilt.db"

// RebuildInventory makes the inventory of a data directory anew of what the storage locations have (OCFL, and the files
// that Stagepost added to each version) and of the records of jobs. No server may work on the directory. Every stored
// byte is read. The old inventory is kept under another name, and the new one replaces it when it is complete and on
// disk: after a crash at any time, the server refuses to start or has a whole inventory, and the call may be repeated.
func RebuildInventory(ctx context.Context, in Rebuild) (done Rebuilt, err error) {
	if err := in.complete(); err != nil {
		return done, err
	}
	if in.Postgres != "" {
		return done, job.Errorf(job.Refused, "rebuild", "", "the inventory is in PostgreSQL: restore the database "+
			"from a backup (pg_restore), or promote a replica")
	}
	done.Faults = []string{}
	old := openOld(ctx, &in.Source)
	fresh := filepath.Join(in.Dir, RebuiltName)
	if err := removeInventory(fresh); err != nil {
		return done, errors.Join(err, closeOld(old))
	}
	inv, err := inventory.OpenUnsynced(ctx, fresh, in.Installation)
	if err != nil {
		return done, errors.Join(err, closeOld(old))
	}
	r := &rebuilding{Rebuild: in, done: &done,
		checker: checker{records: in.Records, inventory: inv, profiles: in.Profiles, data: in.Dir}}
	err = r.run(ctx, old)
	if err == nil {
		err = inv.Continue(ctx, in.path())
	}
	err = errors.Join(err, r.close(), inv.Close(), closeOld(old))
	if err == nil {
		done.Kept, err = replaceInventory(&in.Source)
	}
	if err != nil {
		return done, errors.Join(err, removeInventory(fresh))
	}
	return done, nil
}

// openOld opens the inventory that is there as far as it can be read: it names storage locations.
func openOld(ctx context.Context, o *Source) *inventory.Inventory {
	if _, err := os.Stat(o.path()); err != nil {
		return nil
	}
	old, err := inventory.OpenOld(ctx, o.path())
	if err != nil || old.Installation() != o.Installation {
		_ = closeOld(old) // it is of no use
		return nil
	}
	return old
}

func closeOld(old *inventory.Inventory) error {
	if old == nil {
		return nil
	}
	return old.Close()
}

// removeInventory removes a file with what SQLite keeps beside it.
func removeInventory(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal", headfile.Path(path)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// replaceInventory replaces the old inventory, which it keeps with its log. Until the new one is there, the file beside
// it lets the server refuse to start.
func replaceInventory(o *Source) (kept string, err error) {
	path, fresh := o.path(), filepath.Join(o.Dir, RebuiltName)
	installation, sequence, _, err := headfile.Read(fresh)
	if err != nil {
		return "", err
	}
	if err := durable.Sync(fresh); err != nil {
		return "", err
	}
	// no file requires an inventory yet
	if _, err := os.Stat(headfile.Path(path)); errors.Is(err, fs.ErrNotExist) {
		if err := headfile.Write(path, installation, sequence); err != nil {
			return "", err
		}
	}
	aside := path + ".before-" + time.Now().UTC().Format("20060102T150405.000Z")
	for _, end := range []string{"-wal", "-shm", ""} { // the log first: the new file must never meet it
		switch err := os.Rename(path+end, aside+end); {
		case err == nil && end == "":
			kept = aside
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	if err := durable.Sync(o.Dir); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, path); err != nil {
		return "", err
	}
	if err := headfile.Write(path, installation, sequence); err != nil {
		return "", err
	}
	return kept, removeInventory(fresh)
}

// rebuilding is one run.
type rebuilding struct {
	Rebuild
	checker
	done *Rebuilt
}

func (r *rebuilding) fault(format string, args ...any) {
	if len(r.done.Faults) < mostDifferences {
		r.done.Faults = append(r.done.Faults, fmt.Sprintf(format, args...))
	}
}

func (r *rebuilding) run(ctx context.Context, old *inventory.Inventory) error {
	if err := r.locations(ctx, old); err != nil {
		return err
	}
	r.done.Locations = r.inOrder()
	for _, dir := range r.done.Locations {
		err := location.EachObject(ctx, r.dirOf(dir), func(home string) error { return r.object(ctx, dir, home) })
		if err != nil {
			return fmt.Errorf("storage location %s: %w", dir, err)
		}
	}
	return r.names(ctx)
}

// locations opens all storage locations that profiles, records or the old inventory name. One that is refused ends the
// run unless it is skipped.
func (r *rebuilding) locations(ctx context.Context, old *inventory.Inventory) error {
	dirs, err := r.dirs(ctx, old)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	err = r.eachRecord(ctx, func(j *job.Job) error {
		data, err := record.DataOf(j)
		for _, p := range data.Places {
			if record.IsRecorded(j) {
				named[p.Dir] = true
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for dir := range named {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	dirs = slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool { return slices.Contains(r.Skip, dir) })
	for _, dir := range r.Adopt {
		if !slices.Contains(dirs, dir) {
			return job.Errorf(job.NotFound, "rebuild", "",
				"no profile, record or inventory names the storage location %q", dir)
		}
		if err := location.Adopt(r.dirOf(dir), r.Installation, r.Actor, r.Note, time.Now()); err != nil {
			return fmt.Errorf("storage location %s: %w", dir, err)
		}
	}
	refused, err := r.openAll(ctx, dirs, nil, r.Installation)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		why := refused[dir]
		if why == nil && r.open[dir] == nil && named[dir] {
			why = fmt.Errorf("the storage location %s is not mounted: %s is missing in %s", dir, location.Name,
				r.dirOf(dir))
		}
		var e *location.Refusal
		if errors.As(why, &e) {
			why = errors.New(e.Sentence)
		}
		if why != nil {
			return job.Errorf(job.Refused, "rebuild", "",
				"%w; mount it and repeat the command; if it is lost, add: --skip %q; "+
					"if it is to belong to this installation, add: --adopt %q --note REASON", why, dir, dir)
		}
	}
	for _, dir := range r.inOrder() {
		id, err := location.Read(r.dirOf(dir))
		if err == nil {
			err = r.inventory.EnterLocation(ctx, dir, id.Location, id.Since)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// object enters an object with all versions, unless an earlier location had it. Locations that have fewer versions have
// what they have; what contradicts the location with most is left out and reported.
func (r *rebuilding) object(ctx context.Context, dir, home string) error {
	ark, err := location.ObjectID(filepath.Join(home, "inventory.json"))
	if err != nil {
		r.fault("the storage location %s: the inventory of %s cannot be read: %v", dir, home, err)
		return nil
	}
	if known, err := r.inventory.Has(ctx, ark); err != nil || known {
		return err
	}
	o := rebuiltObject{ark: ark, copies: map[string]*ocfl.Object{}, sizes: map[string]summed{}}
	for _, d := range r.inOrder() {
		object, err := r.open[d].Object(ark)
		switch {
		case errors.Is(err, ocfl.ErrNotFound):
			continue
		case err != nil:
			r.fault("the storage location %s: %v", d, err)
			continue
		}
		if o.copies[d] = object; o.lead == "" || len(object.Versions()) > len(o.copies[o.lead].Versions()) {
			o.lead = d
		}
	}
	if o.lead == "" {
		return nil
	}
	for i, name := range o.copies[o.lead].Versions() {
		if err := r.version(ctx, &o, i, name); err != nil {
			return fmt.Errorf("%s of %s: %w", name, ark, err)
		}
	}
	entered, err := r.inventory.Has(ctx, ark)
	if err != nil || !entered { // only of jobs that have not recorded what they stored
		return err
	}
	if r.done.Objects++; r.Progress != nil {
		r.Progress(r.done.Objects, dir)
	}
	return nil
}

// rebuiltObject is an object whose versions are entered.
type rebuiltObject struct {
	ark    string
	copies map[string]*ocfl.Object // by storage location
	lead   string                  // the location with most versions
	sizes  map[string]summed       // of the content files that were read
}

// version enters version i, unless its job is there and has not recorded it: it will, or has failed.
func (r *rebuilding) version(ctx context.Context, o *rebuiltObject, i int, name string) error {
	object := o.copies[o.lead]
	block := object.Inventory().Versions[name]
	j, err := r.record(ctx, block.Key())
	if err != nil {
		return err
	}
	e, minted, err := r.entry(object, o.ark, name, j)
	if err != nil {
		return err
	}
	for _, d := range r.inOrder() {
		other := o.copies[d]
		if other == nil || i >= len(other.Versions()) {
			continue
		}
		there := other.Versions()[i]
		if !sameState(object, name, other, there) {
			r.fault("the storage locations disagree about %s: %s of %s is not %s of %s, which was entered", o.ark,
				there, d, name, o.lead)
			continue
		}
		e.Places = append(e.Places, inventory.Place{Dir: d, Name: there})
	}
	if err := r.inventory.EnterName(ctx, e.Job, o.ark, e.Owner, minted, e.LocalIDs); err != nil {
		return err
	}
	if j != nil && !record.IsRecorded(j) {
		return nil
	}
	if err := r.inventory.Record(ctx, e, r.files(ctx, object, name, o.lead, o.sizes)); err != nil {
		return err
	}
	r.done.Versions++
	return nil
}

// sameState reports whether two locations have the same version: made by the same job, with the same files.
func sameState(a *ocfl.Object, version string, b *ocfl.Object, other string) bool {
	if location.Mark(a, version) != location.Mark(b, other) {
		return false
	}
	x, err := a.Files(version)
	y, err2 := b.Files(other)
	return err == nil && err2 == nil &&
		slices.EqualFunc(x, y, func(f, g ocfl.StoredFile) bool {
			return f.Path == g.Path &&
				strings.EqualFold(f.Digest, g.Digest)
		})
}

// names enters the identifiers of jobs that stored nothing, and the versions that the records name and storage lacks.
func (r *rebuilding) names(ctx context.Context) error {
	err := r.eachRecord(ctx, func(j *job.Job) error {
		data, err := record.DataOf(j)
		if err != nil || data.Identity == nil {
			return err
		}
		ark := data.Identity.ARK
		owner, err := r.ownerOf(ctx, j, ark)
		if err != nil {
			return err
		}
		if err := r.inventory.EnterName(ctx, string(j.ID), ark, owner, data.Identity.Minted,
			data.Identity.LocalIDs); err != nil || !record.IsRecorded(j) {
			return err
		}
		if _, _, err := r.inventory.VersionOf(ctx, string(j.ID)); !errors.Is(err, inventory.ErrNotFound) {
			return err
		}
		r.done.Lost++
		r.fault("no storage location has version %d of %s, which job %s stored", data.Version, ark, j.ID)
		return r.inventory.EnterLost(ctx, string(j.ID), ark, data.Version)
	})
	if err != nil {
		return err
	}
	r.done.Names, err = r.inventory.Names(ctx)
	return err
}

// ownerOf returns the owner of an object that a job was named for: that in the object, else that of the job's profile.
func (r *rebuilding) ownerOf(ctx context.Context, j *job.Job, ark string) (string, error) {
	known, err := r.inventory.Objects(ctx, inventory.Query{ARK: ark})
	if err != nil {
		return "", err
	}
	if len(known) > 0 {
		return known[0].Owner, nil
	}
	spec, err := record.SpecOf(j)
	if err != nil {
		return "", err
	}
	if p, ok := r.profiles.Get(spec.Profile); ok {
		return p.Owner, nil
	}
	r.fault("the owner of %s is not known: there is no profile %q any more", ark, spec.Profile)
	return "", nil
}

package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/location"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/job"
)

// Comparison is what a comparison of records, inventory and storage locations found. No content of files is read:
// fixity does that.
type Comparison struct {
	Objects  int      `json:"objects"`
	Versions int      `json:"versions"`
	Files    int64    `json:"files"`
	Faults   []string `json:"faults"`
	More     int      `json:"more"` // faults that are not listed
}

// mostDifferences is how many faults are listed.
const mostDifferences = 1000

func (c *Comparison) fault(format string, args ...any) {
	if len(c.Faults) >= mostDifferences {
		c.More++
		return
	}
	c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
}

// Compare compares the records of jobs, the inventory and the storage locations with each other. It changes nothing,
// and work may go on meanwhile.
func Compare(ctx context.Context, inv *inventory.Inventory, records Records, profiles profile.Source,
	dir string) (Comparison, error) {
	b := &checker{records: records, inventory: inv, profiles: profiles, data: dir}
	return b.compare(ctx)
}

// CompareDir compares them in a data directory that no server works on. An inventory that is refused is the only fault
// then.
func CompareDir(ctx context.Context, o Source) (c Comparison, err error) {
	if err := o.complete(); err != nil {
		return c, err
	}
	if _, err := os.Stat(o.path()); o.Postgres == "" && errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(headfile.Path(o.path())); errors.Is(err, fs.ErrNotExist) {
			return c, nil // nothing was ever ingested here
		}
	}
	alone := o // all records are compared with it afterwards
	alone.Records = nil
	inv, err := alone.OpenInventory(ctx)
	if err != nil {
		c.fault("%v", err)
		return c, nil
	}
	defer func() { err = errors.Join(err, inv.Close()) }()
	b := &checker{records: o.Records, inventory: inv, profiles: o.Profiles, data: o.Dir}
	return b.compare(ctx)
}

func (b *checker) compare(ctx context.Context) (c Comparison, err error) {
	c.Faults = []string{}
	if err := b.inventory.Contradictions(ctx, func(text string) { c.fault("inventory: %s", text) }); err != nil {
		return c, err
	}
	dirs, err := b.dirs(ctx, b.inventory)
	if err != nil {
		return c, err
	}
	refused, err := b.openAll(ctx, dirs, b.inventory, b.inventory.Installation())
	defer func() { err = errors.Join(err, b.close()) }()
	if err != nil {
		return c, err
	}
	for _, dir := range dirs {
		if why := refused[dir]; why != nil {
			c.fault("%v", why)
		}
	}
	if err := b.compareObjects(ctx, &c, refused); err != nil {
		return c, err
	}
	for _, dir := range b.inOrder() {
		if err := b.compareLocation(ctx, &c, dir); err != nil {
			return c, err
		}
	}
	return c, b.compareRecords(ctx, &c)
}

// compareRecords requires that the inventory has what the records name.
func (b *checker) compareRecords(ctx context.Context, c *Comparison) error {
	return b.eachRecord(ctx, func(j *job.Job) error {
		lacks, err := recordLacks(ctx, b.inventory, j)
		if err == nil && lacks != "" {
			c.fault("the inventory lacks %s", lacks)
		}
		return err
	})
}

// compareObjects requires that storage and records have what the inventory names.
func (b *checker) compareObjects(ctx context.Context, c *Comparison, refused map[string]error) error {
	for after := ""; ; {
		page, err := b.inventory.Objects(ctx, inventory.Query{After: after, Limit: 100})
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			o := &page[i]
			after = o.ARK
			c.Objects++
			if n := len(o.Versions); n == 0 || o.Versions[n-1].Number != o.Head {
				c.fault("inventory: the newest version of %s is not %d", o.ARK, o.Head)
			}
			objects := b.lookUp(c, o, refused)
			for k := range o.Versions {
				if err := b.compareVersion(ctx, c, o, &o.Versions[k], objects); err != nil {
					return err
				}
			}
		}
	}
}

// lookUp opens an object in each location that has a version of it by the inventory.
func (b *checker) lookUp(c *Comparison, o *inventory.Object, refused map[string]error) map[string]*ocfl.Object {
	objects := map[string]*ocfl.Object{}
	for _, v := range o.Versions {
		for _, p := range v.Places {
			if _, seen := objects[p.Dir]; seen || refused[p.Dir] != nil {
				continue
			}
			objects[p.Dir] = nil
			root := b.open[p.Dir]
			if root == nil {
				c.fault("the storage location %s of %s does not exist", p.Dir, o.ARK)
				continue
			}
			found, err := root.Object(o.ARK)
			switch {
			case errors.Is(err, ocfl.ErrNotFound):
				c.fault("the storage location %s lacks the object %s", p.Dir, o.ARK)
			case err != nil:
				c.fault("the storage location %s: %v", p.Dir, err)
			default:
				objects[p.Dir] = found
			}
		}
	}
	return objects
}

// compareVersion compares a version of the inventory with its record and with what each location has of it.
func (b *checker) compareVersion(ctx context.Context, c *Comparison, o *inventory.Object, v *inventory.Version,
	objects map[string]*ocfl.Object) error {
	c.Versions++
	j, err := b.record(ctx, v.Job)
	if err != nil {
		return err
	}
	if j != nil && !j.Gone {
		says, err := saysStored(j, o.ARK, v.Number)
		if err != nil {
			return err
		}
		if !says {
			c.fault("the inventory has version %d of %s from job %s, and its record names no such version", v.Number,
				o.ARK, j.ID)
		}
	}
	files := map[string]inventory.File{}
	for after := ""; ; {
		page, err := b.inventory.Files(ctx, o.ARK, v.Number, after, 10_000)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, f := range page {
			files[f.Path], after = f, f.Path
		}
	}
	c.Files += int64(len(files))
	for _, p := range v.Places {
		if object := objects[p.Dir]; object != nil {
			b.compareFiles(c, o.ARK, v, p, object, files)
		}
	}
	return nil
}

// saysStored reports whether the job of a record stored a version. A job in Recording, or that failed there, may have
// entered it already.
func saysStored(j *job.Job, ark string, version int) (bool, error) {
	data, err := record.DataOf(j)
	if err != nil {
		return false, err
	}
	if data.Identity == nil || data.Identity.ARK != ark || data.Version != version {
		return false, nil
	}
	return record.IsRecorded(j) || j.State == record.Recording || j.Origin == record.Recording, nil
}

// compareFiles compares the version in one location with the inventory: who made it, its paths and digests, and whether
// its files are there in full length.
func (b *checker) compareFiles(c *Comparison, ark string, v *inventory.Version, p inventory.Place, object *ocfl.Object,
	files map[string]inventory.File) {
	block := object.Inventory().Versions[p.Name]
	if block == nil {
		c.fault("the storage location %s lacks version %d (%s) of %s", p.Dir, v.Number, p.Name, ark)
		return
	}
	if key := block.Key(); jobOf(ark, p.Name, key) != v.Job {
		c.fault("%s of %s in %s was %s; the inventory has it from %s", p.Name, ark, p.Dir, location.MadeBy(key), v.Job)
	}
	stored, err := object.Files(p.Name)
	if err != nil {
		c.fault("%s of %s in %s: %v", p.Name, ark, p.Dir, err)
		return
	}
	if len(stored) != len(files) {
		c.fault("%s of %s in %s has %d files, the inventory has %d", p.Name, ark, p.Dir, len(stored), len(files))
	}
	home := filepath.Join(b.dirOf(p.Dir), filepath.FromSlash(object.Dir()))
	for _, f := range stored {
		want, known := files[f.Path]
		if !known || !strings.EqualFold(want.SHA512, f.Digest) {
			c.fault("%s of %s in %s: the digest of %s is not that of the inventory", p.Name, ark, p.Dir, f.Path)
			continue
		}
		info, err := os.Lstat(filepath.Join(home, filepath.FromSlash(f.Content)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.fault("%s of %s in %s: the file %s is missing", p.Name, ark, p.Dir, f.Path)
		case err != nil:
			c.fault("%s of %s in %s: %v", p.Name, ark, p.Dir, err)
		case info.Size() != want.Size:
			c.fault("%s of %s in %s: the file %s has %d bytes, in the inventory %d", p.Name, ark, p.Dir, f.Path,
				info.Size(), want.Size)
		}
	}
}

// jobOf is the job of a version as the inventory names it: its key in storage, or a name of its own for a version that
// no job of ours made.
func jobOf(ark, name, key string) string {
	if key == "" {
		return "ocfl:" + ark + "/" + name
	}
	return key
}

// compareLocation finds versions that the inventory lacks, except those of jobs that have not reached Recording or
// failed.
func (b *checker) compareLocation(ctx context.Context, c *Comparison, dir string) error {
	return location.EachObject(ctx, b.dirOf(dir), func(home string) error {
		ark, err := location.ObjectID(filepath.Join(home, "inventory.json"))
		if err != nil {
			c.fault("the storage location %s: the inventory of %s cannot be read: %v", dir, home, err)
			return nil
		}
		object, err := b.open[dir].Object(ark)
		if err != nil {
			c.fault("the storage location %s: %v", dir, err)
			return nil
		}
		names, err := b.inventory.NamesIn(ctx, ark, dir)
		if err != nil {
			return err
		}
		known := map[string]bool{}
		for _, n := range names {
			known[n] = true
		}
		for _, name := range object.Versions() {
			if known[name] {
				continue
			}
			key := object.Inventory().Versions[name].Key()
			j, err := b.record(ctx, key)
			if err != nil {
				return err
			}
			if j == nil || record.IsRecorded(j) {
				c.fault("the storage location %s has %s of %s, %s, and the inventory does not know it", dir, name, ark,
					location.MadeBy(key))
			}
		}
		return nil
	})
}

package ingest

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// changedRecords are records of which one was changed or is missing.
type changedRecords struct {
	job.Store
	change func(*job.Job) bool // false: it is missing
}

func (c *changedRecords) List(ctx context.Context, q job.Query) (job.Page, error) {
	page, err := c.Store.List(ctx, q)
	var kept []job.Job
	for i := range page.Jobs {
		if c.change(&page.Jobs[i]) {
			kept = append(kept, page.Jobs[i])
		}
	}
	page.Jobs = kept
	return page, err
}

func (c *changedRecords) Get(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := c.Store.Get(ctx, id)
	if err == nil && !c.change(&j) {
		err = job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return j, err
}

// planted is a data directory with one object of two versions in two locations.
type planted struct {
	t     *testing.T
	o     Options
	store job.Store
	ark   string
	jobs  []job.ID
}

func newPlanted(t *testing.T) *planted {
	p := testProfile()
	p.Storage = []string{"storage", "second"}
	x := &planted{t: t, o: options(t, t.TempDir(), p), store: mem.New()}
	x.o.Records, x.o.Installation = x.store, "one"
	w := startOn(t, x.store, x.o)
	first := w.one(Submission{Filename: "a.txt", LocalIDs: []string{"l1"}}, "alpha")
	second := w.one(Submission{PrimaryID: first.ARK, Filename: "b.txt", Update: true}, "beta")
	x.ark, x.jobs = first.ARK, []job.ID{first.Job, second.Job}
	w.stop()
	return x
}

// copied is the same in another directory.
func (x *planted) copied(t *testing.T) *planted {
	t.Helper()
	y := *x
	y.t, y.o.Dir = t, t.TempDir()
	if err := os.CopyFS(y.o.Dir, os.DirFS(x.o.Dir)); err != nil {
		t.Fatal(err)
	}
	return &y
}

// sql changes the inventory directly.
func (x *planted) sql(query string, args ...any) {
	x.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(x.o.Dir, fsck.InventoryName))
	if err != nil {
		x.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(x.t.Context(), query, args...); err != nil {
		x.t.Fatal(err)
	}
}

// edit changes the data of a job's record.
func (x *planted) edit(id job.ID, change func(*record.JobData)) {
	x.o.Records = &changedRecords{x.store, func(j *job.Job) bool {
		if j.ID == id {
			var d record.JobData
			if err := json.Unmarshal(j.Data, &d); err != nil {
				x.t.Error(err)
			}
			change(&d)
			j.Data, _ = json.Marshal(d)
		}
		return true
	}}
}

func (x *planted) dir(name string) string { return filepath.Join(x.o.Dir, name) }

// in gives a path within the object in a location.
func (x *planted) in(location, name string) string {
	root, err := ocfl.OpenRoot(x.dir(location))
	if err != nil {
		x.t.Fatal(err)
	}
	defer root.Close()
	return filepath.Join(x.dir(location), filepath.FromSlash(root.Path(x.ark)), filepath.FromSlash(name))
}

// Every way in which records, inventory and locations can contradict each other is found, and named with the object.
func TestCompare(t *testing.T) {
	sound := newPlanted(t)
	for what, c := range map[string]struct {
		plant func(x *planted)
		want  string // in a fault
	}{
		"a location lacks the object": {func(x *planted) { lose(x.t, x.dir("second"), x.ark) },
			"the storage location second lacks the object"},
		"a location is not mounted": {func(x *planted) { unmount(x.t, x.dir("second")) },
			"second is not mounted"},
		"a location of somebody else": {func(x *planted) {
			x.replace("second",
				`{"location":"l","installation":"two"}`)
		}, "belongs to another installation"},
		"another location": {func(x *planted) {
			x.replace("second",
				`{"location":"l","installation":"one"}`)
		}, "has another id"},
		"a damaged identity": {func(x *planted) { x.replace("second", `{`) }, "damaged identity file"},
		"a file is missing": {func(x *planted) {
			x.remove(content(x.t, x.dir("second"), x.ark,
				"producer/a.txt"))
		}, "the file producer/a.txt is missing"},
		"a file is cut": {func(x *planted) {
			x.write(content(x.t, x.dir("storage"), x.ark,
				"producer/b.txt"), "")
		}, "has 0 bytes, in the inventory 4"},
		"the object's inventory is broken": {func(x *planted) { x.write(x.in("second", "inventory.json"), "{") },
			"the storage location second"},
		"a version of no record": {func(x *planted) { plantObject(x.t, x.dir("storage"), x.ark, "ing_gone") },
			"storage has v3 of ark:"},
		"an object of no record": {func(x *planted) { plantObject(x.t, x.dir("second"), "ark:/1/x", "") },
			"made by another program, and the inventory does not know it"},
		"another version in one location": {func(x *planted) {
			lose(x.t, x.dir("second"), x.ark)
			plantObject(x.t, x.dir("second"), x.ark, "ing_a")
			plantObject(x.t, x.dir("second"), x.ark, "ing_b")
		}, "v1 of ark:/"},
		"the inventory lacks a version": {func(x *planted) {
			x.sql("DELETE FROM places WHERE version = 2; DELETE FROM files WHERE version = 2; DELETE FROM versions " +
				"WHERE version = 2")
		}, "the inventory lacks version 2"},
		"the inventory lacks a name": {func(x *planted) { x.sql("DELETE FROM named WHERE job = ?", string(x.jobs[1])) },
			"lacks the identifier"},
		"a name of another object": {func(x *planted) {
			x.sql("UPDATE named SET ark = 'ark:/1/x' WHERE job = ?",
				string(x.jobs[1]))
		}, "it has ark:/1/x"},
		"a digest was changed": {func(x *planted) {
			x.sql("UPDATE files SET sha512 = 'ab' WHERE version = 1 AND path = 'producer/a.txt'")
		}, "the digest of producer/a.txt"},
		"a file of the inventory is gone": {func(x *planted) {
			x.sql("DELETE FROM files WHERE version = 1 AND path = 'producer/a.txt'")
		}, "the inventory has"},
		"a copy is missing": {func(x *planted) {
			x.sql("DELETE FROM places WHERE version = 2 AND place = 'second'")
		}, "second has v2 of ark:"},
		"all copies are missing": {func(x *planted) { x.sql("DELETE FROM places WHERE version = 2") },
			"version 2 of ark:"},
		"the wrong head": {func(x *planted) { x.sql("UPDATE objects SET head = 7") },
			"the newest version of ark:"},
		"another owner": {func(x *planted) { x.sql("UPDATE objects SET owner = 'museum'") },
			"belongs to museum"},
		"a local id of nothing": {func(x *planted) { x.sql("UPDATE local_ids SET ark = 'ark:/1/x'") },
			"local id l1 of library is ark:/1/x, which does not exist"},
		"a version of another job": {func(x *planted) {
			x.sql("UPDATE versions SET job = 'ing_other' WHERE " +
				"version = 2")
		}, "the inventory has it from ing_other"},
		"a record of another version": {func(x *planted) {
			x.edit(x.jobs[1],
				func(d *record.JobData) { d.Version = 5 })
		}, "its record names no such version"},
		"a record of another object": {func(x *planted) {
			x.edit(x.jobs[0],
				func(d *record.JobData) { d.Identity.ARK = "ark:/1/x" })
		}, "its record names no such version"},
		"the inventory is missing": {func(x *planted) { x.remove(filepath.Join(x.o.Dir, fsck.InventoryName)) },
			"stagepost ingest inventory rebuild"},
	} {
		t.Run(what, func(t *testing.T) {
			x := sound.copied(t)
			if c, err := fsck.CompareDir(t.Context(), sourceOf(x.o)); err != nil || len(c.Faults) > 0 ||
				c.Objects != 1 || c.Versions != 2 || c.Files == 0 {
				t.Fatalf("control: got %+v, %v", c, err)
			}
			c.plant(x)
			got, err := fsck.CompareDir(t.Context(), sourceOf(x.o))
			if all := strings.Join(got.Faults, "\n"); err != nil || !strings.Contains(all, c.want) {
				t.Errorf("got %v, want %q in: %s", err, c.want, all)
			}
		})
	}
}

func (x *planted) replace(location, text string) {
	x.write(filepath.Join(x.dir(location), "stagepost-location.json"), text)
}

func (x *planted) write(name, text string) {
	x.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

func (x *planted) remove(name string) {
	x.t.Helper()
	if err := os.Remove(name); err != nil {
		x.t.Fatal(err)
	}
}

// Records that were removed by their age, and jobs that failed between two locations, are no faults.
func TestCompareWhatIsNoFault(t *testing.T) {
	store, o := library(t)
	o.Records = &changedRecords{store, func(j *job.Job) bool { return j.State == record.Failed }}
	compared(t, o)
	empty := options(t, t.TempDir())
	empty.Records = mem.New()
	if c, err := fsck.CompareDir(t.Context(), sourceOf(empty)); err != nil || len(c.Faults) > 0 {
		t.Errorf("an empty directory: got %+v, %v", c, err)
	}
	w := startOn(t, mem.New(), options(t, t.TempDir()))
	w.one(Submission{}, "text")
	if c, err := w.Compare(t.Context()); err != nil || len(c.Faults) > 0 || c.Objects != 1 {
		t.Errorf("while it runs: got %+v, %v", c, err)
	}
}

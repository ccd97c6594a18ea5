package ingest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/fsck"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/crash/power"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

var everyCut = flag.Bool("every-cut", false, "cut the power at each sync of a batch's life, not at some")

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// cutter cuts the power before each commit, and notes what was lost of what the commit refers to.
type cutter struct {
	t    *testing.T
	d    *power.Disk
	cuts map[lifecycle.State]int
	lost []string
}

func (c *cutter) created(j *job.Job) {
	if j.Kind == record.BatchKind {
		c.cut("created", filepath.Join(workdir.WorkName, string(j.ID)))
	}
}

func (c *cutter) changed(j *job.Job, change *job.Change) {
	if change.Event == "" || change.To.State == record.Failed {
		return
	}
	work := filepath.Join(workdir.WorkName, string(j.Parent), string(j.ID))
	switch j.State {
	case record.Downloading, record.Processing:
		if j.Kind == record.JobKind {
			c.cut(j.State, work)
		}
	case record.Storing:
		c.cut(j.State, "storage")
		c.cut(j.State, work)
	case record.Recording, record.Notify:
		c.recorded(j, c.cut(j.State, "storage"))
	case record.Reporting, record.UpdateReporting:
		c.cut(j.State, filepath.Join(workdir.WorkName, string(j.ID), workdir.ReportsName))
	}
}

// cut finds what a directory loses if the power fails now.
func (c *cutter) cut(from lifecycle.State, dir string) (image string) {
	c.cuts[from]++
	image = c.d.Image(c.t)
	for _, name := range power.Lost(c.t, filepath.Join(c.d.Dir, dir), filepath.Join(image, dir)) {
		list := from == record.Processing && name == "/"+ownList // synced before the object has the version
		if name != "/"+workdir.LockName && !list && !strings.HasPrefix(name, "/extensions/stagepost-staging") {
			c.lost = append(c.lost, fmt.Sprintf("%s%s in a commit from %s", dir, name, from))
		}
	}
	if dir != "storage" {
		return image
	}
	if r, err := ocfl.Validate(context.Background(), filepath.Join(image, dir)); err != nil || !r.Valid() {
		c.lost = append(c.lost, fmt.Sprintf("storage in a commit from %s: %v, %v", from, r, err))
	}
	return image
}

// recorded reports whether the inventory has the job's version.
func (c *cutter) recorded(j *job.Job, image string) {
	inv, err := inventory.Open(context.Background(), filepath.Join(image, fsck.InventoryName), "")
	if err == nil {
		_, _, err = inv.VersionOf(context.Background(), string(j.ID))
		err = errors.Join(err, inv.Close())
	}
	if err != nil {
		c.lost = append(c.lost, fmt.Sprintf("the entry of the inventory, in a commit from %s: %v", j.State, err))
	}
}

// What a commit refers to is on the disk before it: payloads, downloaded and unpacked files, stored versions, reports.
// The controls leave out one sync each.
func TestPowerCutAtEachCommit(t *testing.T) {
	c := cutAtCommits(t, 4)
	if len(c.lost) > 0 {
		t.Errorf("lost: %q", c.lost)
	}
	for _, state := range []lifecycle.State{"created", record.Downloading, record.Processing, record.Storing,
		record.Recording, record.Notify, record.Reporting} {
		if c.cuts[state] == 0 {
			t.Errorf("no power cut in a commit from %s", state)
		}
	}
	for _, control := range []struct {
		what, ignore string // patterns: a file may be synced before or after it gets its name
		payloads     int
	}{
		{"payloads", workdir.PayloadName + ".new", 1}, {"names of payloads", "bat_*", 1}, {"batches", workdir.WorkName,
			1}, {"downloads", "*.part [abc].txt", 1},
		{"directories of downloads", "deep", 1}, {"the list of what came", "fetched.jsonl*", 1}, {"the list of files",
			"own.jsonl*", 1},
		{"the object's description", "mrt-*", 1}, {"inventories", "inventory.json", 1}, {"stored versions", "v2",
			3}, {"unpacked files", "packed.txt", 2},
		{"reports", "[0-9].json.new", 1}, {"names of reports", workdir.ReportsName, 1},
		{"the inventory", fsck.InventoryName + "*", 1},
	} {
		if c := cutAtCommits(t, control.payloads, strings.Fields(control.ignore)...); len(c.lost) == 0 {
			t.Errorf("nothing is lost without the syncs of %s (%s): the test is blind", control.what, control.ignore)
		}
	}
}

// cutAtCommits brings so many payloads to their ends.
func cutAtCommits(t *testing.T, payloads int, ignore ...string) *cutter {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	c := &cutter{t: t, d: d, cuts: map[lifecycle.State]int{}}
	w := startOn(t, &power.Store{Store: mem.New(), Created: c.created, Changed: c.changed}, options(t, d.Dir))
	s := newSite(t, map[string]string{"a.txt": "alpha", "sub/deep/b.txt": "beta", "sub/deep/c.txt": "gamma"})
	for _, p := range []struct {
		s    Submission
		text string
	}{
		{Submission{Filename: "first.checkm", LocalIDs: []string{"l1"}}, s.manifest("a.txt", "sub/deep/b.txt")},
		{Submission{Filename: "x.zip"}, zipOf(t, "p/q/packed.txt", "packed")},
		{Submission{Filename: "second.checkm", LocalIDs: []string{"l1"}, Update: true},
			s.manifest("a.txt", "sub/deep/c.txt")},
		{Submission{Filename: "letter.txt", Type: TypeFile}, "dear"},
	}[:payloads] {
		w.one(p.s, p.text)
	}
	w.stop()
	slices.Sort(c.lost)
	return c
}

// TestPowerCutAnywhere cuts the power at syncs in the life of a batch and lets another process go on with what is on
// the disk: one identifier, one version, one entry, the same report. The control does not sync the inventory.
func TestPowerCutAnywhere(t *testing.T) {
	each := 23
	if *everyCut {
		each = 1
	}
	for _, names := range []bool{false, true} {
		l := liveUntilEnd(t, power.Options{Every: true, Names: names, Each: each, First: each / 2})
		want, images := "", l.Images(t)
		if len(images) < 3 {
			t.Errorf("names at once %t: %d cuts", names, len(images))
		}
		for _, image := range append([]string{l.Image(t)}, images...) {
			t.Run(fmt.Sprintf("%t %s", names, filepath.Base(image)), func(t *testing.T) {
				store, err := sqlite.Open(image, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				got := plainReport(t, reopen(t, store, options(t, image), l.sub, l.text))
				if want == "" {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
	l := liveUntilEnd(t, power.Options{Ignore: []string{fsck.InventoryName + "*"}})
	if inv, err := inventory.Open(t.Context(), filepath.Join(l.Image(t), fsck.InventoryName), ""); err == nil {
		t.Errorf("an inventory that was never synced is there: %v", inv.Close())
	}
}

// TestListBeforeVersion cuts the power at each sync: where storage has an object, the job's list of its files is there,
// too, and no attempt makes another one. The control does not sync the list.
func TestListBeforeVersion(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	count := func(ignore ...string) (with, without int) {
		d := power.Mount(t, power.Options{Every: true, Ignore: ignore})
		w := startOn(t, mem.New(), options(t, d.Dir))
		w.one(Submission{Filename: "first.checkm"}, s.manifest("a.txt"))
		w.stop()
		for _, image := range d.Images(t) {
			objects, err := filepath.Glob(filepath.Join(image, "storage", "*", "*", "*", "*", "inventory.json"))
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := filepath.Glob(filepath.Join(image, workdir.WorkName, "*", "*", workdir.ListName))
			if err != nil {
				t.Fatal(err)
			}
			if len(objects) == 0 || len(jobs) == 0 {
				continue
			}
			if text, err := os.ReadFile(filepath.Join(jobs[0], filepath.Base(ownList))); err != nil || len(text) == 0 {
				without++
			} else {
				with++
			}
		}
		return with, without
	}
	if with, without := count(); with == 0 || without > 0 {
		t.Errorf("%d images of an object have the list, %d have not", with, without)
	}
	if _, without := count("own.jsonl*"); without == 0 {
		t.Error("control: the list is there and was not synced")
	}
}

// lived is the disk of a process, and what was submitted to it.
type lived struct {
	*power.Disk
	sub  Submission
	text string
}

// liveUntilEnd brings a batch to its end on the stores that servers use.
func liveUntilEnd(t *testing.T, o power.Options) *lived {
	t.Helper()
	l := &lived{Disk: power.Mount(t, o)}
	s := newSite(t, map[string]string{"a.txt": "alpha", "sub/b.txt": "beta"})
	s.put("one.checkm", s.manifest("a.txt", "sub/b.txt"))
	s.put("two.checkm", s.manifest("missing.txt"))
	l.text = manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One"), s.row("two.checkm", "l2", "Two"))
	l.sub = Submission{Profile: "test", Submitter: "ann", Key: "k", Notification: "ann@example.org"}
	store, err := sqlite.Open(l.Dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	live(t, newCrashing(store, 0, false), options(t, l.Dir), l.sub, l.text)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return l
}

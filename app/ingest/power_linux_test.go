package ingest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/crash/power"
	"github.com/stagepost/stagepost/store/mem"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// cutter cuts the power before each commit, and notes what was lost of what the commit says.
type cutter struct {
	t    *testing.T
	d    *power.Disk
	cuts map[lifecycle.State]int
	lost []string
}

func (c *cutter) created(j *job.Job) {
	if j.Kind == BatchKind {
		c.cut("created", filepath.Join(workName, string(j.ID)))
	}
}

func (c *cutter) changed(j *job.Job, change *job.Change) {
	if change.Event == "" || change.To.State == Failed {
		return
	}
	switch j.State {
	case Downloading, Processing:
		if j.Kind == JobKind {
			c.cut(j.State, filepath.Join(workName, string(j.Parent), string(j.ID)))
		}
	case Storing, Recording, Notify:
		c.cut(j.State, "storage")
	case Reporting, UpdateReporting:
		c.cut(j.State, filepath.Join(workName, string(j.ID), reportsName))
	}
}

// cut looks for what a directory loses if the power fails now.
func (c *cutter) cut(from lifecycle.State, dir string) {
	c.cuts[from]++
	image := c.d.Image(c.t)
	for _, name := range power.Lost(c.t, filepath.Join(c.d.Dir, dir), filepath.Join(image, dir)) {
		if name != "/"+lockName && !strings.HasPrefix(name, "/extensions/stagepost-staging") {
			c.lost = append(c.lost, fmt.Sprintf("%s%s in a commit from %s", dir, name, from))
		}
	}
	if dir != "storage" {
		return
	}
	if r, err := ocfl.Validate(context.Background(), filepath.Join(image, dir)); err != nil || !r.Valid() {
		c.lost = append(c.lost, fmt.Sprintf("storage in a commit from %s: %v, %v", from, r, err))
	}
}

// What a commit says is on the disk before it: payloads, downloaded and unpacked files, stored versions, reports. The controls leave out one sync
// each.
func TestPowerCutAtEachCommit(t *testing.T) {
	c := cutAtCommits(t, 4)
	if len(c.lost) > 0 {
		t.Errorf("lost: %q", c.lost)
	}
	for _, state := range []lifecycle.State{"created", Downloading, Processing, Storing, Recording, Notify, Reporting} {
		if c.cuts[state] == 0 {
			t.Errorf("no power cut in a commit from %s", state)
		}
	}
	for _, control := range []struct {
		what, ignore string
		payloads     int
	}{
		{"payloads", payloadName + ".new", 1}, {"names of payloads", "bat_*", 1}, {"batches", workName, 1}, {"downloads", "*.part", 1},
		{"directories of downloads", "deep", 1}, {"the list of what came", "fetched.jsonl", 1}, {"the list of files", "own.jsonl.new", 1},
		{"the object's description", "mrt-*", 1}, {"inventories", "inventory.json", 1}, {"stored versions", "v2", 3}, {"unpacked files", "packed.txt", 2},
		{"reports", "[0-9].json.new", 1}, {"names of reports", reportsName, 1},
	} {
		if c := cutAtCommits(t, control.payloads, control.ignore); len(c.lost) == 0 {
			t.Errorf("nothing is lost without the syncs of %s (%s): the test is blind", control.what, control.ignore)
		}
	}
}

// cutAtCommits brings so many payloads to their ends.
func cutAtCommits(t *testing.T, payloads int, ignore ...string) *cutter {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	if err := os.Symlink(filepath.Join(t.TempDir(), inventoryName), filepath.Join(d.Dir, inventoryName)); err != nil { // SQLite needs shared memory
		t.Fatal(err)
	}
	c := &cutter{t: t, d: d, cuts: map[lifecycle.State]int{}}
	w := startOn(t, &power.Store{Store: mem.New(), Created: c.created, Changed: c.changed}, options(t, d.Dir))
	s := newSite(t, map[string]string{"a.txt": "alpha", "sub/deep/b.txt": "beta", "sub/deep/c.txt": "gamma"})
	for _, p := range []struct {
		s    Submission
		text string
	}{
		{Submission{Filename: "first.checkm", LocalIDs: []string{"l1"}}, s.manifest("a.txt", "sub/deep/b.txt")},
		{Submission{Filename: "x.zip"}, zipOf(t, "p/q/packed.txt", "packed")},
		{Submission{Filename: "second.checkm", LocalIDs: []string{"l1"}, Update: true}, s.manifest("a.txt", "sub/deep/c.txt")},
		{Submission{Filename: "letter.txt", Type: TypeFile}, "dear"},
	}[:payloads] {
		w.one(p.s, p.text)
	}
	w.stop()
	slices.Sort(c.lost)
	return c
}

package ingest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// cutter is a store before each of whose commits the power is cut: what the commit says must be on the disk by then.
type cutter struct {
	job.Store
	t *testing.T
	d *power.Disk

	mu   sync.Mutex // guards the rest
	cuts map[lifecycle.State]int
	lost []string
}

// Create is part of job.Store.
func (c *cutter) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	for i := range jobs {
		if j := &jobs[i].Job; j.Kind == BatchKind {
			c.cut("created", filepath.Join(workName, string(j.ID)))
		}
	}
	return c.Store.Create(ctx, jobs...)
}

// Commit is part of job.Store.
func (c *cutter) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		j, err := c.Get(ctx, changes[i].Job)
		if err != nil || changes[i].Event == "" || changes[i].To.State == Failed {
			continue
		}
		switch work := filepath.Join(workName, string(j.Parent), string(j.ID)); j.State {
		case Downloading, Processing:
			if j.Kind == JobKind {
				c.cut(j.State, work)
			}
		case Storing, Recording, Notify:
			c.cut(j.State, "storage")
		case Reporting, UpdateReporting:
			c.cut(j.State, filepath.Join(workName, string(j.ID), reportsName))
		}
	}
	return c.Store.Commit(ctx, changes...)
}

// cut looks for what a directory loses if the power fails now.
func (c *cutter) cut(from lifecycle.State, dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c := &cutter{Store: mem.New(), t: t, d: d, cuts: map[lifecycle.State]int{}}
	w := startOn(t, c, options(t, d.Dir))
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

package durable_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash/power"
	"github.com/stagepost/stagepost/store/mem"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// A task that is recorded as done has its large value on the disk. The controls leave out one sync each.
func TestPowerCut(t *testing.T) {
	power.Check(t, lostValues, "new-*", "flw_*", "flows")
}

// lostValues runs tasks with large values one after the other and cuts the power before each commit that records one of
// them.
func lostValues(t *testing.T, ignore ...string) (lost []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	dir := filepath.Join(d.Dir, "flows")
	cuts := 0
	store := &power.Store{Store: mem.New(), Changed: func(_ *job.Job, c *job.Change) {
		for _, task := range c.Tasks {
			if task.State != flow.Success {
				continue
			}
			cuts++
			lost = append(lost, power.Lost(t, dir, filepath.Join(d.Image(t), "flows"))...)
		}
	}}
	big := func(name, letter string) flow.Item {
		return &flow.Task{Name: name, Execute: func(context.Context, *flow.Call) (any, error) {
			return strings.Repeat(letter, 1<<20), nil
		}}
	}
	o := one(func() flow.Item { return flow.Linear("all", big("a", "x"), big("b", "y")) })
	o.Blobs = durable.Dir(dir)
	w := start(t, store, o, engine.Options{})
	w.end(w.submit(order))
	w.stop()
	if cuts < 2 {
		t.Errorf("the power was cut %d times", cuts)
	}
	return lost
}

// Put answers for names that others made and had no time to sync: a task of the same job that runs now, or one that was
// killed.
func TestPowerCutOfOthers(t *testing.T) {
	d := power.Mount(t, power.Options{})
	content := []byte(strings.Repeat("x", 1000))
	sum := sha256.Sum256(content)
	digits := hex.EncodeToString(sum[:])
	dir := filepath.Join(d.Dir, "flows")
	blobs := durable.Dir(dir)
	for id, before := range map[job.ID]func(place string) error{
		"other": func(place string) error { return os.MkdirAll(place, 0o700) },
		"killed": func(place string) error {
			if err := os.MkdirAll(place, 0o700); err != nil {
				return err
			}
			f, err := os.Create(filepath.Join(place, "sha256-"+digits))
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := f.Write(content); err != nil {
				return err
			}
			return f.Sync()
		},
	} {
		if err := before(filepath.Join(dir, string(id))); err != nil {
			t.Fatal(err)
		}
		place := filepath.Join("flows", string(id))
		if err := blobs.Put(t.Context(), id, "sha256:"+digits, content); err != nil {
			t.Fatal(err)
		}
		if lost := power.Lost(t, filepath.Join(d.Dir, place), filepath.Join(d.Image(t), place)); len(lost) > 0 {
			t.Errorf("%s: lost %q", id, lost)
		}
	}
}

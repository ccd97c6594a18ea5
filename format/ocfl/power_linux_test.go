package ocfl

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/store/crash/power"
)

var everyControl = flag.Bool("every-control", false, "try all controls of the power cuts, not the first few")

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// A power cut at any point leaves an object at its old version or at the new one, and each version that was confirmed
// stays. The controls leave out one sync each.
func TestPowerCut(t *testing.T) {
	for _, names := range []bool{false, true} {
		if cuts, wrong := cutEverywhere(t, names); cuts < 20 || len(wrong) > 0 {
			t.Errorf("names at once %t: %d cuts, wrong: %q", names, cuts, wrong)
		}
	}
	object := DefaultLayout().Path(testID)
	for i, control := range []struct{ what, ignore string }{
		{"inventories", "inventory.json"}, {"files", "[abcd]"}, {"directories of versions", "v2"},
		{"new objects, and new versions in them", path.Base(object)}, {"names of objects", path.Base(path.Dir(object))},
		{"the root", "storage"},
		{"sidecars", "inventory.json.sha512"}, {"declarations of objects", "0=ocfl_object_1.1"},
		{"the layout", layoutFile},
		{"the declaration of the root", "ocfl_1.1.part"}, {"the layout's parameters", "config.json"},
		{"directories of content", "dir"},
		{"the directory above the root", "above"},
	} {
		if i >= 6 && !*everyControl {
			break
		}
		if _, wrong := cutEverywhere(t, false, control.ignore); len(wrong) == 0 {
			t.Errorf("without the syncs of %s (%s) nothing is wrong: the test is blind", control.what, control.ignore)
		}
	}
}

// unsynced are the operations of an attempt that has just moved its object in and has not synced that yet.
type unsynced struct{ diskOps }

func (u unsynced) SyncDir(name string) error {
	if !strings.HasPrefix(name, stagingDir+"/") {
		return nil
	}
	return u.diskOps.SyncDir(name)
}

func (u unsynced) Set() syncSet { return unsyncedSet{u.diskOps.Set()} }

// unsyncedSet is a set without the directories of objects.
type unsyncedSet struct{ syncSet }

func (s unsyncedSet) Dir(name string) error {
	if !strings.HasPrefix(name, stagingDir+"/") {
		return nil
	}
	return s.syncSet.Dir(name)
}

// neighbour gives the id of another object that shares the highest directory of the layout with the tests' object.
func neighbour(r *Root) string {
	top, _, _ := strings.Cut(r.Path(testID), "/")
	for n := 0; ; n++ {
		if id := fmt.Sprintf("neighbour-%d", n); strings.HasPrefix(r.Path(id), top+"/") {
			return id
		}
	}
}

// cutEverywhere stores two versions of an object in a new root and cuts the power at each point. It gives what was
// wrong after each.
func cutEverywhere(t *testing.T, names bool, ignore ...string) (cuts int, wrong []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Names: names, Ignore: ignore})
	var confirmed []int // number of the first image after each step
	note := func() { confirmed = append(confirmed, len(d.Images(t))) }
	r, err := InitRoot(filepath.Join(d.Dir, "above", "storage"), Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	note()
	late, err := OpenRoot(r.dir.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	late.ops = unsynced{diskOps{late.dir}}
	add(t, late, neighbour(r), crashFirst, Options{Stage: "job5.1"})
	add(t, r, testID, crashFirst, Options{Stage: "job6.1", Key: "job6"})
	note()
	add(t, r, testID, crashSecond, crashKey)
	note()
	images := append(d.Images(t), d.Image(t))
	for i, image := range images {
		steps := 0
		for steps < len(confirmed) && i >= confirmed[steps] {
			steps++
		}
		if err := afterCut(t, image, steps); err != nil {
			wrong = append(wrong, fmt.Sprintf("cut %d of %d, %d steps confirmed: %v", i, len(images), steps, err))
			if ignore != nil {
				break
			}
		}
	}
	return len(images), wrong
}

// afterCut returns the fault after a power cut that came when so many of the three steps were confirmed: the root, the
// first version, the second.
func afterCut(t *testing.T, image string, steps int) error {
	t.Helper()
	dir := filepath.Join(image, "above", "storage")
	if _, err := OpenRoot(dir); err != nil && steps > 0 {
		return err
	}
	r, err := InitRoot(dir, Layout{})
	if err != nil {
		return err
	}
	defer r.Close()
	o, err := r.Object(testID)
	switch {
	case errors.Is(err, ErrNotFound) && steps < 2:
	case err != nil:
		return err
	case o.Head() != "v2" && steps == 3:
		return fmt.Errorf("the head is %s", o.Head())
	default:
		if _, err := r.VerifyVersion(t.Context(), testID, o.Head()); err != nil {
			return err
		}
	}
	if _, err := r.Recover(t.Context(), testID, "after.1"); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err := clean(t, r, dir); err != nil {
		return err
	}
	if _, err := r.AddVersion(t.Context(), testID, crashFirst, Options{Stage: "job6.2", Key: "job6"}); err != nil {
		return err
	}
	again := crashKey
	again.Stage = "job7.2"
	if added, err := r.AddVersion(t.Context(), testID, crashSecond, again); err != nil || added.Version != "v2" {
		return fmt.Errorf("version %q, %w", added.Version, err)
	}
	return clean(t, r, dir)
}

// clean returns the findings of the validator after the stages of crashed attempts are removed.
func clean(t *testing.T, r *Root, dir string) error {
	if _, err := r.Sweep(); err != nil {
		return err
	}
	report, err := Validate(t.Context(), dir)
	if err != nil {
		return err
	}
	for _, p := range report.Errors {
		return fmt.Errorf("%s (of %d)", p, len(report.Errors))
	}
	return nil
}

// TestPowerCutRemoving: a power cut at any point of a removal leaves the old object or the new one, and the new one
// once the removal was confirmed.
func TestPowerCutRemoving(t *testing.T) {
	for _, c := range []int{0, 1, 4} {
		cuts, wrong := cutRemoving(t, c)
		if cuts < 8 || len(wrong) > 0 {
			t.Errorf("%q: %d cuts, wrong: %q", removals[c].gone, cuts, wrong)
		}
	}
	// Without the first version, moved/2 is the first name of a content: only the removal makes such a file.
	if _, wrong := cutRemoving(t, 0, "2"); len(wrong) == 0 {
		t.Error("without the sync of a file nothing is wrong: the test is blind")
	}
}

// cutRemoving removes versions and cuts the power at each point.
func cutRemoving(t *testing.T, c int, ignore ...string) (cuts int, wrong []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Ignore: ignore})
	r, err := InitRoot(filepath.Join(d.Dir, "storage"), Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, key := range []string{"one", "two", "three"} {
		v := version(key, history[key]...)
		v.User = User{Name: "Ann of " + key, Address: "mailto:ann@example.org"}
		add(t, r, testID, v, Options{Stage: "earlier", Key: key, Fixity: []string{SHA256}})
	}
	before := len(d.Images(t))
	if _, err := r.RemoveVersions(t.Context(), testID, "rm", job(removals[c].gone...), nil); err != nil {
		t.Fatal(err)
	}
	confirmed := len(d.Images(t))
	images := append(d.Images(t), d.Image(t))
	for i, image := range images {
		if i < before {
			continue
		}
		after, err := OpenRoot(filepath.Join(image, "storage"))
		if err == nil {
			_, err = after.Sweep()
			old, fresh := has(t, after, "one", "two", "three"), has(t, after, removals[c].left...)
			if fresh != nil && (old != nil || i >= confirmed) {
				err = errors.Join(err, old, fresh)
			}
			after.Close()
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("cut %d of %d: %v", i-before, len(images)-before, err))
		}
	}
	return len(images) - before, wrong
}

package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// A power cut at any point leaves no incomplete set that passes for a whole one, and a data directory that no store
// opens before it is complete. What was confirmed is there. The controls leave out one sync each.
func TestPowerCut(t *testing.T) {
	power.CheckEach(t, 20, cutBackup, manifestName, digestName, listName, "payload", "a.db", "1", dataName,
		".partial-*", "sets", "moved", "restored", "head")
}

// cutBackup writes a set, restores and moves it, and cuts the power at each point.
func cutBackup(t *testing.T, names bool, ignore ...string) (cuts int, wrong []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Names: names, Ignore: ignore})
	at := func(name string) string { return filepath.Join(d.Dir, name) }
	var confirmed []int // number of the first image after each step
	note := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
		confirmed = append(confirmed, len(d.Images(t)))
	}
	err := errors.Join(os.Mkdir(at("sets"), 0o700), os.Mkdir(at("moved"), 0o700), durable.Sync(d.Dir))
	if err != nil {
		t.Fatal(err)
	}
	s := newFixture(t)
	s.write(at("sets"), "one")
	note(nil)
	_, err = Restore(t.Context(), at("sets/one"), at("restored"), reader)
	note(err)
	want := texts(t, at("restored"))
	note(Move(t.Context(), at("sets/one"), at("moved/one")))
	images := append(d.Images(t), d.Image(t))
	for i, image := range images {
		steps := 0
		for steps < len(confirmed) && i >= confirmed[steps] {
			steps++
		}
		if err := backupAfter(t, image, steps, want); err != nil {
			wrong = append(wrong, fmt.Sprintf("cut %d of %d, %d steps confirmed: %v", i, len(images), steps, err))
		}
	}
	return len(images), wrong
}

// backupAfter returns what is wrong after a power cut that came when so many of the three steps were confirmed.
func backupAfter(t *testing.T, image string, steps int, want map[string]string) error {
	t.Helper()
	sets := 0
	for _, name := range []string{"sets/one", "moved/one"} {
		dir := filepath.Join(image, name)
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := Check(t.Context(), dir, reader); err != nil {
			return err
		}
		sets++
	}
	if _, err := os.Lstat(filepath.Join(image, "moved/one")); sets == 0 && steps > 0 || err != nil && steps == 3 {
		return errors.New("the set is not there")
	}
	target := filepath.Join(image, "restored")
	entries, err := os.ReadDir(target)
	if _, marked := os.Lstat(filepath.Join(target, RestoringName)); steps < 2 && (marked == nil || len(entries) == 0) {
		return nil
	}
	if diff := cmp.Diff(want, texts(t, target)); err != nil || diff != "" {
		return fmt.Errorf("restored: %w (-was +is) %s", err, diff)
	}
	return nil
}

// texts returns the contents of the files below a directory.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		rel, err := filepath.Rel(dir, name)
		if d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(name)
			all[rel] = string(text)
		} else {
			all[rel] = d.Type().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

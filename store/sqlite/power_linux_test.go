package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// A power cut at any point leaves a head file that is whole and not behind what was begun. The controls leave out one
// sync each.
func TestPowerCutOfHeadFile(t *testing.T) {
	for _, names := range []bool{false, true} {
		if cuts, wrong := cutHead(t, names); cuts < 5 || len(wrong) > 0 {
			t.Errorf("names at once %t: %d cuts, wrong: %q", names, cuts, wrong)
		}
	}
	for _, ignore := range []string{headName, headName + ".new", "data", "above"} {
		if _, wrong := cutHead(t, false, ignore); len(wrong) == 0 {
			t.Errorf("nothing is wrong without the syncs of %s: the test is blind", ignore)
		}
	}
}

// cutHead makes a head file in a new directory, replaces it, begins three commits and cuts the power at each point.
func cutHead(t *testing.T, names bool, ignore ...string) (cuts int, wrong []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Names: names, Ignore: ignore})
	dir := filepath.Join(d.Dir, "above", "data")
	var confirmed []int // number of the first image after each number was begun
	begun := int64(0)
	next := func() *head {
		begun++
		return &head{series: "s", begun: begun, seq: begun - 1}
	}
	note := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
		confirmed = append(confirmed, len(d.Images(t)))
	}
	err := durable.MkdirAll(dir, 0o700)
	note(errors.Join(err, createHead(dir, next(), nil)))
	note(createHead(dir, next(), nil))
	f, err := openHead(dir, next(), 0, nil)
	note(err)
	note(f.begin(next()))
	note(f.begin(next()))
	images := append(d.Images(t), d.Image(t))
	for i, image := range images {
		least := int64(0)
		for _, n := range confirmed {
			if i >= n {
				least++
			}
		}
		h, _, err := readHead(filepath.Join(image, "above", "data"))
		if errors.Is(err, fs.ErrNotExist) && least == 0 {
			continue
		}
		if err != nil || h.begun < least {
			wrong = append(wrong, fmt.Sprintf("cut %d of %d: begun %d, confirmed %d, %v", i, len(images), h.begun,
				least, err))
		}
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
	return len(images), wrong
}

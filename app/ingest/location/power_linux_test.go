package location

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// A power cut at any point leaves the identity of a location as it was or as it is, and one that was confirmed stays.
// The controls leave out one sync each.
func TestPowerCut(t *testing.T) {
	power.CheckEach(t, 4, cutIdentity, "*.part", "storage")
}

// cutIdentity gives a location to one installation and then to another, and cuts the power at each point.
func cutIdentity(t *testing.T, names bool, ignore ...string) (cuts int, wrong []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Names: names, Ignore: ignore})
	dir := filepath.Join(d.Dir, "storage")
	above, err := os.Open(d.Dir)
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o700), above.Sync(), above.Close())
	}
	owners := []string{"", "first", "second"}
	var confirmed []int // number of the first image after each step
	for i, write := range []func(string, Identity) error{Create, Replace} {
		if err = errors.Join(err, write(dir, New(owners[i+1], time.Now()))); err != nil {
			t.Fatal(err)
		}
		confirmed = append(confirmed, len(d.Images(t)))
	}
	images := append(d.Images(t), d.Image(t))
	for i, image := range images {
		least := 0
		for least < len(confirmed) && i >= confirmed[least] {
			least++
		}
		id, err := Read(filepath.Join(image, "storage"))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if got := id.Installation; err != nil || got != owners[least] && got != owners[min(least+1, 2)] {
			wrong = append(wrong, fmt.Sprintf("cut %d of %d: %q, %d confirmed, %v", i, len(images), got, least, err))
		}
	}
	return len(images), wrong
}

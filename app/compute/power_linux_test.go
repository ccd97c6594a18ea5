package compute_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/store/crash/power"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// The files of a job whose submission was answered are on the disk, with all directories above them. The control ignores the sync of one of these.
func TestPowerCutOfUpload(t *testing.T) {
	if lost := uploadLost(t); len(lost) > 0 {
		t.Errorf("lost: %q", lost)
	}
	if lost := uploadLost(t, "jobs"); len(lost) == 0 {
		t.Error("nothing is lost without the sync of a directory: the test is blind")
	}
}

func uploadLost(t *testing.T, ignore ...string) []string {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	o := quick(t)
	o.Dir = d.Dir
	w := newWorld(t, o, nil)
	w.upload("ann", "echo hello")
	jobs := filepath.Join("compute", "jobs")
	lost := power.Lost(t, filepath.Join(d.Dir, jobs), filepath.Join(d.Image(t), jobs))
	w.stop()
	return lost
}

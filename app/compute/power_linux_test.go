package compute_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash/power"
	"github.com/stagepost/stagepost/store/mem"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// The files of a job whose submission was answered are on the disk, with all directories above them. The control
// ignores the sync of one of these.
func TestPowerCutOfUpload(t *testing.T) {
	power.Check(t, uploadLost, "jobs", "part", "in")
}

func uploadLost(t *testing.T, ignore ...string) []string {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	o := quick(t)
	o.Dir = d.Dir
	w := newHarness(t, o, nil)
	w.upload("ann", "echo hello")
	jobs := filepath.Join("compute", "jobs")
	lost := power.Lost(t, filepath.Join(d.Dir, jobs), filepath.Join(d.Image(t), jobs))
	w.stop()
	return lost
}

// Results of a job that is Completed are on the disk. The controls leave out one sync each.
func TestPowerCutOfResults(t *testing.T) {
	power.Check(t, resultsLost, ".*", "cmp_*", "jobs", "compute")
}

// resultsLost cuts the power before the commit that reports that the results are here.
func resultsLost(t *testing.T, ignore ...string) (lost []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	o := quick(t)
	o.Dir = d.Dir
	cuts, jobs := 0, filepath.Join("compute", "jobs")
	store := &power.Store{Store: mem.New(), Changed: func(_ *job.Job, c *job.Change) {
		if c.To.State == compute.Completed {
			cuts++
			lost = append(lost, power.Lost(t, filepath.Join(d.Dir, jobs), filepath.Join(d.Image(t), jobs))...)
		}
	}}
	w := newHarnessOn(t, store, o, one(notifier{newFake()}))
	w.until(w.upload("ann", hello).ID, compute.Completed)
	w.stop()
	if cuts == 0 {
		t.Error("the power was never cut")
	}
	return lost
}

package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash/power"
	"github.com/stagepost/stagepost/store/mem"
)

func TestMain(m *testing.M) {
	power.Main()
	os.Exit(m.Run())
}

// A package that is Completed has its plan on the disk, and a token that was given the key that it follows from. The
// controls leave out one sync each.
func TestPowerCut(t *testing.T) {
	power.Check(t, lostPackages, "plan-e*", "acc_*", dirName, aboutName, tagsName, "manifest-sha512.txt", keyName+"-*")
}

// lostPackages makes a package and cuts the power before the commit that completes it.
func lostPackages(t *testing.T, ignore ...string) (lost []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Ignore: ignore})
	cuts := 0
	store := &power.Store{Store: mem.New(), Changed: func(j *job.Job, c *job.Change) {
		if j.Kind == Kind && c.To.State == record.Completed {
			cuts++
			lost = append(lost, power.Lost(t, filepath.Join(d.Dir, dirName), filepath.Join(d.Image(t), dirName))...)
		}
	}}
	w := startOn(t, store, d.Dir, nil)
	ark := w.object("l1", map[string]string{"a.txt": "alpha", "b/c.txt": "gamma"})
	w.ready(Request{Object: ark, Format: FormatBagTAR, Key: "k", Requester: "ann"})
	w.stop()
	if cuts == 0 {
		t.Error("the power was never cut")
	}
	return lost
}

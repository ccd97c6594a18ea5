package postgres

import (
	"flag"
	"slices"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash"
	"github.com/stagepost/stagepost/store/storetest"
)

var transitions = flag.Int("transitions", 21, "TestCrash has each transition of this number")

// A crash of the server process at every call of every transition, of maintenance, and of a job from its creation to
// its end.
func TestCrash(t *testing.T) {
	var before *Store // of the window before
	open := func(t *testing.T) (job.Store, func() job.Store) {
		database := newDatabase(t)
		s := openStore(t, database, Options{CallerTime: true})
		if before != nil {
			closeStore(t, before)
		}
		before = s
		return s, func() job.Store { // the old process is not closed: what it left stays
			again := openStore(t, database, Options{CallerTime: true})
			closeStore(t, s)
			before = again
			return again
		}
	}
	workloads := []crash.Workload{crash.Upkeep()}
	if *transitions == 1 {
		workloads = append(workloads, crash.Walk(storetest.Step), crash.Walk(storetest.Batch))
	}
	for i, w := range slices.Concat(crash.Transitions(storetest.Step), crash.Transitions(storetest.Batch)) {
		if i%*transitions == 0 {
			workloads = append(workloads, w)
		}
	}
	report := crash.Report{Name: "postgres"}
	for _, w := range workloads {
		t.Run(w.Name, func(t *testing.T) { report.Add(crash.Enumerate(t, open, w)) })
	}
	t.Log(report)
	if report.Windows < 40 || report.Inconsistent > 0 {
		t.Errorf("%s\n%v", report, report.Faults)
	}
}

package crash_test

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/crash"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// memory is a store that outlives the process that uses it.
func memory(*testing.T) (job.Store, func() job.Store) { return mem.New(), nil }

func TestTransitions(t *testing.T) {
	for _, life := range []*lifecycle.Table{storetest.Step, storetest.Batch} {
		report := crash.Report{Name: life.Name()}
		for _, w := range append(crash.Transitions(life), crash.Walk(life)) {
			report.Add(crash.Enumerate(t, memory, w))
		}
		t.Log(report)
		if report.Windows == 0 || report.Inconsistent > 0 {
			t.Errorf("%s\n%v", report, report.Faults)
		}
	}
}

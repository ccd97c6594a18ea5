package crash_test

import (
	"context"
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

// TestUpkeep simulates a crash in each maintenance action of people; the control is a store that drops half of the
// audit log.
func TestUpkeep(t *testing.T) {
	report := crash.Enumerate(t, memory, crash.Upkeep())
	t.Log(report)
	if report.Windows < 30 || report.Inconsistent > 0 {
		t.Errorf("%s\n%v", report, report.Faults)
	}
	silent := func(*testing.T) (job.Store, func() job.Store) { return forgetful{mem.New()}, nil }
	if report := crash.Enumerate(t, silent, crash.Upkeep()); report.Inconsistent == 0 {
		t.Error("a store that forgets half of the audit log passes")
	}
}

// forgetful has half of an audit log.
type forgetful struct{ *mem.Store }

func (f forgetful) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	list, err := f.Store.Audit(ctx, seq, n)
	return list[:len(list)/2], err
}

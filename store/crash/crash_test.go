package crash_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// TestSample: of the twelve windows of six calls, a stride of 1 has all, one of 5 every fifth on alternate sides; an
// even one is refused, since it would leave out a side.
func TestSample(t *testing.T) {
	at := func(stride int) (all []string) {
		report := crash.Sample("six calls", stride, func(f *crash.Fuse) []string {
			for range 6 {
				_ = f.Call(func() error { return nil })
			}
			if f.Blown() {
				all = append(all, fmt.Sprint(f.Side, " ", f.At))
			}
			return nil
		})
		if report.Windows != len(all) {
			t.Errorf("%d windows, the script had %d", report.Windows, len(all))
		}
		return all
	}
	if all := at(1); len(all) != 12 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != 12 {
		t.Errorf("got %q", all)
	}
	if got := strings.Join(at(5), ", "); got != "before 1, after 3, before 6" {
		t.Errorf("got %s", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an even stride is accepted")
		}
	}()
	at(2)
}

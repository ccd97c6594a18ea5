package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// Workload is a script of calls to a store.
type Workload struct {
	Name  string
	Lives []*lifecycle.Table // of all the jobs it makes
	// Prepare makes what the script needs, in an empty store and before the fuse is lit. May be nil.
	Prepare func(ctx context.Context, st job.Store) error
	// Run is the script. It stops at its first error; an error with the fuse unblown fails the test.
	Run func(ctx context.Context, st job.Store) error
	// Check checks what is left for faults that are specific to this script. May be nil.
	Check func(ctx context.Context, st job.Store) []string
}

// Report is what an enumeration found.
type Report struct {
	Name         string
	Windows      int // points of the simulated crashes
	Inconsistent int // windows that left something wrong
	Faults       []string
}

func (r Report) String() string {
	return fmt.Sprintf("%s: windows tried: %d, inconsistent: %d", r.Name, r.Windows, r.Inconsistent)
}

// Add takes the numbers and faults of another report over.
func (r *Report) Add(other Report) {
	r.Windows += other.Windows
	r.Inconsistent += other.Inconsistent
	r.Faults = append(r.Faults, other.Faults...)
}

// Windows runs a script with the fuse at every call, on both sides, until the fuse does not blow any more. The script
// starts from nothing each time and gives what is wrong with what was left. The last run, which is not stopped, is
// checked too, but is not a window.
func Windows(name string, script func(f *Fuse) (faults []string)) Report {
	return Sample(name, 1, script)
}

// Sample is [Windows] with every stride-th window alone, the same ones at each call. stride is odd, so that the sides
// alternate. It is for scripts that take long; a test has a flag for its stride, and the long tests take all windows.
func Sample(name string, stride int, script func(f *Fuse) (faults []string)) Report {
	if stride < 1 || stride%2 == 0 {
		panic(fmt.Sprintf("crash: the stride %d is not odd: one side would have no windows", stride))
	}
	r := Report{Name: name}
	sides := [...]Side{Before, After}
	for n := 0; ; n += stride {
		fuse := &Fuse{At: 1 + n/len(sides), Side: sides[n%len(sides)]}
		faults := script(fuse)
		for _, f := range faults {
			r.Faults = append(r.Faults, fmt.Sprintf("%s, %s call %d: %s", name, fuse.Side, fuse.At, f))
		}
		if len(faults) > 0 {
			r.Inconsistent++
		}
		if !fuse.Blown() {
			return r
		}
		r.Windows++
	}
}

// Enumerate simulates a crash at every call of the workload, on a store of its own each time. What is left is opened
// again, checked against its records and by the workload, brought to its end by [GoOn], and checked again.
func Enumerate(t *testing.T, open storetest.Open, w Workload) Report {
	t.Helper()
	ctx := t.Context()
	return Windows(w.Name, func(fuse *Fuse) []string {
		st, reopen := open(t)
		if w.Prepare != nil {
			if err := w.Prepare(ctx, st); err != nil {
				t.Fatalf("%s: prepare: %v", w.Name, err)
			}
		}
		err := w.Run(ctx, NewStore(st, fuse))
		if err != nil && !fuse.Blown() {
			t.Fatalf("%s: %v", w.Name, err)
		}
		if reopen != nil {
			st = reopen()
		}
		faults := storetest.Check(ctx, st, w.Lives...)
		if w.Check != nil {
			faults = append(faults, w.Check(ctx, st)...)
		}
		if len(faults) > 0 {
			return faults
		}
		if err := GoOn(ctx, st, w.Lives...); err != nil {
			return []string{"going on: " + err.Error()}
		}
		return storetest.Check(ctx, st, w.Lives...)
	})
}

// afterwards is when jobs go on: every claim and lease of a workload has run out by then.
func afterwards() time.Time { return time.Now().Add(1000 * time.Hour).Truncate(time.Millisecond) }

package audit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive/audit"
	"github.com/stagepost/stagepost/app/archive/catalog"
)

// TestNoHealingDuringRemoval: an object that is gone is not replaced by that of another root while a version is being
// removed from one of them: what the removal leaves would come back, or go. When the removal has ended it is replaced.
// Control: without a removal it is replaced at once.
func TestNoHealingDuringRemoval(t *testing.T) {
	const failed = "arc_failed" // its version is to be removed; it stored none yet
	for _, c := range []struct {
		name, location string
		late           bool // the removal begins during the check
	}{
		{"control", "", false},
		{"in the source", audit.RootPrefix + "two", false},
		{"in the target", audit.RootPrefix + "one", true}, // one that began earlier lets no check read the object
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newObjects(t, "one", "two")
			o.version(one, job, map[string]string{"page.html": "true"})
			if r, err := o.check(); err != nil || r.Faults != 0 {
				t.Fatalf("the objects are good: got %+v, %v", r, err)
			}
			begin := func() error {
				_, err := o.cat.BeginRemoval(t.Context(), failed, "ann", "it failed", o.now)
				return err
			}
			if c.location != "" {
				must(t, o.cat.PlanVersion(t.Context(), c.location, one, failed))
			}
			if c.late {
				o.report = begin
			} else {
				must(t, begin())
			}
			must(t, os.RemoveAll(o.file("one", one, ".")))
			healed(t, o, c.location)
			o.report = nil
			if c.location == "" {
				return
			}
			must(t, o.cat.EndRemoval(t.Context(), catalog.JobObject{Location: c.location, Object: one, Job: failed,
				By: "ann", Reason: "it failed"}, map[string]string{job: "v1"}, o.now))
			healed(t, o, "")
		})
	}
}

// healed checks that a check finds the object in root one gone, and replaces it unless a version is being removed in a
// location.
func healed(t *testing.T, o *objects, removing string) {
	t.Helper()
	r, err := o.check()
	_, missing := os.Stat(o.file("one", one, "v1/content/page.html"))
	if removing == "" {
		if err != nil || r.Faults != 1 || r.Healed != 1 || missing != nil {
			t.Errorf("got %+v, %v; the file: %v", r, err, missing)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "a version of the object is being deleted in "+removing) ||
		r.Faults != 1 || r.Healed != 0 || !os.IsNotExist(missing) {
		t.Errorf("got %+v, %v; the file: %v", r, err, missing)
	}
}

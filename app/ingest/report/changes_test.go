package report

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func TestChangesSinceTheLastReport(t *testing.T) {
	none := []job.ID{}
	then := Batch{BatchReport: api.BatchReport{Jobs: []Job{
		{Job: "stored", State: stateCompleted, Outcome: lifecycle.OK}, {Job: "mended", State: stateFailed,
			Outcome: lifecycle.Failed, Cause: "x"},
		{Job: "same", State: stateFailed, Outcome: lifecycle.Failed, Cause: "x", Message: "m"}, {Job: "other",
			State: stateFailed, Outcome: lifecycle.Failed, Cause: "x"},
		{Job: "going", State: stateFailed, Outcome: lifecycle.Failed}, {Job: "held", State: stateFailed,
			Outcome: lifecycle.Failed},
		{Job: "gone", State: stateFailed, Outcome: lifecycle.Failed}, {Job: "long gone", State: stateDeleted,
			Outcome: lifecycle.Failed},
	}}}
	now := Batch{BatchReport: api.BatchReport{Jobs: []Job{
		{Job: "stored", State: stateCompleted, Outcome: lifecycle.OK}, {Job: "mended", State: stateCompleted,
			Outcome: lifecycle.OK},
		{Job: "same", State: stateFailed, Outcome: lifecycle.Failed, Cause: "x", Message: "m",
			Retries: 3}, {Job: "other", State: stateFailed, Outcome: lifecycle.Failed, Cause: "y"},
		{Job: "going", State: stateDownloading}, {Job: "held", State: stateHeld}, {Job: "gone", State: stateDeleted,
			Outcome: lifecycle.Failed},
		{Job: "long gone", State: stateDeleted, Outcome: lifecycle.Failed}, {Job: "new", State: stateFailed,
			Outcome: lifecycle.Failed},
	}}}
	want := &Changes{
		Since: 2, Succeeded: []job.ID{"mended"}, Newly: []job.ID{"other",
			"new"}, Failed: []job.ID{"same"}, Open: []job.ID{"going", "held"},
		Deleted: []job.ID{"gone"}, Unchanged: 2,
	}
	got := now.Since(&then, 2)
	if diff := cmp.Diff(want, got); diff != "" || !different(got) {
		t.Error(diff)
	}
	if same := then.Since(&then, 2); different(same) || same.Unchanged != 2 || len(same.Failed) != 6 {
		t.Errorf("control: got %+v", same)
	}
	all := now.Since(nil, 2)
	if !all.Missing || !different(all) || len(all.Succeeded) != 2 || len(all.Newly) != 3 ||
		!slices.Equal(all.Failed, none) {
		t.Errorf("without a report before: got %+v", all)
	}
}

// different reports whether anything has changed.
func different(c *Changes) bool {
	return c.Missing || len(c.Succeeded)+len(c.Newly)+len(c.Open)+len(c.Deleted) > 0
}

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestReportIsTheSameOnBothSides: what ingest tells is what clients read, field by field.
func TestReportIsTheSameOnBothSides(t *testing.T) {
	ids := []job.ID{"ing_1"}
	told := report.Batch{
		Batch: "bat_1", State: "Failed", Status: "Failed", Message: "m", Profile: "p", Type: "file", Filename: "f", Submitter: "ann", Note: "n",
		Submitted: time.Unix(1, 0).UTC(), Ended: time.Unix(2, 0).UTC(), Generation: 1, Expected: 2, Pending: 3, Completed: 4, Failed: 5, Deleted: 6,
		Summary: "s", Next: "x", Changes: &report.Changes{Since: 1, Missing: true, Succeeded: ids, Newly: ids, Failed: ids, Open: ids, Deleted: ids, Unchanged: 7},
		Jobs: []report.Job{{
			Job: "ing_1", State: "Failed", Outcome: lifecycle.Failed, Row: 1, Filename: "f", URL: "u", ARK: "a", LocalIDs: []string{"l"}, Title: "t", Version: 2,
			Files: 3, Bytes: 4, FailedIn: "Storing", Cause: "c", Message: "m", Retries: 5, Reason: "r", Remedy: report.RemedyNew, Next: "n",
		}},
	}
	sent, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	var read client.BatchReport
	if err := json.Unmarshal(sent, &read); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(sent), string(again)); diff != "" {
		t.Error(diff)
	}
}

package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/lifecycle"
)

func TestReportText(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	r := Batch{BatchReport: api.BatchReport{
		Batch: "bat_1", State: stateFailed, Status: "Failed", Message: "no such file", Submitter: "ann", Submitted: at,
		Ended:    at.Add(time.Minute),
		Expected: 2, Completed: 1, Failed: 1,
		Jobs: []Job{
			{Job: "ing_1", State: stateCompleted, Outcome: lifecycle.OK, Title: "First", ARK: "ark:/1/a",
				LocalIDs: []string{"l1", "l2"}, Version: 2, Files: 3, Bytes: 4},
			{Job: "ing_2", State: stateFailed, Outcome: lifecycle.Failed, Filename: "two.checkm",
				FailedIn: stateEstimating, Cause: "not-found", Message: "no such file"},
		},
	}}
	r.Explain("")
	want := `
Submission ID: bat_1
Job(s): 

	:Number of pending job(s): 0
	:Number of completed job(s): 1
	:Number of failed job(s): 1

User agent: ann
Submission date: 2026-05-04T03:02:01Z
Completion date: 2026-05-04T03:03:01Z
Status: Failed
Status Message: no such file

What happened: 1 of your 2 objects is stored. 1 could not be stored.
What there is to do: For 1 object: correct the files at their addresses, then tell the archive; staff will retry it.

Not stored (1):

Failed two.checkm
	Job: ing_2
	Reason: a file is not where the manifest says it is
	Failed in Estimating: no such file [not-found]
	Correct the file at its address, then tell the archive; staff will retry it.

Stored (1):

Completed First
	Job: ing_1
	Primary ID: ark:/1/a
	Local ID(s): l1; l2
	Version: 2 (3 files, 4 bytes)
`
	if diff := cmp.Diff(want, r.Text()); diff != "" {
		t.Error(diff)
	}
}

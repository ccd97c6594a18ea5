package ingest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func TestReportText(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	r := BatchReport{
		Batch: "bat_1", State: Failed, Status: "Failed", Message: "no such file", Submitter: "ann", Submitted: at, Ended: at.Add(time.Minute),
		Expected: 2, Completed: 1, Failed: 1,
		Jobs: []JobReport{
			{Job: "ing_1", State: Completed, Outcome: lifecycle.OK, Title: "First", ARK: "ark:/1/a", LocalIDs: []string{"l1", "l2"}, Version: 2, Files: 3, Bytes: 4},
			{Job: "ing_2", State: Failed, Outcome: lifecycle.Failed, Filename: "two.checkm", FailedIn: Estimating, Cause: CauseNotFound, Message: "no such file"},
		},
	}
	r.explain("")
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
What there is to do: For 1 object, please put the files right where they lie, and tell the staff of the archive: they can then try it again.

Not stored (1):

Failed two.checkm
	Job: ing_2
	Reason: a file is not where the manifest says it is
	Failed in Estimating: no such file [not-found]
	Please put the file right where it lies, and tell the staff of the archive: they can then try it again.

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

func TestReportFilesAndMail(t *testing.T) {
	w := start(t)
	r := w.ingest(Submission{Filename: "f.txt", Title: "T", Notification: "Ann <ann@example.org>, bob@example.org"}, "text")
	text, err := os.ReadFile(filepath.Join(w.dir, workName, string(r.Batch), "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var onDisk BatchReport
	if err := json.Unmarshal(text, &onDisk); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, onDisk); diff != "" {
		t.Error(diff)
	}
	mails := strings.ReplaceAll(strings.Join(w.awaitMails(2), "\n=====\n"), "\n ", " ") // header lines unfolded
	for _, want := range []string{
		"Subject: Ingest: OK -- Submission Processed: " + string(r.Batch), "Message-ID: <" + string(r.Batch) + ".report.0@localhost>",
		"ann@example.org", "bob@example.org", "completed.json", "failed.json", "Submission Queued",
	} {
		if !strings.Contains(mails, want) {
			t.Errorf("%q is in no mail:\n%s", want, mails)
		}
	}
}

func TestSuppressedMails(t *testing.T) {
	for suppress, want := range map[profile.Suppress]int{profile.SuppressNone: 2, profile.SuppressPartial: 1, profile.SuppressFull: 0} {
		p := testProfile()
		p.Suppress = suppress
		w := start(t, p)
		r := w.ingest(Submission{}, "text")
		messages, err := w.store.Outbox(t.Context(), job.OutboxCall{Job: r.Batch})
		if err != nil || len(messages) != want {
			t.Errorf("%s: got %d messages, %v; want %d", suppress, len(messages), err, want)
		}
	}
}

func TestReportOfSomethingElse(t *testing.T) {
	w := start(t)
	r := w.ingest(Submission{}, "text")
	if _, err := w.Report(t.Context(), r.Jobs[0].Job); job.KindOf(err) != job.Invalid {
		t.Errorf("got %v", err)
	}
	if _, err := w.Report(t.Context(), "bat_none"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
}

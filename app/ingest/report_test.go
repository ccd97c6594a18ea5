package ingest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/job"
)

func TestReportFilesAndMail(t *testing.T) {
	w := start(t)
	r := w.ingest(Submission{Filename: "f.txt", Title: "T", Notification: "Ann <ann@example.org>, bob@example.org"},
		"text")
	text, err := os.ReadFile(filepath.Join(w.dir, workdir.WorkName, string(r.Batch), "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var onDisk report.Batch
	if err := json.Unmarshal(text, &onDisk); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, onDisk); diff != "" {
		t.Error(diff)
	}
	mails := strings.ReplaceAll(strings.Join(w.awaitMails(2), "\n=====\n"), "\n ", " ") // header lines unfolded
	for _, want := range []string{
		"Subject: Ingest: OK -- Submission Processed: " + string(r.Batch), "Message-ID: <" + string(r.Batch) +
			".report.0@localhost>",
		"ann@example.org", "bob@example.org", "completed.json", "failed.json", "Submission Queued",
	} {
		if !strings.Contains(mails, want) {
			t.Errorf("%q is in no mail:\n%s", want, mails)
		}
	}
}

func TestSuppressedMails(t *testing.T) {
	for suppress, want := range map[profile.Suppress]int{profile.SuppressNone: 2, profile.SuppressPartial: 1,
		profile.SuppressFull: 0} {
		p := testProfile()
		p.Suppress = suppress
		w := start(t, p)
		r := w.ingest(Submission{}, "text")
		messages, err := job.MessagesOf(t.Context(), w.store, r.Batch)
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

package ingest

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/job"
)

// TestReportTooLargeForAMail cuts what a mail cannot hold, and states that.
func TestReportTooLargeForAMail(t *testing.T) {
	w, post := withPost(t, testProfile())
	b := w.end(w.submit(Submission{Filename: "f.txt"}, "text").ID)
	w.arrived(post, b.ID, 2)
	r := w.reported(b.ID)
	one := r.Jobs[0]
	const n = 12_000
	r.Jobs, r.Completed, r.Expected, r.Generation = nil, n, n, 7
	for i := range n {
		one.Row, one.Title = i+1, fmt.Sprintf("Object %d %s", i+1, strings.Repeat("with a long title ", 10))
		r.Jobs = append(r.Jobs, one)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(w.dir, workdir.WorkName, string(b.ID), reportFile(7, "json"))
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(letter{receivers: receivers{To: []string{"a@example.org"}}, Subject: "s",
		MessageID: "7@localhost", Date: r.Ended, Batch: b.ID, Generation: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.deliverMail(t.Context(), job.Message{Key: "k", Body: body}); err != nil {
		t.Fatal(err)
	}
	mails := post.all()
	last := mails[len(mails)-1]
	if len(last.raw) > 12<<20 {
		t.Errorf("the mail has %d bytes", len(last.raw))
	}
	plain, html, attached := parts(t, last.raw)
	var list struct {
		Jobs []report.Job `json:"completedJobs"`
		Cut  string       `json:"cut"`
	}
	if err := json.Unmarshal([]byte(attached["completed.json"]), &list); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(attached["completed.csv"])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	whole := "https://ingest.example.org/api/v1/ingest/batches/" + string(b.ID) + "/report?format=csv-completed"
	for what, says := range map[string]string{"text": plain, "HTML": html, "completed.json": list.Cut,
		"completed.csv": rows[len(rows)-1][0]} {
		if !strings.Contains(says, "This list is cut") || !strings.Contains(says, whole) {
			t.Errorf("%s does not state that it is cut: %.300q", what, says)
		}
	}
	if len(list.Jobs) == 0 || len(list.Jobs) >= n ||
		!strings.Contains(list.Cut, fmt.Sprintf("first %d of %d", len(list.Jobs), n)) ||
		!strings.Contains(plain, "... and 11800 more.") {
		t.Errorf("got %d jobs: %s", len(list.Jobs), list.Cut)
	}
	if strings.Contains(attached["failed.json"], "cut") {
		t.Errorf("control: %s", attached["failed.json"])
	}
}

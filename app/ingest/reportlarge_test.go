package ingest

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	unescape "html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestHostileNamesInReports puts names into all that a depositor can name, and reads the mails, tables and texts as their receivers do.
func TestHostileNamesInReports(t *testing.T) {
	r := BatchReport{
		Batch: "bat_1", State: Failed, Status: "Failed", Message: "x\r\nStatus: COMPLETED", Profile: "p", Filename: "a\u202egpj.exe", Submitter: "eve\r\nBcc: x@example.org",
		Note: "<script>alert(1)</script>", Expected: 3, Completed: 1, Failed: 2,
		Jobs: []JobReport{
			{Job: "ing_1", State: Completed, Outcome: lifecycle.OK, Title: "\"><img src=x onerror=alert(1)>", ARK: "ark:/1/a", Version: 1},
			{Job: "ing_2", State: Failed, Outcome: lifecycle.Failed, Title: "@SUM(1)\nwith, \"quotes\"", FailedIn: Downloading, Cause: CauseNotFound, Message: "\r\nCompleted\n\x1b[2J"},
			{Job: "ing_3", State: Failed, Outcome: lifecycle.Failed, Filename: strings.Repeat("long", 5000), URL: "-2+3", LocalIDs: []string{"\t=1"}, FailedIn: Storing, Cause: "never heard of", Message: "\u200f\u2028"},
		},
	}
	r.explain("")
	text := r.Text()
	if n := strings.Count(text, "\nStatus: "); n != 1 {
		t.Errorf("%d lines look like the status:\n%s", n, text)
	}
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{text, unescape.UnescapeString(html)} {
		for _, c := range "\r\x1b\u202e\u200f\u2028" {
			if strings.ContainsRune(body, c) {
				t.Errorf("%U is in the body", c)
			}
		}
		if strings.Contains(body, strings.Repeat("long", 100)) || !strings.Contains(body, "…") {
			t.Error("a name of 20,000 characters is not cut")
		}
		if !strings.Contains(body, "U+202E") && !strings.Contains(body, "U+000D") {
			t.Error("what was taken out is not shown")
		}
	}
	if strings.Contains(html, "<img") || strings.Contains(html, "<script") {
		t.Error("the HTML is not escaped")
	}
	if !strings.Contains(text, "something went wrong on our side") {
		t.Errorf("a cause without words: %s", text)
	}
	rows, err := csv.NewReader(strings.NewReader(string(r.CSV(false)))).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("got %d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		for i, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r\n") {
				t.Errorf("%s is a formula: %q", csvColumns[i], cell)
			}
		}
	}
	if rows[1][2] != "'@SUM(1)\nwith, \"quotes\"" || rows[2][3] != strings.Repeat("long", 5000) {
		t.Errorf("the data is not whole: %q", rows[1][2])
	}
}

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "": "", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", " =1": "' =1", "\t=1": "'\t=1", "\r\n=1": "'\r\n=1", "＝1": "'＝1",
		"\"=1": "'\"=1", "\u200b=1": "'\u200b=1", "|cmd": "'|cmd", "a=1": "a=1", "a\x00b": "a b", "ark:/1/a": "ark:/1/a", "\xff": "\ufffd",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestReportTooLargeForAMail cuts what a mail cannot hold, and says so.
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
	name := filepath.Join(w.dir, workName, string(b.ID), reportFile(7, "json"))
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(letter{receivers: receivers{To: []string{"a@example.org"}}, Subject: "s", MessageID: "7@localhost", Date: r.Ended, Batch: b.ID, Generation: 7})
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
		Jobs []JobReport `json:"completedJobs"`
		Cut  string      `json:"cut"`
	}
	if err := json.Unmarshal([]byte(attached["completed.json"]), &list); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(attached["completed.csv"])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	whole := "https://ingest.example.org/api/ingest/batches/" + string(b.ID) + "/report?format=csv-completed"
	for what, says := range map[string]string{"text": plain, "HTML": html, "completed.json": list.Cut, "completed.csv": rows[len(rows)-1][0]} {
		if !strings.Contains(says, "This list is cut") || !strings.Contains(says, whole) {
			t.Errorf("%s does not say that it is cut: %.300q", what, says)
		}
	}
	if len(list.Jobs) == 0 || len(list.Jobs) >= n || !strings.Contains(list.Cut, fmt.Sprintf("first %d of %d", len(list.Jobs), n)) || !strings.Contains(plain, "... and 11800 more.") {
		t.Errorf("got %d jobs: %s", len(list.Jobs), list.Cut)
	}
	if strings.Contains(attached["failed.json"], "cut") {
		t.Errorf("control: %s", attached["failed.json"])
	}
}

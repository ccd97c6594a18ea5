package report

import (
	"encoding/csv"
	unescape "html"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestHostileNamesInReports puts names into all that a depositor can name, and reads the mails, tables and texts as
// their receivers do.
func TestHostileNamesInReports(t *testing.T) {
	r := Batch{BatchReport: api.BatchReport{
		Batch: "bat_1", State: stateFailed, Status: "Failed", Message: "x\r\nStatus: COMPLETED", Profile: "p",
		Filename: "a\u202egpj.exe", Submitter: "eve\r\nBcc: x@example.org",
		Note: "<script>alert(1)</script>", Expected: 3, Completed: 1, Failed: 2,
		Jobs: []Job{
			{Job: "ing_1", State: stateCompleted, Outcome: lifecycle.OK, Title: "\"><img src=x onerror=alert(1)>",
				ARK: "ark:/1/a", Version: 1},
			{Job: "ing_2", State: stateFailed, Outcome: lifecycle.Failed, Title: "@SUM(1)\nwith, \"quotes\"",
				FailedIn: stateDownloading, Cause: "not-found", Message: "\r\nCompleted\n\x1b[2J"},
			{Job: "ing_3", State: stateFailed, Outcome: lifecycle.Failed, Filename: strings.Repeat("long", 5000),
				URL: "-2+3", LocalIDs: []string{"\t=1"}, FailedIn: stateStoring, Cause: "unknown cause",
				Message: "\u200f\u2028"},
		},
	}}
	r.Explain("")
	text := r.Text()
	if n := strings.Count(text, "\nStatus: "); n != 1 {
		t.Errorf("%d lines resemble the status:\n%s", n, text)
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

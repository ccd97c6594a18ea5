package report

import (
	"strings"
	"testing"
)

// TestQueuedFiles names the files of a submission: one, or the first of several and their number.
func TestQueuedFiles(t *testing.T) {
	for want, q := range map[string]Queued{
		"x.txt":                     {Filename: "x.txt"},
		"x.txt and 2 more, 3 files": {Filename: "x.txt", Files: 3},
		"3 files":                   {Files: 3},
	} {
		q.Bytes = 6
		body, err := q.Body("")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(body.Text, "\nFile: "+want+"\n") ||
			!strings.Contains(body.Text, "We received your submission: "+want+", 6 bytes.") ||
			!strings.Contains(body.HTML, want) {
			t.Errorf("%s: got %s\n%s", want, body.Text, body.HTML)
		}
	}
}

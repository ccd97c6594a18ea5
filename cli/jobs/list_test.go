package jobs

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
)

// TestListFitsALine: on a terminal of 80 columns a job is one line, in which the title is cut before the object.
func TestListFitsALine(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	const object = "ark:/99999/fk4abcdefgh"
	var b bytes.Buffer
	c := &Commands{Call: &cli.Call{Out: &cli.Printer{Writer: &b, Mode: cli.ModeTable, Terminal: true, Width: 80}}}
	one := job.Job{ID: "ing_01JA0B1C2D3E4F5G6H7J8K9MNP", Kind: "ingest.job", Object: object, Created: time.Now(),
		Title: strings.Repeat("title ", 20), Message: strings.Repeat("reason ", 20)}
	one.State = "Provisioning"
	batch := one
	batch.Kind, batch.Object, batch.State = "ingest.batch", "", "UpdateReporting"
	if err := c.printJobs([]job.Job{one, batch}, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if len(lines) != 3 || !strings.Contains(b.String(), object) {
		t.Errorf("got\n%s", b.String())
	}
}

package archivecli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
)

// aSchedule is a schedule with an activity that waits after failures, and a newest run that was dry.
func aSchedule(t *testing.T) *client.ArchiveSchedule {
	t.Helper()
	at := time.Date(2026, 5, 4, 2, 30, 0, 0, time.UTC)
	why := "mod_quiz_get_attempt_review: the account has no right to view the attempt (nopermissions)"
	data, err := json.Marshal(client.ArchiveRun{Waiting: 1, Omitted: 2, Decisions: []client.ArchiveDecision{
		{Mark: "IGNORE", Course: "5", Activity: "59", Module: "label", Name: "Hello", Reason: "labels have no content"},
		{Mark: "SKIP", Course: "5", Activity: "51", Module: "quiz",
			Name:   "A quiz with a name that is so long that it does not fit the line of a terminal",
			Reason: "its archive failed (3 times); " + why},
		{Mark: "ARCHIVE", Course: "6", Activity: "61", Module: "quiz", Name: "Quiz 61", Reason: "it has no archive"},
	}})
	must(t, err)
	last := &client.Job{}
	last.ID, last.State, last.Created, last.Data = "run_01J9ZZZZZZZZZZZZZZZZZZZZZZ", "Completed", at, data
	last.Message = "dry run: 1 activity would be archived of 2 courses; 1 skipped (1 after failures), 1 ignored"
	return &client.ArchiveSchedule{
		Name: "nightly", Source: "campus", Cron: "30 2 * * 1-5", TimeZone: "Europe/Vienna", Next: at, Last: last,
		Waits: 1, Waiting: []client.ArchiveWaiting{{
			Course: "5", Activity: "51", Name: "Quiz 51", Failures: 3, Last: at, Until: at.Add(96 * time.Hour),
			Cause: why, Job: "arc_01J9ZZZZZZZZZZZZZZZZZZZZZZ",
		}},
	}
}

// TestScheduleOnATerminal: on a terminal of 80 columns no line is longer, and nothing that explains a decision or a
// pause is cut. What is archived comes first. The control is a pipe, whose lines have tabs and are not wrapped.
func TestScheduleOnATerminal(t *testing.T) {
	for _, pipe := range []bool{false, true} {
		var b bytes.Buffer
		p := &cli.Printer{Writer: &b, Mode: cli.ModeTable, Terminal: true, Width: 80}
		if pipe {
			p = &cli.Printer{Writer: &b, Mode: cli.ModePlain, Width: 80}
		}
		c := &commands{jobs.Commands{Call: &cli.Call{Out: p}}}
		must(t, c.printSchedule(aSchedule(t)))
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range []string{
			"it has no archive", "its archive failed (3 times); mod_quiz_get_attempt_review: the account has no " +
				"right to view the attempt (nopermissions)",
			"does not fit the line of a terminal", "labels have no content", "arc_01J9ZZZZZZZZZZZZZZZZZZZZZZ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("pipe %t: it does not have %q:\n%s", pipe, want, b.String())
			}
		}
		long := false
		for line := range strings.Lines(b.String()) {
			long = long || utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 80
		}
		if long != pipe {
			t.Errorf("pipe %t: a line is longer than 80 columns: %t\n%s", pipe, long, b.String())
		}
		first, last := strings.Index(text, "ARCHIVE"), strings.Index(text, "IGNORE")
		if first < 0 || last < first || strings.Index(text, "SKIP") < first {
			t.Errorf("pipe %t: the order of the decisions is wrong:\n%s", pipe, b.String())
		}
		if !pipe && !strings.Contains(text, "3 failures, until") ||
			pipe && !strings.Contains(b.String(), "\nwaiting\t") {
			t.Errorf("pipe %t: what waits is missing:\n%s", pipe, b.String())
		}
	}
}

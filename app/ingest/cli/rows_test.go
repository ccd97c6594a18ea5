package ingestcli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

const (
	ark = "ark:/99999/fk4abcdefgh"
	bat = "bat_01JA0B1C2D3E4F5G6H7J8K9MNP"
)

// lists prints every list with long values; each has one row.
var lists = map[string]func(c *commands) error{
	"objects": func(c *commands) error {
		return c.printObjects([]client.Object{{ARK: ark, Owner: "library", LocalIDs: []string{long("id")},
			Title: long("title"), Head: 12,
			Changed: time.Now()}}, false)
	},
	"hooks": func(c *commands) error {
		return c.PrintHooks([]client.Hook{{Key: bat + "/12/batch-completed/library", Type: "batch.completed",
			Host:   "hooks.example.org:8443",
			Status: "delivered", Attempts: 8, Created: time.Now(), Error: long("error")}}, false)
	},
	"orphans": func(c *commands) error {
		return c.printOrphans(&client.Orphans{Orphans: []client.Orphan{{Level: "FAIL", Rule: "payload-without-batch",
			Name: long("work/"), What: long("what")}}}, nil)
	},
	"batches": func(c *commands) error {
		return c.printBatches([]client.QueueBatch{{Level: "WARN", Job: bat, State: "UpdateReporting",
			Group: long("group"), Message: long("message"),
			Children: job.Children{Expected: 123456}}})
	},
	"queue": func(c *commands) error {
		return c.printQueue(&client.Queue{Rows: []client.QueueRow{{Group: long("group"), Kind: "ingest.batch",
			State: "UpdateReporting", Bytes: 1 << 40}}})
	},
	"holds": func(c *commands) error {
		scope := job.Scope{Kind: "ingest.job", State: "Storing", Group: "maps"}
		return c.printHolds(&client.QueueHolds{Holds: []client.QueueHold{{Hold: job.Hold{Scope: scope,
			Who: "an operator",
			Why: long("why"), Since: time.Now()}}}})
	},
	"locks": func(c *commands) error {
		return c.printLocks([]client.Lock{{Kind: "object", Name: ark, Holder: bat, State: "left",
			JobState: "UpdateReporting", Since: time.Now()}})
	},
	"files": func(c *commands) error {
		return c.printFiles(&client.JobFiles{Files: []client.JobFile{{State: "fetched", Size: 1 << 40,
			Path: long("producer/"), Type: "image/tiff",
			From: long("https://"), Digests: map[string]string{"sha256": strings.Repeat("0", 64)}}}})
	},
	"storage": func(c *commands) error {
		return c.printStorage([]client.StorageLocation{{Dir: long("/mnt/"), State: "refused",
			Profiles: []string{long("a"), long("b")},
			Location: bat, Reason: long("reason")}})
	},
	"profiles": func(c *commands) error {
		return c.printProfiles([]client.Profile{{ID: "maps", Collection: "maps", Owner: "library",
			Storage:  []string{long("a")},
			Webhooks: []string{long("b")}, File: long("/etc/"), Description: long("description")}})
	},
}

func long(text string) string { return text + strings.Repeat(" and more", 20) }

// TestListsFitALine prints each list on a terminal of 80 columns: the heading and one line. Identifiers of objects are
// whole. In a pipe, the control, nothing is cut.
func TestListsFitALine(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for name, list := range lists {
		var out, errs bytes.Buffer
		c := &commands{Commands: jobs.Commands{Call: &cli.Call{Err: &cli.Printer{Writer: &errs},
			Out: &cli.Printer{Writer: &out, Mode: cli.ModeTable, Terminal: true, Width: 80}}}}
		if err := list(c); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		rows := 2
		if name == "queue" {
			rows++ // the total
		}
		if len(lines) != rows {
			t.Errorf("%s: %d lines:\n%s", name, len(lines), out.String())
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if (name == "objects" || name == "locks") && !strings.Contains(out.String(), ark) {
			t.Errorf("%s: the ARK is cut:\n%s", name, out.String())
		}
		out.Reset()
		c.Out.Mode, c.Out.Terminal = cli.ModePlain, false
		if err := list(c); err != nil || strings.Contains(out.String(), "...") ||
			name != "locks" && !strings.Contains(out.String(), " and more and more and more") {
			t.Errorf("%s in a pipe: %v\n%s", name, err, out.String())
		}
	}
}

package hostcli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

const ark = "ark:/99999/fk4abcdefghijk"

func long(text string) string { return text + strings.Repeat(" and more", 20) }

// fixityLists are the lists of the commands, each with one row.
var fixityLists = map[string]func(c *commands) error{
	"locations": func(c *commands) error {
		return c.writeFixity(client.Fixity{Locations: []client.FixityLocation{{
			Application: "ingest", Location: long("/mnt/"), Copies: 123456, Oldest: time.Now(), Overdue: 12345,
			Damaged: 1, Healed: 1, Reason: long("reason"),
			Check: &client.FixityCheck{Began: time.Now(), Ended: time.Now(), Files: 1 << 30, Bytes: 1 << 50},
		}}})
	},
	"faults": func(c *commands) error {
		return c.writeFixityFaults([]client.FixityFault{{Kind: "changed", Location: long("/mnt/"), Object: ark,
			Version: 12, Path: long("producer/"), Since: time.Now(), Job: "ing_1", Detail: long("detail")}})
	},
	"objects": func(c *commands) error {
		return c.printFixityObjects([]client.FixityObject{{Application: "archive", Object: ark, Copies: 12345,
			Locations: []string{long("/mnt/a"), "b"}, Checked: time.Now(), Overdue: 12345, Healed: 1}}, false)
	},
}

// TestFixityFitsALine prints each list on a terminal of 80 columns: the heading and one line, with the object as a
// whole. In a pipe, the control, nothing is cut.
func TestFixityFitsALine(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for name, list := range fixityLists {
		var out, errs bytes.Buffer
		c := &commands{Call: &cli.Call{Err: &cli.Printer{Writer: &errs},
			Out: &cli.Printer{Writer: &out, Mode: cli.ModeTable, Terminal: true, Width: 80}}}
		if err := list(c); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 2 || name != "locations" && !strings.Contains(lines[1], ark) {
			t.Errorf("%s: %q", name, lines)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		out.Reset()
		c.Out.Mode, c.Out.Terminal = cli.ModePlain, false
		if err := list(c); err != nil || !strings.Contains(out.String(), " and more and more and more") ||
			strings.Contains(out.String(), "...") {
			t.Errorf("%s in a pipe: %v\n%s", name, err, out.String())
		}
	}
}

// TestFixityExits: damage that was not healed is an error, whose exit code is 5; what was healed is not.
func TestFixityExits(t *testing.T) {
	c := &commands{Call: &cli.Call{Out: &cli.Printer{Writer: new(bytes.Buffer)}}}
	healed := client.FixityObject{Object: "a", Healed: 1}
	if err := c.printFixityObjects([]client.FixityObject{healed}, false); err != nil {
		t.Errorf("control: %v", err)
	}
	for _, err := range []error{
		c.printFixityObjects([]client.FixityObject{healed, {Object: "b", Damaged: 2}}, false),
		c.printFixity(client.Fixity{Count: 1, Faults: []client.FixityFault{{Kind: "changed"}}}),
	} {
		if n, known := code(err); n != cli.ExitFailed || !known {
			t.Errorf("%v: got %d", err, n)
		}
	}
	away := client.Fixity{Locations: []client.FixityLocation{{Location: "far", Reason: "it is away"}}}
	if err := c.printFixity(away); err == nil || !strings.Contains(err.Error(), "far was not checked: it is away") {
		t.Errorf("got %v", err)
	}
}

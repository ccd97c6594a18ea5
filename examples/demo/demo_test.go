package demo

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
)

// TestColors: commands are bold on a terminal, and plain in a pipe and with NO_COLOR.
func TestColors(t *testing.T) {
	for _, test := range []struct {
		terminal bool
		noColor  string
		want     string
	}{
		{true, "", "\x1b[1m$ stagepost list\x1b[0m\n"},
		{true, "1", "$ stagepost list\n"},
		{false, "", "$ stagepost list\n"},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		var out bytes.Buffer
		printer := &cli.Printer{Writer: &out, Mode: cli.ModeTable, Terminal: test.terminal, Width: columns}
		d := &demo{commands: &commands{jobs.Commands{Call: &cli.Call{Out: printer}}, nil}}
		d.command("%s", "list")
		if got := strings.ReplaceAll(out.String(), "\r", ""); got != test.want {
			t.Errorf("terminal %t, NO_COLOR %q: %q, want %q", test.terminal, test.noColor, got, test.want)
		}
	}
}

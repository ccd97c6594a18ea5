package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
)

// TestEveryCommandHasAnExample walks the tree of commands. TestCommandsOfDocuments parses the examples.
func TestEveryCommandHasAnExample(t *testing.T) {
	for _, cmd := range allCommands(newCall(nil, &bytes.Buffer{}, &bytes.Buffer{}).Root()) {
		if path := cmd.CommandPath(); !cmd.Hidden && cmd.HasParent() && cli.LongForm(cmd) == "" &&
			!strings.Contains(cmd.Example, path) && !strings.Contains(cmd.Example, "stagepost "+cmd.Name()) {
			t.Errorf("%s has no example of itself: %q", path, cmd.Example)
		}
	}
}

// TestHelpFitsOneScreen: the help of the program is for 80 columns and about 40 lines, and names every group and command of the first level.
func TestHelpFitsOneScreen(t *testing.T) {
	var out bytes.Buffer
	c := newCall(nil, &out, &bytes.Buffer{})
	c.Out.Terminal, c.Out.Width = true, 80
	c.Run([]string{"help"})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) > 42 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("longer than 80 columns: %s", line)
		}
	}
	for _, cmd := range c.Root().Commands() {
		if !cmd.Hidden && !strings.Contains(out.String(), cmd.Name()) {
			t.Errorf("%s is missing", cmd.Name())
		}
	}
}

// TestShortForms: a short form has the flags of the command that it stands for, and each names the other in its help.
func TestShortForms(t *testing.T) {
	root := newCall(nil, &bytes.Buffer{}, &bytes.Buffer{}).Root()
	found := 0
	for _, short := range root.Commands() {
		long := cli.LongForm(short)
		if long == "" {
			continue
		}
		found++
		of, _, err := root.Find(strings.Fields(long)[1:])
		if err != nil || of.CommandPath() != long || of.Flags().FlagUsages() != short.Flags().FlagUsages() {
			t.Errorf("%s is not %s: %v", short.CommandPath(), long, err)
			continue
		}
		for cmd, other := range map[*cobra.Command]string{short: long, of: short.CommandPath()} {
			if !strings.Contains(cmd.UsageString(), ": "+other) {
				t.Errorf("the help of %s does not name %s", cmd.CommandPath(), other)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d short forms", found)
	}
}

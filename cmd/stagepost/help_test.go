package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
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

// TestHelpFitsOneScreen: the help of the program is for 80 columns and about 40 lines, and names every group and
// command of the first level.
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

// daily are the commands that the help lists for every day, with the long form of those that have one. The others stand
// for jobs of every application: there is no other form of them.
var daily = map[string]string{
	"submit": "ingest submit", "run": "compute run",
	"list": "", "why": "", "show": "", "watch": "", "retry": "", "logs": "",
}

// TestShortForms: a daily command has the flags, arguments and text of its long form, and each names the other in its
// help.
func TestShortForms(t *testing.T) {
	root := newCall(nil, &bytes.Buffer{}, &bytes.Buffer{}).Root()
	found := map[string]string{}
	for _, cmd := range root.Commands() {
		if cmd.Annotations["section"] == "daily" || cli.LongForm(cmd) != "" {
			found[cmd.Name()] = strings.TrimPrefix(cli.LongForm(cmd), "stagepost ")
		}
	}
	if diff := cmp.Diff(daily, found); diff != "" {
		t.Errorf("the daily commands (-want +got):\n%s", diff)
	}
	for name, long := range daily {
		if long == "" {
			continue
		}
		short, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		of, _, err := root.Find(strings.Fields(long))
		if err != nil || of.CommandPath() != "stagepost "+long ||
			of.Flags().FlagUsages() != short.Flags().FlagUsages() ||
			of.Use != short.Use || of.Short != short.Short || of.Long != short.Long {
			t.Errorf("%s is not %s: %v", name, long, err)
			continue
		}
		for cmd, other := range map[*cobra.Command]string{short: of.CommandPath(), of: short.CommandPath()} {
			if !strings.Contains(cmd.UsageString(), ": "+other) {
				t.Errorf("the help of %s does not name %s", cmd.CommandPath(), other)
			}
		}
	}
}

// made matches what differs from one job to the next: ids, times, and how far a job is at the moment.
var made = regexp.MustCompile(`(?m)^bat_\w+\t\w+|^event\t\d+|\b[a-z]{3}_[0-9A-Z]{26}\b|` +
	`\d{4}-\d\d-\d\dT[\d:.]+Z|ark:/\d+/\w+|engine/\w+`)

// passing matches the lines about what a command happens to see on the way.
var passing = regexp.MustCompile(`(?m)^(progress|event\t\d+\t\S+\twait)\t.*\n`)

// TestShortFormsDoTheSame runs the daily commands in both forms, rightly and wrongly: output, errors and exit codes are
// the same but for ids and times.
func TestShortFormsDoTheSame(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("STAGEPOST_DATA", "data")
	write(t, "letter.txt", "Dear Anna,\n")
	r, err := started(t, "--data=data", "--compute-local=1", "--compute-sandbox=auto")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop()
	for _, c := range []struct {
		args string
		code int
	}{
		{"submit letter.txt --wait", cli.ExitOK},
		{"submit letter.txt --profile nothing", cli.ExitUsage},
		{"submit", cli.ExitUsage},
		{"submit . --wait", cli.ExitUsage},
		{"run letter.txt -- cat letter.txt", cli.ExitOK},
		{"run letter.txt -- sh -c 'echo out; exit 7'", 7},
		{"run letter.txt --service nothing -- true", cli.ExitUsage},
		{"run", cli.ExitUsage},
	} {
		forms := [2]string{}
		args := split(c.args)
		for i, args := range [][]string{args, append(strings.Fields(daily[args[0]]), args[1:]...)} {
			var out, errs bytes.Buffer
			if code := newCall(strings.NewReader(""), &out, &errs).Run(args); code != c.code {
				t.Errorf("%s: exit code %d, want %d: %s", strings.Join(args, " "), code, c.code, errs.String())
			}
			text := made.ReplaceAllString(passing.ReplaceAllString(out.String()+errs.String(), ""), "...")
			forms[i] = strings.ReplaceAll(text, "stagepost "+daily[args[0]], "stagepost "+args[0])
			if i == 1 {
				forms[i] = strings.ReplaceAll(text, "stagepost "+strings.Join(args[:2], " "), "stagepost "+args[1])
			}
		}
		if diff := cmp.Diff(forms[0], forms[1]); diff != "" || forms[0] == "" {
			t.Errorf("%s (-short +long):\n%s", c.args, diff)
		}
	}
}

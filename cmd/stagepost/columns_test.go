package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/host"
)

// trial are the commands of TestTerminalOf80Columns in the order of a session. NAME of a file is in the directory of the
// test; DIR is the data directory.
const trial = `
submit letter.txt --title "A letter with a title that is far too long for a list of eighty columns" --wait
submit letter.txt --key second
ingest.job/1: show why history logs watch retry stop delete cancel priority_5 event_requeue
ingest.batch/1: show why history watch
run letter.txt -- sh -c "echo out; exit 7"
run letter.txt --detach -- true
compute.job/1: show why history logs logs_--events cancel priority_5 retry delete
compute results compute.job/1 --list
compute clone compute.job/1 --limit memory=64MiB
compute clean compute.job/1
compute jobs
compute services
compute agents
list
list --open
list --kind ingest.job
stuck
bulk retry --state Failed --dry-run
bulk delete --state Failed --kind compute.job --note x
create ingest.job
hold
hold --group maps --note "a reason that is long enough to need a second line on a terminal of eighty columns"
hold
release --group maps
admin drain --no-wait --note disks
admin resume
admin audit
admin outbox
admin health
admin clock
admin config
admin config --origin
admin backup
admin fsck
admin verify
admin verify compute.job/2
admin accept
admin accept --note x
admin token list missing
admin token new --owner ann --role operator tokens
admin token list tokens
admin restore missing --check
lifecycle list
lifecycle show ingest.job
lifecycle draw ingest.batch -o mermaid
lifecycle lint letter.txt
lifecycle remove nothing
version
completion
nosuch
why 99
list --data /nowhere/at/all/that/is/a/directory/with/a/long/name
`

// raw are the notations of programs: durations of Go, times of RFC 3339, JSON.
var raw = regexp.MustCompile(`\b\d+h\d+m\d|\b\d+m\d+(\.\d+)?s\b|\d{4}-\d\d-\d\dT\d\d:\d\d|\{"|^[{}\]]`)

// unfit returns what is wrong with the output of a command on a terminal of 80 columns. A line that is one word, such as
// an address, can be longer.
func unfit(text string) (faults []string) {
	for line := range strings.Lines(sequences.ReplaceAllString(text, "")) {
		line = strings.TrimRight(line, "\n")
		if i := strings.LastIndex(line, "\r"); i >= 0 {
			line = line[i+1:] // what was above it on the terminal is overwritten
		}
		if utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimSpace(line), " ") {
			faults = append(faults, "longer than 80 columns: "+line)
		}
		if raw.MatchString(line) {
			faults = append(faults, "not for people: "+line)
		}
	}
	return faults
}

var sequences = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// TestTerminalOf80Columns runs commands on a terminal: no line is too long, and none has the notations of programs.
func TestTerminalOf80Columns(t *testing.T) {
	for _, planted := range []string{
		"a word " + strings.Repeat("x", 80), "it took 1h0m0s", "in 2m3.5s", "at 2026-01-02T15:04:05Z", `{"a":1}`, "{", "  {\n}",
	} {
		if len(unfit(planted+"\n")) != 1 {
			t.Errorf("control: %q has %q", planted, unfit(planted))
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	data := filepath.Join(dir, "data")
	if err := os.WriteFile("letter.txt", []byte("Dear Anna,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := started(t, "--data="+data, "--compute-local=2", "--compute-sandbox=auto")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop()
	tried := 0
	for line := range strings.Lines(trial) {
		for _, args := range trialCalls(strings.TrimSpace(line)) {
			out, errs := onTerminal(append(args, "--data", data))
			tried++
			for _, fault := range unfit(out + errs) {
				t.Errorf("%s: %s", strings.Join(args, " "), fault)
			}
			if out+errs == "" && args[0] != "watch" && args[0] != "logs" && args[0] != "run" {
				t.Errorf("%s prints nothing", strings.Join(args, " "))
			}
		}
	}
	if tried < 70 {
		t.Errorf("%d commands were tried", tried)
	}
}

// started starts a server in this process as serve does with flags, on a free port unless they name one.
func started(t *testing.T, args ...string) (*host.Server, error) {
	t.Helper()
	s := newSettings()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.Bind(flags, config.Shared)
	s.Bind(flags, "serve")
	flags.StringVar(&s.Named, "config", "", "")
	if err := flags.Parse(append([]string{"--listen=127.0.0.1:0"}, args...)); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(flags, func(string) (string, bool) { return "", false }); err != nil {
		return nil, cli.Usage(err)
	}
	return host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
}

// trialCalls returns the calls of a line: one, or one for each command about a job.
func trialCalls(line string) (all [][]string) {
	id, commands, many := strings.Cut(line, ": ")
	switch {
	case line == "":
		return nil
	case !many || strings.Contains(id, " "):
		return [][]string{split(strings.ReplaceAll(line, `"`, "'"))}
	}
	for command := range strings.FieldsSeq(commands) {
		words := strings.Split(command, "_")
		if words[0] == "logs" {
			all = append(all, append([]string{"logs", id}, words[1:]...))
		} else {
			all = append(all, append(words, id))
		}
	}
	return all
}

// onTerminal runs a command on a terminal of 80 columns.
func onTerminal(args []string) (out, errs string) {
	var o, e bytes.Buffer
	c := newCall(strings.NewReader(""), &o, &e)
	for _, p := range []*cli.Printer{c.Out, c.Err} {
		p.Terminal, p.Mode, p.Width = true, cli.ModeTable, 80
	}
	c.Run(args)
	return o.String(), e.String()
}

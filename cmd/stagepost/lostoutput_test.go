package main

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stagepost/stagepost/cli"
)

// full is an output on a disk without free space, or another one whose writes fail.
type full struct {
	err    error
	writes int
}

func (f *full) Write([]byte) (int, error) { f.writes++; return 0, f.err }

// lost runs a command whose output is lost.
func lost(err error, args ...string) (code, writes int, errs string) {
	out, e := &full{err: err}, &bytes.Buffer{}
	code = newCall(strings.NewReader(""), out, e).Run(args)
	return code, out.writes, e.String()
}

// checkLost reports a command that printed and does not report that the output was lost.
func checkLost(t *testing.T, args []string) (printed bool) {
	t.Helper()
	code, writes, errs := lost(syscall.ENOSPC, args...)
	if writes > 0 && (code == cli.ExitOK || !strings.Contains(errs, "the output is incomplete: ") ||
		strings.Count(errs, syscall.ENOSPC.Error()) != 1) {
		t.Errorf("%s: exit code %d, and on standard error: %s", strings.Join(args, " "), code, errs)
	}
	return writes > 0
}

// TestLostHelp asks every command for its help with an output that fails.
func TestLostHelp(t *testing.T) {
	for _, cmd := range allCommands(newCall(nil, io.Discard, io.Discard).Root()) {
		words := strings.Fields(cmd.CommandPath())[1:]
		if !checkLost(t, append(words, "--help")) || !checkLost(t, append([]string{"help"}, words...)) {
			t.Errorf("%s has no help", cmd.CommandPath())
		}
	}
	for _, line := range []string{"version", "--version", "completion bash", "admin config", "lifecycle list", ""} {
		if args := strings.Fields(line); !checkLost(t, args) {
			t.Errorf("%q prints nothing", line)
		}
	}
	for _, err := range []error{syscall.EPIPE, io.ErrClosedPipe} {
		if code, _, errs := lost(err, "help"); code == cli.ExitOK || errs != "" {
			t.Errorf("a pipe whose reader has ended: exit code %d, %s", code, errs)
		}
	}
}

// TestLostOutput runs the commands of the trial with an output that fails. The trial has every command that prints
// ([TestTerminalOf80Columns]).
func TestLostOutput(t *testing.T) {
	defer startTrial(t).Stop()
	printed := 0
	for line := range strings.Lines(trial) {
		for _, args := range trialCalls(strings.TrimSpace(line)) {
			if checkLost(t, args) {
				printed++
			}
		}
	}
	if printed < 100 {
		t.Errorf("only %d commands printed", printed)
	}
}

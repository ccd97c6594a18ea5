package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// traceFile is beside the directory of a measurement.
func traceFile(dir string) string { return dir + ".trace" }

// strace is the beginning of a command line that writes the syncs of a program and of all that it starts to a file.
func strace(dir string) []string {
	return []string{"strace", "-f", "-qq", "-o", traceFile(dir), "-e", "trace=fsync,fdatasync", "-e", "signal=none"}
}

// hasStrace returns what to install to count syncs.
func hasStrace() error {
	if _, err := exec.LookPath("strace"); err != nil {
		return errors.New("strace is not installed (apt-get install strace)")
	}
	return nil
}

// noFile is no descriptor: a sync of it fails and does nothing but appear in the trace.
const noFile = -1

// mark is where counting begins and ends.
func mark() { _ = unix.Fsync(noFile) }

// countSyncs counts the calls between the first and the last mark of a trace.
func countSyncs(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return countCalls(string(text))
}

func countCalls(trace string) (int, error) {
	marks, calls := 0, 0
	for line := range strings.Lines(trace) {
		switch {
		case strings.Contains(line, fmt.Sprintf("fsync(%d)", noFile)):
			marks++
		case marks == 1 && (strings.Contains(line, "fsync(") || strings.Contains(line, "fdatasync(")):
			calls++
		}
	}
	if marks != 2 {
		return 0, fmt.Errorf("the trace has %d marks, want 2", marks)
	}
	return calls, nil
}

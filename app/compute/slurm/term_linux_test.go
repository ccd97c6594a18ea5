package slurm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/app/compute"
)

// TestTermToScriptAlone: with proctrack/cgroup Slurm sends TERM to the batch script and to no one else. run.sh gets it,
// and how it ends then is what is written down; so does what is deep below it.
func TestTermToScriptAlone(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		exit   int
		signal int
		out    string
	}{
		"trap":      {"trap 'echo got; exit 3' TERM; echo ready; sleep 600 & wait", 3, 0, "ready\ngot\n"},
		"grandson":  {"trap : TERM; bash -c 'trap \"echo got; exit 4\" TERM; echo ready; sleep 600 & wait'; exit $?", 4, 0, "ready\ngot\n"},
		"no trap":   {"echo ready; exec sleep 600", -1, 15, "ready\n"},
		"ends well": {"trap 'echo got; exit 0' TERM; echo ready; sleep 600 & wait", 0, 0, "ready\ngot\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, out := batch(t, c.script, compute.Limits{}, func(p *os.Process) { _ = p.Signal(syscall.SIGTERM) })
			if e.Exit != c.exit || e.Signal != c.signal || !e.Notified || out != c.out {
				t.Errorf("got %+v, %q, want %+v", e, out, c)
			}
		})
	}
	t.Run("control", func(t *testing.T) { // no one sends anything
		e, out := batch(t, "echo ready; exit 7", compute.Limits{}, func(*os.Process) {})
		if e.Exit != 7 || e.Notified || out != "ready\n" {
			t.Errorf("got %+v, %q", e, out)
		}
	})
}

// runs numbers them: processes of one are found by its number.
var runs atomic.Int64

// batch runs batch.sh for a script as Slurm does, and calls a function when the script has written "ready".
func batch(t *testing.T, text string, l compute.Limits, ready func(*os.Process)) (exited, string) {
	t.Helper()
	top := t.TempDir()
	s := open(t, options(top))
	dir := filepath.Join(top, "job.1")
	if err := os.MkdirAll(filepath.Join(dir, workDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{batchFile: s.wrapper("job.1", l), envFile: "",
		workDir + "/run.sh": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, outFile), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := os.OpenFile(filepath.Join(dir, outFile), os.O_RDWR, 0) // the script finds a reader
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*enough)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-p", filepath.Join(dir, batchFile))
	cmd.Env = append(os.Environ(), fmt.Sprintf("SLURM_JOB_ID=%d", int64(os.Getpid())*1000+runs.Add(1)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	part := make([]byte, 100)
	for !strings.Contains(out.String(), "ready\n") {
		n, err := read.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(part[:n])
	}
	ready(cmd.Process)
	_ = cmd.Wait() // the code is run.sh's
	if ctx.Err() != nil {
		t.Fatal("it did not end")
	}
	if _, err := read.WriteString("end of it"); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(out.String(), "end of it") {
		n, err := read.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(part[:n])
	}
	written, err := os.ReadFile(filepath.Join(dir, exitFile))
	if err != nil {
		t.Fatal(err)
	}
	var e exited
	if err := json.Unmarshal(written, &e); err != nil {
		t.Fatal(err)
	}
	return e, strings.TrimSuffix(out.String(), "end of it")
}

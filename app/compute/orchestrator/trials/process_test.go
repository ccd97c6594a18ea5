//go:build linux

package trials

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// process is the built program, running.
type process struct {
	t    *testing.T
	args []string
	env  []string
	cmd  *exec.Cmd
	url  string
	dir  string // in which it runs
}

// launch starts the program and waits until it reports that it is ready. It ends with the test.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, args: args, env: env, dir: t.TempDir()}
	p.start()
	t.Cleanup(p.kill)
	return p
}

// start starts it, once more on what the one before left.
func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(program, p.args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.t.TempDir()}, p.env...)
	p.cmd.Dir = p.dir
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		p.t.Fatalf("%v did not start: %v", p.args, err)
	}
	go io.Copy(io.Discard, out)
	_, rest, _ := strings.Cut(line, "http://")
	address, _, _ := strings.Cut(rest, ",")
	p.url = "http://" + address
}

// fails starts it when it must refuse to, and returns its exit code and its output.
func (p *process) fails(env []string, args ...string) (code int, text string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.t.TempDir()}, env...)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	p.t.Fatalf("%v: %v", args, err)
	return 0, ""
}

// kill ends it by SIGKILL, the sudden death of the trials.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // returns that it was killed
	}
}

// alive reports whether a process of the machine has a word in its command line. The word is made so that no other has
// it.
func alive(t *testing.T, word string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

// written puts a file into a new directory and gives its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

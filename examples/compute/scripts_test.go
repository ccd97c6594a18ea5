package compute

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// serve builds the program, starts a server that runs two jobs at once, and gives its address for users of
// job-orchestrator.
func serve(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "stagepost")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/stagepost").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
		"--compute-local", "2", "--compute-sandbox", "auto",
		"--compute-listen", "127.0.0.1:0", "--log-level", "error")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "users of job-orchestrator: "); ok {
			return url
		}
	}
	t.Fatal("the server did not write its address for users of job-orchestrator")
	return ""
}

// runs runs a script and gives what it printed.
func runs(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	script, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return string(out) + errs.String(), err
}

// TestScripts runs them as a user does. They check the results as the original's examples do; the test compares what
// they print.
func TestScripts(t *testing.T) {
	url := serve(t)
	for name, want := range map[string]string{
		"submit.sh":  `^job \d+\nresults in results\n7\n12\n31\n$`,
		"cancel.sh":  `^job \d+\njob terminated\njob \d+ is Killed\n$`,
		"partial.sh": `^job \d+\nso far: step [1-7] of 8\nat the end: step 8 of 8, exit code 0\n$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := runs(t, name, "URL="+url, "SERVICE=default", "PAUSE=1.5",
				"WITHIN=60") // a slow machine has its time to meet the job while it runs
			if err != nil || !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%v; printed\n%s", err, got)
			}
		})
	}
	t.Run("no such service", func(t *testing.T) { // the control: a script does not report success
		if got, err := runs(t, "submit.sh", "URL="+url, "SERVICE=none"); err == nil ||
			got != "not taken: Invalid service\n" {
			t.Errorf("%v; printed\n%s", err, got)
		}
	})
}

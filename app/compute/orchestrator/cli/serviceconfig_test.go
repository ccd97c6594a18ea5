package orchestratorcli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/cli"
)

// TestOrchestratorReportsZerosAtOnce: quotas of 0 are reported in the same pass as all else that is wrong with the
// variables.
func TestOrchestratorReportsZerosAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{
		"PORT": "abc", "SERVICE_EXAMPLE_RUNS_PER_USER": "0", "SERVICE_X_MAX_RUNS": "0",
		"SERVICE_X_UPLOAD_URL": "http://127.0.0.1:1/submit",
	} {
		t.Setenv(name, value)
	}
	var out, errs bytes.Buffer
	if code := Main(func([]string, io.Reader, io.Writer, io.Writer) int {
		return cli.ExitOK
	}, []string{"server"}, strings.NewReader(""), &out, &errs); code != cli.ExitUsage {
		t.Fatalf("exit code %d", code)
	}
	want := []string{"PORT must be ", "SERVICE_EXAMPLE_RUNS_PER_USER " + compute.NeverRuns("example") + "\n",
		"SERVICE_X_MAX_RUNS " + compute.NeverRuns("x") + "\n", "SERVICE_EXAMPLE_UPLOAD_URL is missing"}
	for _, text := range want {
		if strings.Count(errs.String(), Name+": "+text) != 1 {
			t.Errorf("%q is not reported once in\n%s", text, errs.String())
		}
	}
	if n := strings.Count(errs.String(), "\n"); n != len(want) {
		t.Errorf("%d lines:\n%s", n, errs.String())
	}
}

// TestFileAndVariablesAtOnce: a server reports what is wrong with its file, its secrets and its variables in one pass;
// what only counts the services needs no secrets.
func TestFileAndVariablesAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	_, jobs, _ := newSettings()
	jobs.Services = "services.yaml"
	secret := "services:\n  a:\n    callbacks: {hosts: [a.example.org], secret_file: /dev/null/none}\n"
	for _, c := range []struct {
		text, variable string
		want           []string
	}{
		{secret + "    max_runs: 0\n", "0", []string{`services.yaml:3:41: service "a": callbacks: /dev/null/none: `, `services.yaml:4:5: service "a": max_runs ` + compute.NeverRuns("a"), "SERVICE_B_RUNS_PER_USER " + compute.NeverRuns("b")}},
		{secret, "1", []string{`services.yaml:3:41: service "a": callbacks: /dev/null/none: `}},
	} {
		t.Setenv("SERVICE_B_UPLOAD_URL", "http://127.0.0.1:1/submit")
		t.Setenv("SERVICE_B_RUNS_PER_USER", c.variable)
		if err := os.WriteFile(filepath.Clean(jobs.Services), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := computeserve.ReadServiceConfig(jobs, jobs.Module.ReadServer)
		if _, is := errors.AsType[cli.UsageError](err); !is {
			t.Fatalf("got %v", err)
		}
		lines := cli.Sentences(err)
		if len(lines) != len(c.want) {
			t.Fatalf("got %d lines:\n%v", len(lines), err)
		}
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("got %s, want %s", lines[i], want)
			}
		}
	}
	if all, _, err := computeserve.ServiceConfig(jobs); err != nil || len(all.Services) != 2 {
		t.Errorf("without the secrets: %v", err)
	}
}

// TestBindsOfVariables: directories that variables show are those of a client's machine. They need not be here; what no
// sandbox shows is refused in any case.
func TestBindsOfVariables(t *testing.T) {
	_, jobs, _ := newSettings()
	jobs.Local = 1
	t.Setenv("SERVICE_E_CLIENTS", "http://127.0.0.1:9")
	for dirs, want := range map[string]string{
		"/nonexistent/e":        "",
		"/nonexistent/e:/tmp/e": `SERVICE_E_BIND_RO: the bind of "/tmp/e" may not lie in /tmp`,
	} {
		t.Setenv("SERVICE_E_BIND_RO", dirs)
		if _, _, err := computeserve.ServiceConfig(jobs); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v", dirs, err)
		}
	}
}

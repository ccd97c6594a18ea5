package flowfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/flowfile/process"
	"github.com/stagepost/stagepost/flow"
)

// commands allows them, in a directory of the test.
func commands(t *testing.T) Options {
	t.Helper()
	return Options{Commands: true, Commander: process.Local{Temp: t.TempDir()}}
}

func mustParse(t *testing.T, text string, o Options) *File {
	t.Helper()
	f, err := Parse([]byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// begin makes a runner of a file.
func begin(t *testing.T, text string, o Options, inputs flow.Values) *flow.Runner {
	t.Helper()
	item, err := mustParse(t, text, o).Flow(inputs)
	if err != nil {
		t.Fatal(err)
	}
	r, err := flow.New(item, flow.Options{Storage: flow.NewMemory(), Workers: flow.NewPool(4)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// one runs a flow of the given items, indented by two, and gives the result "x" of it.
func one(t *testing.T, items string, o Options, inputs string) (any, error) {
	t.Helper()
	text := "flow: f\n" + inputs + "linear:\n" + items
	r := begin(t, text, o, nil)
	err := r.Run(t.Context())
	v, _ := r.Value("x")
	return v.Any(), err
}

func read1(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// failureOf gives the failure that an error of a run is.
func failureOf(t *testing.T, err error) *flow.Failure {
	t.Helper()
	if err == nil {
		t.Fatal("it succeeded")
	}
	return flow.FailureOf(err)
}

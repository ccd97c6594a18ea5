package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// initialised lists the packages that a process of this program initialises. With arguments it
// is the init of a sandbox, which gets no plan and ends.
func initialised(t *testing.T, args ...string) map[string]bool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packages := map[string]bool{}
	for line := range strings.Lines(string(out)) { // init internal/bytealg @0.008 ms, 0 ms clock, 0 bytes, 0 allocs
		if words := strings.Fields(line); len(words) > 2 && words[0] == "init" && strings.HasPrefix(words[2], "@") {
			packages[words[1]] = true
		}
	}
	return packages
}

// TestInitOfSandbox holds the init of a sandbox to what it costs: each job begins this program once more, and may not
// pay for the packages whose initialisation takes longest.
func TestInitOfSandbox(t *testing.T) {
	costly := []string{
		"github.com/santhosh-tekuri/jsonschema/v6",
		"github.com/prometheus/client_golang/prometheus",
		"github.com/stagepost/stagepost/format/ocfl",
		"github.com/stagepost/stagepost/lifecycle/notation",
		"github.com/stagepost/stagepost/server",
	}
	whole, as := initialised(t, "-test.run=^$"), initialised(t, "__stagepost-sandbox-init")
	if !as["os"] {
		t.Errorf("got %v, want at least what the init uses", as)
	}
	for _, name := range costly {
		if !whole[name] {
			t.Errorf("a whole process does not initialise %s: take it from the list", name)
		}
		if as[name] {
			t.Errorf("the init of a sandbox waits for %s", name)
		}
	}
}

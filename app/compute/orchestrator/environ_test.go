package orchestrator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
)

// TestVariablesAreDocumented holds the table of variables in docs/job-orchestrator.md against the code.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/job-orchestrator.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(text), variablesTable()) {
		t.Errorf("docs/job-orchestrator.md must end with\n%s", variablesTable())
	}
}

// variablesTable is the list as a table in Markdown.
func variablesTable() string {
	var b strings.Builder
	b.WriteString("| Variable | Default | Meaning |\n|---|---|---|\n")
	for _, v := range wire.Variables() {
		def, ours := "", ""
		if v.Default != "" {
			def = "`" + v.Default + "`"
		}
		if v.Ours {
			ours = " Not in the original."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", v.Name, def, strings.ReplaceAll(v.Meaning, "|", "\\|"), ours)
	}
	return b.String()
}

// TestEnvironment: the original's variables make services beside those of the file, and none twice.
func TestEnvironment(t *testing.T) {
	name := filepath.Join(t.TempDir(), "services.yaml")
	if err := os.WriteFile(name, []byte("services:\n  one: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		variable string
		wrong    bool
	}{{"SERVICE_TWO_UPLOAD_URL=http://c1:9000/submit", false}, {"SERVICE_ONE_UPLOAD_URL=http://c1:9000/submit", true}} {
		s, err := Module(&Settings{}).Read(name)
		if err != nil {
			t.Fatal(err)
		}
		env, err := wire.Environ([]string{c.variable}, wire.ServerMode)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(services(&env)); (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.variable, err)
		} else if !c.wrong &&
			(len(s.Services) != 2 || len(s.Agents) != 1 || s.Services[1].Agents[0] != s.Agents[0].Name) {
			t.Errorf("%s: %+v", c.variable, s)
		}
	}
}

// TestVariablesMistakes: all mistakes of variables are reported, each in a line of its own that names the service.
func TestVariablesMistakes(t *testing.T) {
	s, err := Module(&Settings{}).Parse([]byte("services:\n  one: {}\n  two: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := wire.Environ([]string{"SERVICE_ONE_UPLOAD_URL=http://c:1/x", "SERVICE_TWO_UPLOAD_URL=http://c:1/x",
		"SERVICE__BAD_UPLOAD_URL=http://c:1/x"}, wire.ServerMode)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Add(services(&env))
	if err == nil {
		t.Fatal("they were taken")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines:\n%v", len(lines), err)
	}
	for i, want := range []string{"SERVICE_ONE_", "SERVICE_TWO_", `service "_bad"`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("got %s, want %s", lines[i], want)
		}
	}
}

package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/site"
)

// TestDocumentedFile reads the file that docs/compute.md shows, and holds what it says against what the parts get.
func TestDocumentedFile(t *testing.T) {
	text, err := os.ReadFile("../../../docs/compute.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	file, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/compute.md shows no file")
	}
	s, err := site.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	services, agent := s.Compute(), s.Agent()["haddock"]
	if len(services) != 1 || services[0].Limits.Wall != 2*time.Hour || services[0].Max.Memory != 16<<30 || !services[0].LeaveInputs || services[0].RunsPerUser != 5 {
		t.Errorf("the application gets %+v", services)
	}
	if len(agent.Binds) != 2 || agent.Binds[1].To != "/models" || agent.Network != "none" || agent.Env["HADDOCK_HOME"] != "/opt/haddock" {
		t.Errorf("an agent gets %+v", agent)
	}
	if len(s.Agents) != 4 {
		t.Errorf("%d agents", len(s.Agents))
	}
}

// TestVariablesAreDocumented holds the table of variables in docs/job-orchestrator.md against the code.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/job-orchestrator.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(text), wire.VariablesTable()) {
		t.Errorf("docs/job-orchestrator.md must end with\n%s", wire.VariablesTable())
	}
}

func TestMistakesAreAllTold(t *testing.T) {
	_, err := site.Parse([]byte(`
services:
  Bad_Name: {}
  good: {agents: [nobody], network: wifi, binds: [relative], policy: strict, limits: {wall: 3h}, max: {wall: 2h}}
agents:
  a1: {}
  a2: {url: "ftp://x", legacy: "http://y:1"}
  a3: {url: "ftp://x"}
  local: {tunnel: true}
`))
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, want := range []string{"Bad_Name", "nobody", "wifi", "relative", "strict", "beyond its maximum", `"a1"`, `"a2"`, `"a3"`, `"local"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not told of in\n%v", want, err)
		}
	}
	for _, text := range []string{"services: [", "services:\n  x: {unknown: 1}\n", "services:\n  x: {limits: {memory: 4G}}\n", "services:\n  x: {limits: {wall: -1h}}\n"} {
		if _, err := site.Parse([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if s, err := site.Parse(nil); err != nil || len(s.Services) != 0 {
		t.Errorf("nothing: %v", err)
	}
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
		s, err := site.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		env, err := wire.Environ([]string{c.variable}, wire.ServerMode)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(&env); (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.variable, err)
		} else if !c.wrong && (len(s.Services) != 2 || len(s.Agents) != 1 || s.Services[1].Agents[0] != s.Agents[0].Name) {
			t.Errorf("%s: %+v", c.variable, s)
		}
	}
}

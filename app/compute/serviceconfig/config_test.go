package serviceconfig_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// module is what a program with a module beside compute reads files with.
var module = serviceconfig.Module{Legacy: true,
	Policies: []serviceconfig.Policy{{Word: "warn"}, {Word: "legacy", Check: compute.AnyScript}}}

// TestDocumentedFile reads the file that docs/compute.md shows, and compares it with what the parts get.
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
	s, err := module.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	services, agent := s.Compute(), s.Agent()["haddock"]
	if len(services) != 1 || services[0].Limits.Wall != 2*time.Hour || services[0].Max.Memory != 16<<30 ||
		!services[0].LeaveInputs || services[0].RunsPerUser != 5 {
		t.Errorf("the application gets %+v", services)
	}
	if len(agent.Binds) != 2 || agent.Binds[1].To != "/models" || agent.Network != "none" ||
		agent.Env["HADDOCK_HOME"] != "/opt/haddock" {
		t.Errorf("an agent gets %+v", agent)
	}
	if len(s.Agents) != 4 || !slices.ContainsFunc(s.Agents, func(a serviceconfig.Agent) bool {
		return a.Name == "node1" && slices.Equal(a.Labels, []string{"gpu", "zone=b"})
	}) {
		t.Errorf("agents: %+v", s.Agents)
	}
}

func TestAllMistakesAreReported(t *testing.T) {
	_, err := serviceconfig.Parse([]byte(`
services:
  Bad_Name: {}
  good: {agents: [stranger], network: wifi, binds: [relative], policy: strict, limits: {wall: 3h}, max: {wall: 2h}}
agents:
  a1: {}
  a2: {url: "ftp://x", legacy: "http://y:1"}
  a3: {url: "ftp://x"}
  a4: {tunnel: true, labels: ["two words"]}
  local: {tunnel: true}
`))
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, want := range []string{"Bad_Name", "stranger", "wifi", "relative", "strict", "beyond its maximum", `"a1"`,
		`"a2"`, `"a3"`, `"a4": the label "two words"`, `"local"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not reported in\n%v", want, err)
		}
	}
	for _, text := range []string{"services: [", "services:\n  x: {unknown: 1}\n", "services:\n  x: {limits: {memory: 4G}}\n", "services:\n  x: {limits: {wall: -1h}}\n"} {
		if _, err := serviceconfig.Parse([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if s, err := serviceconfig.Parse(nil); err != nil || len(s.Services) != 0 {
		t.Errorf("nothing: %v", err)
	}
}

// TestLimitsOfZero: each limit and maximum of 0 or less is refused with its position; one that is left out is not.
func TestLimitsOfZero(t *testing.T) {
	for _, group := range []string{"limits", "max"} {
		for f := range reflect.TypeFor[serviceconfig.Limits]().Fields() {
			name, unit := f.Tag.Get("json"), ""
			if f.Type == reflect.TypeFor[serviceconfig.Duration]() {
				unit = "s"
			}
			for value, want := range map[string]string{
				"0":         fmt.Sprintf(`2:%d: service "a": %s.%s is 0: it must be more than 0`, len(group)+10, group, name),
				"-1" + unit: "negative",
			} {
				text := fmt.Sprintf("services:\n  a: {%s: {%s: %s}}\n", group, name, value)
				if _, err := serviceconfig.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q: got %v, want %s", text, err, want)
				}
			}
			for _, value := range []string{"1" + unit, ""} {
				text := fmt.Sprintf("services:\n  a: {%s: {%s: %s}}\n", group, name, value)
				if _, err := serviceconfig.Parse([]byte(text)); err != nil {
					t.Errorf("control: %q: %v", text, err)
				}
			}
		}
	}
}

// TestModule: words and agents of a module are refused where there is none; what it adds is beside what the file has.
func TestModule(t *testing.T) {
	for text, want := range map[string]string{
		"services:\n  a: {policy: legacy}\n":            `2:7: service "a": policy must be off, not "legacy"`,
		"agents:\n  a1: {legacy: \"http://c1:9000\"}\n": `2:3: agent "a1": this program has no module that reaches an agent by legacy`,
	} {
		if _, err := serviceconfig.Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
		if _, err := module.Parse([]byte(text)); err != nil {
			t.Errorf("control: %q: %v", text, err)
		}
	}
	_, err := module.Parse([]byte("services:\n  a: {policy: strict}\n"))
	if err == nil || !strings.Contains(err.Error(), `policy must be off, warn or legacy, not "strict"`) {
		t.Errorf("got %v", err)
	}
	s, err := module.Parse([]byte("services:\n  a: {policy: legacy}\n  b: {policy: off}\n  c: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if all := s.Agent(); all["a"].Check == nil || all["b"].Check == nil || all["c"].Check != nil {
		t.Errorf("got %+v", all)
	}
	add := func(name string) error {
		return s.Add([]serviceconfig.Added{{Service: serviceconfig.Service{Name: name}, Agents: []string{name + "-1"},
			From: "the module"}})
	}
	if err := add("d"); err != nil || len(s.Services) != 4 || len(s.Agents) != 1 || s.Services[3].Agents[0] != "d-1" {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := add("a"); err == nil || !strings.Contains(err.Error(), `the service "a" is in the file and in the module`) {
		t.Errorf("got %v", err)
	}
}

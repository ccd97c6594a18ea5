package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server/listen"
)

// TestDockerfileOfCompute: it is built like the other one. The result is a system with bash that runs as an ordinary
// user.
func TestDockerfileOfCompute(t *testing.T) {
	all, other := dockerfile(t, "../../contrib/docker/Dockerfile.compute"),
		dockerfile(t, "../../contrib/docker/Dockerfile")
	for _, name := range []string{"FROM", "WORKDIR", "ENV", "ARG", "COPY"} {
		if got, want := texts(all, 0, name), texts(other, 0, name); !slices.Equal(got, want) {
			t.Errorf("%s: it is built by %q, the other one by %q", name, got, want)
		}
	}
	if got, want := texts(all, 0, "RUN")[:2], texts(other, 0, "RUN")[:2]; !slices.Equal(got, want) {
		t.Errorf("it is built by %q, the other one by %q", got, want)
	}
	last := all[len(all)-1].stage
	if got := texts(all, last, "FROM"); last != 1 || !strings.HasPrefix(got[0], "debian:") {
		t.Errorf("stage %d begins with %q: jobs need bash", last, got)
	}
	if got := texts(all, last, "RUN"); len(got) > 0 {
		t.Errorf("it runs %q, which could fetch anything", got)
	}
	if got := texts(all, last, "USER"); len(got) != 1 ||
		!regexp.MustCompile(`^[1-9][0-9]+:[1-9][0-9]+$`).MatchString(got[0]) {
		t.Errorf("it runs as %q", got)
	}
	settings := newSettings().All()
	for _, env := range texts(all, last, "ENV") {
		for _, pair := range strings.Fields(env) {
			if name, _, _ := strings.Cut(pair, "="); !containsSetting(settings, name) {
				t.Errorf("there is no setting %s", name)
			}
		}
	}
}

// composed is a service of a compose file.
type composed struct {
	Command, Ports, Volumes []string
	Init                    bool
	Grace                   string            `yaml:"stop_grace_period"`
	Environment             map[string]string `yaml:"environment"`
	Capabilities            []string          `yaml:"cap_drop"`
	Security                []string          `yaml:"security_opt"`
	Build                   struct{ Context, Dockerfile string }
}

// TestComposeOfCompute: port 5000 for users of job-orchestrator, and of this machine alone; tokens, because the server
// listens in the containers' network; an agent that dials in under a name that the services know; commands, flags,
// settings and files that there are.
func TestComposeOfCompute(t *testing.T) {
	const dir = "../../contrib/docker"
	text, err := os.ReadFile(filepath.Join(dir, "compose.compute.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]composed
		Volumes  map[string]struct{}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	s, a := file.Services["server"], file.Services["agent"]
	if _, err := os.Stat(filepath.Join(dir, s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	if !slices.Contains(s.Ports, "127.0.0.1:5000:5000") || len(a.Ports) > 0 {
		t.Errorf("it publishes %q and %q", s.Ports, a.Ports)
	}
	settings := newSettings().All()
	for name := range s.Environment {
		if !containsSetting(settings, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
	for _, name := range []string{"STAGEPOST_LISTEN", "STAGEPOST_COMPUTE_LISTEN"} {
		_, port, _ := strings.Cut(s.Environment[name], ":")
		if listen.Loopback(s.Environment[name]) || !slices.Contains(s.Ports, "127.0.0.1:"+port+":"+port) ||
			s.Environment["STAGEPOST_TOKENS"] == "" {
			t.Errorf("%s %s: it is not published for this machine alone, or without tokens", name, s.Environment[name])
		}
	}
	services, err := serviceconfig.Module{}.Read(filepath.Join(dir, "services.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	flag := func(name string) string {
		if i := slices.Index(a.Command, name); i > 0 && i+1 < len(a.Command) {
			return a.Command[i+1]
		}
		return ""
	}
	if !slices.ContainsFunc(services.Agents,
		func(one serviceconfig.Agent) bool { return one.Tunnel && one.Name == flag("--name") }) {
		t.Errorf("the services know no agent %q that comes by itself", flag("--name"))
	}
	if _, port, _ := strings.Cut(s.Environment["STAGEPOST_LISTEN"], ":"); flag("--server") != "http://server:"+port ||
		flag("--token-file") == "" {
		t.Errorf("the agent is %q", a.Command)
	}
	if !strings.Contains(string(text), "stagepost admin token new --owner "+flag("--name")+
		" --role worker --services '*' secrets/tokens >secrets/"+filepath.Base(flag("--token-file"))) {
		t.Error("the agent's token must be its own: its owner is the agent's name")
	}
	for name, service := range file.Services {
		checkComposed(t, name, service, file.Volumes)
	}
}

// checkComposed checks what holds for every service.
func checkComposed(t *testing.T, name string, s composed, volumes map[string]struct{}) {
	t.Helper()
	c := newCall(nil, os.Stdout, os.Stderr)
	cmd, rest, err := c.Root().Find(s.Command)
	if words := strings.Fields(cmd.CommandPath())[1:]; err != nil || len(words) == 0 ||
		!slices.Equal(words, s.Command[:len(words)]) {
		t.Errorf("%s: there is no command %q", name, s.Command)
	} else if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if !s.Init || !slices.Equal(s.Capabilities, []string{"ALL"}) ||
		!slices.Equal(s.Security, []string{"no-new-privileges:true"}) {
		t.Errorf("%s: %+v", name, s)
	}
	if waits, err := quantity.ParseDuration(s.Grace); err != nil || waits < 40*time.Second {
		t.Errorf("%s: it stops within 30 s and a bit, Docker waits %s", name, s.Grace)
	}
	for _, v := range s.Volumes {
		from, _, _ := strings.Cut(v, ":")
		// which the reader makes, as the file describes
		if _, named := volumes[from]; named || strings.HasPrefix(from, "./secrets") {
			continue
		}
		if _, err := os.Stat(filepath.Join("../../contrib/docker", from)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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

	"github.com/stagepost/stagepost/quantity"
)

// instruction is one line of a Dockerfile.
type instruction struct {
	stage      int // from 0
	name, text string
}

// dockerfile reads the instructions of a Dockerfile, without comments.
func dockerfile(t *testing.T, name string) (all []instruction) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	stage := -1
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" {
			stage++
		}
		all = append(all, instruction{stage, word, strings.TrimSpace(rest)})
	}
	return all
}

// texts gives what stands behind all instructions of a name in a stage.
func texts(all []instruction, stage int, name string) (found []string) {
	for _, i := range all {
		if i.stage == stage && i.name == name {
			found = append(found, i.text)
		}
	}
	return found
}

// TestDockerfile holds the Dockerfile against what it promises: it builds with the module's own Go, downloads modules
// only, and leaves a static file in an empty system.
func TestDockerfile(t *testing.T) {
	all := dockerfile(t, "../../contrib/docker/Dockerfile")
	last := all[len(all)-1].stage
	find := func(stage int, name string) []string { return texts(all, stage, name) }
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(mod))[1]
	if got := find(0, "FROM"); len(got) != 1 || got[0] != "golang:"+version+" AS build" {
		t.Errorf("it builds with %q, go.mod requires %s", got, version)
	}
	if got := find(last, "FROM"); last != 1 || got[0] != "scratch" {
		t.Errorf("stage %d begins with %q: a static program needs nothing around it", last, got)
	}
	if got := find(last, "RUN"); len(got) > 0 {
		t.Errorf("it runs %q in an empty system", got)
	}
	for _, run := range find(0, "RUN") {
		if word, _, _ := strings.Cut(run, " "); word != "go" && word != "mkdir" || strings.ContainsAny(run, ";&|`") {
			t.Errorf("it runs %q, which could fetch anything", run)
		}
	}
	if got := strings.Join(find(0, "ENV"), " "); !strings.Contains(got, "CGO_ENABLED=0") ||
		!strings.Contains(got, "-mod=readonly") {
		t.Errorf("it builds with %s", got)
	}
	for _, c := range slices.Concat(find(0, "COPY"), find(last, "COPY")) {
		for _, from := range []string{"go.mod", "go.sum"} {
			if _, err := os.Stat(filepath.Join("../..", from)); strings.Contains(c, from) && err != nil {
				t.Errorf("COPY %s: %v", c, err)
			}
		}
	}
}

// TestDockerfileRuns checks the last stage: its user, volume, settings, and the commands that it calls.
func TestDockerfileRuns(t *testing.T) {
	all := dockerfile(t, "../../contrib/docker/Dockerfile")
	last := all[len(all)-1].stage
	find := func(stage int, name string) []string { return texts(all, stage, name) }
	user := find(last, "USER")
	if len(user) != 1 || !regexp.MustCompile(`^[1-9][0-9]+:[1-9][0-9]+$`).MatchString(user[0]) {
		t.Errorf("it runs as %q; numbers are needed, for there is no /etc/passwd", user)
	}
	for _, c := range find(last, "COPY") {
		if strings.HasSuffix(c, " /data") && !strings.Contains(c, "--chown="+user[0]) {
			t.Errorf("the volume is not the user's: %s", c)
		}
	}
	if got := find(last, "VOLUME"); !slices.Equal(got, []string{"/data"}) {
		t.Errorf("the volume is %q", got)
	}
	if got := find(last, "STOPSIGNAL"); !slices.Equal(got, []string{"SIGTERM"}) {
		t.Errorf("it is stopped by %q", got)
	}
	settings := newSettings().All()
	for _, env := range find(last, "ENV") {
		for _, pair := range strings.Fields(env) {
			if name, _, _ := strings.Cut(pair, "="); !containsSetting(settings, name) {
				t.Errorf("there is no setting %s", name)
			}
		}
	}
	c := newCall(nil, os.Stdout, os.Stderr)
	for _, name := range []string{"HEALTHCHECK", "CMD"} {
		text := strings.Join(find(last, name), " ")
		words := regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(text, -1)
		first := 0
		if name == "HEALTHCHECK" {
			if first = 1; len(words) < 2 || words[0][1] != "/stagepost" {
				t.Fatalf("the health check is %s", text)
			}
		}
		if cmd, _, err := c.Root().Find([]string{words[first][1]}); err != nil || cmd.Name() != words[first][1] {
			t.Errorf("%s: there is no command %s", name, words[first][1])
		}
	}
}

// TestCompose: its settings exist, its grace is shorter than what Docker waits, what it mounts is there.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("../../contrib/docker/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Build struct {
				Context, Dockerfile string
			}
			Grace       string            `yaml:"stop_grace_period"`
			Environment map[string]string `yaml:"environment"`
			Volumes     []string
		}
		Volumes map[string]struct{}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	s := file.Services["stagepost"]
	if _, err := os.Stat(filepath.Join("../../contrib/docker", s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	settings := newSettings().All()
	for name := range s.Environment {
		if !containsSetting(settings, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
	grace := ""
	for _, i := range dockerfile(t, "../../contrib/docker/Dockerfile") {
		if _, rest, ok := strings.Cut(i.text, "STAGEPOST_GRACE="); ok {
			grace, _, _ = strings.Cut(rest, " ")
		}
	}
	waits, err := quantity.ParseDuration(s.Grace)
	works, err2 := quantity.ParseDuration(grace)
	if err != nil || err2 != nil || waits < works+10*time.Second {
		t.Errorf("the server stops within %s and a bit, Docker waits %s", grace, s.Grace)
	}
	for name, service := range file.Services {
		for _, v := range service.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, named := file.Volumes[from]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join("../../contrib/docker", from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	prometheus, err := os.ReadFile("../../contrib/docker/prometheus.yml")
	if err != nil || !strings.Contains(string(prometheus), s.Environment["STAGEPOST_METRICS_LISTEN"]) ||
		!strings.Contains(string(prometheus), "job_name: stagepost\n") {
		t.Errorf("Prometheus reads another address, or under another name than the alarms ask for: %v", err)
	}
}

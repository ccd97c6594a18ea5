package serviceconfig_test

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/internal/goldentest"
)

var update = flag.Bool("update", false, "write docs/services.schema.json instead of comparing it")

const published = "../../../docs/services.schema.json"

// TestSchemaIsPublished holds the published schema against the structs; with -update it writes it. Every key has a
// sentence.
func TestSchemaIsPublished(t *testing.T) {
	goldentest.Compare(t, published, serviceconfig.Schema(), *update, "go test ./app/compute/serviceconfig -update")
	goldentest.Described(t, serviceconfig.Schema())
}

// TestExcerpts: a mistake is shown with its line and a caret; values of variables and of keys that are not known are
// not shown.
func TestExcerpts(t *testing.T) {
	for text, want := range map[string]string{
		"services:\n  a:\n    netwrk: none\n":                   "3:5: services.a.netwrk: there is no such key; is it network?\n   3 |     netwrk: ***\n     |     ^",
		"services:\n  a: {env: {A: hush}, binds: x}\n":          "2:30: services.a.binds: it must be a list, not a text\n   2 |   a: {env: ***\n     |            ^",
		"services:\n  a.b: {env: {A.C: hush}, binds: x}\n":      "2:34: services.a.b.binds: it must be a list, not a text\n   2 |   a.b: {env: ***\n     |              ^",
		"services:\n  a: {envv: {A: hush}}\n":                   "2:7: services.a.envv: there is no such key; is it env?\n   2 |   a: {envv: ***\n     |       ^",
		"agents:\n  a: {url: 'http://u:hush@h', tunnel: yes}\n": "2:39: agents.a.tunnel: it must be true or false, not a text\n   2 |   a: {url: ***\n     |            ^",
		"services:\n  a: {env: {A: 'hush}}\n":                   "2:16: not YAML: the quote that begins here is not closed",
		"services:\n  a: {max_runs: 1}\n  a: {}\n":              "3:3: the key \"a\" occurs twice",
		"services: [a]\n": "1:1: services: it must be keys with values, not a list\n   1 | services: [***\n     | ^",
		"hello\n":         "1:1: it must be keys with values, not a text\n   1 | hello\n     | ^",
		"services:\n  a: {limits: {processes: 1.5}}\n":       "2:27: services.a.limits.processes: it must be a whole number, not a number\n   2 |   a: {limits: {processes: 1.5}}\n     |                           ^",
		"services:\n  a:\n    limits:\n      memory: much\n": "4:15: memory: \"much\": it is not a size (64GiB, 1.5TB, 1048576)\n   4 |       memory: much\n     |               ^",
	} {
		_, err := serviceconfig.Parse([]byte(text))
		var m *serviceconfig.Mistake
		if !errors.As(err, &m) {
			t.Errorf("%q: got %v", text, err)
			continue
		}
		if got := strings.TrimSuffix(err.Error()+"\n"+m.Excerpt(), "\n"); got != want || strings.Contains(got, "hush") {
			t.Errorf("%q: got\n%s\nwant\n%s", text, got, want)
		}
	}
}

// TestYAML: what YAML allows in a file: aliases, merge keys, keys without a value, numbers as texts.
func TestYAML(t *testing.T) {
	s, err := serviceconfig.Parse([]byte(`# a comment
services:
  none:
  base: &base
    runs_per_user: 0x3
    limits: {memory: 1024, wall: 2h, cores: 2}
    env: {A: 1, B: true, C: 1.50, D: , E.F: x}
    agents: [node]
  derived:
    <<: *base
    runs_per_user: 4
    callbacks:
  both: {<<: [*base, {max_runs: 7, runs_per_user: 9}]}
agents:
  node:
    slurm: {dir: /shared, account: 123, poll: 30s, extra: [--nice, 5]}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]serviceconfig.Service{}
	for _, one := range s.Services {
		got[one.Name] = one
	}
	three, four, seven := 3, 4, 7
	base := serviceconfig.Service{Name: "base", RunsPerUser: &three, Agents: []string{"node"},
		Env: map[string]string{"A": "1", "B": "true", "C": "1.50", "D": "", "E.F": "x"}}
	base.Limits.Memory, base.Limits.Cores = 1024, 2
	base.Limits.Wall.Duration = 7200e9
	derived, both := base, base
	derived.Name, derived.RunsPerUser, both.Name, both.MaxRuns = "derived", &four, "both", &seven
	if diff := cmp.Diff(map[string]serviceconfig.Service{"none": {Name: "none"}, "base": base, "derived": derived,
		"both": both}, got); diff != "" {
		t.Error(diff)
	}
	if a := s.Agents[0]; a.Slurm == nil || a.Slurm.Account != "123" || len(a.Slurm.Extra) != 2 ||
		a.Slurm.Extra[1] != "5" {
		t.Errorf("got %+v", a.Slurm)
	}
	for _, bad := range []string{"services:\n  a: {<<: 1}\n", "services:\n  a: {<<: [{}, 1]}\n",
		"services: {}\n---\nagents: {}\n"} {
		if _, err := serviceconfig.Parse([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute/site"
	"github.com/stagepost/stagepost/app/compute/wire"
)

// TestMistakesHavePlaces: each mistake is one line with the file, the line and the column where it stands.
func TestMistakesHavePlaces(t *testing.T) {
	name := filepath.Join(t.TempDir(), "services.yaml")
	for _, c := range []struct {
		text string
		want []string
	}{
		{"services:\n  Bad_Name: {}\n  good:\n    agents: [nobody]\n    network: wifi\n    env: {A: 1}\nagents:\n  a1: {}\n", []string{
			`:2:3: service "Bad_Name": a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores`, `:4:5: service "good": there is no agent "nobody"`,
			`:5:5: service "good": network must be none or host, not "wifi"`, `:8:3: agent "a1": exactly one of url, tunnel, legacy and slurm says how it is reached`,
		}},
		{"services:\n  x:\n    limits: {memory: much, wall: soon}\n    max: {disk: 1GB, cpu: never}\n", []string{
			`:3:22: memory: "much": it is not a size`, `:3:34: wall: "soon": `, `:4:27: cpu: "never": `,
		}},
		{"services:\n  x:\n    mystery: 1\n", []string{`:3:5: unknown field "mystery"`}},
		{"services:\n  x: {max_runs: many}\n", []string{`:2:17: here must stand a whole number`}},
		{"services: [\n", []string{":1:11: "}},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := site.Read(name)
		if err == nil {
			t.Errorf("%q was taken", c.text)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%q: got %d lines, want %d:\n%v", c.text, len(lines), len(c.want), err)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], name+want) {
				t.Errorf("%q: got %s, want %s", c.text, lines[i], name+want)
			}
		}
	}
}

// TestVariablesMistakes: all mistakes of variables are told, each in a line of its own that names the service.
func TestVariablesMistakes(t *testing.T) {
	s, err := site.Parse([]byte("services:\n  one: {}\n  two: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := wire.Environ([]string{"SERVICE_ONE_UPLOAD_URL=http://c:1/x", "SERVICE_TWO_UPLOAD_URL=http://c:1/x", "SERVICE__BAD_UPLOAD_URL=http://c:1/x"}, wire.ServerMode)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Add(&env)
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

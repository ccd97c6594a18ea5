package serviceconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// TestMistakesHavePlaces: each mistake is one line with the file, the line and the column where it stands.
func TestMistakesHavePlaces(t *testing.T) {
	name := filepath.Join(t.TempDir(), "services.yaml")
	for _, c := range []struct {
		text string
		want []string
	}{
		{"services:\n  Bad_Name: {}\n  good:\n    agents: [stranger]\n    network: wifi\n    env: {A: 1}\nagents:\n  a1: {}\n", []string{
			`:2:3: service "Bad_Name": a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores`, `:4:5: service "good": there is no agent "stranger"`,
			`:5:5: service "good": network must be none or host, not "wifi"`, `:8:3: agent "a1": exactly one of url, tunnel, legacy and slurm must define how it is reached`,
		}},
		{"services:\n  x:\n    limits: {memory: much, wall: soon}\n    max: {disk: 1GB, cpu: never}\n", []string{
			`:3:22: memory: "much": it is not a size`, `:3:34: wall: "soon": `, `:4:27: cpu: "never": `,
		}},
		{"services:\n  x:\n    mystery: 1\n", []string{`:3:5: services.x.mystery: there is no such key (known: runs_per_user, max_runs, `}},
		{"services:\n  x: {max_runs: many}\n", []string{`:2:17: services.x.max_runs: it must be a whole number, not a text`}},
		{"services: [\n", []string{":1:11: "}},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := serviceconfig.Read(name)
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

// TestQuotaOfZero: a quota that is written as 0 is refused in the words in which the variable is, wherever it comes
// from; one that is not written is the default.
func TestQuotaOfZero(t *testing.T) {
	for text, want := range map[string][]string{
		"services:\n  maps:\n    runs_per_user: 0\n    network: wifi\n    max_runs: 0\n": {
			`3:5: service "maps": runs_per_user ` + compute.NeverRuns("maps"), `4:5: service "maps": network must be none or host, not "wifi"`, `5:5: service "maps": max_runs ` + compute.NeverRuns("maps"),
		},
		"services:\n  a: &base {max_runs: 0}\n  b: *base\n": {`2:13: service "a": max_runs ` + compute.NeverRuns("a"), `2:13: service "b": max_runs ` + compute.NeverRuns("b")},
	} {
		if _, err := serviceconfig.Parse([]byte(text)); err == nil || err.Error() != strings.Join(want, "\n") {
			t.Errorf("%q: got\n%v\nwant\n%s", text, err, strings.Join(want, "\n"))
		}
	}
	s, err := serviceconfig.Parse([]byte("services:\n  a: {}\n  b: {runs_per_user: , max_runs: null}\n  c: {runs_per_user: 1, max_runs: 2}\n"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := compute.CheckServices(s.Compute())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]int{{5, 10}, {5, 10}, {1, 2}} {
		if got := [2]int{all[i].RunsPerUser, all[i].MaxRuns}; got != want {
			t.Errorf("%s: got %v, want %v", all[i].Name, got, want)
		}
	}
}

// TestServerReportsSecretsToo: a server reports secrets that cannot be read with all other mistakes and their lines; an
// agent needs no secrets.
func TestServerReportsSecretsToo(t *testing.T) {
	dir := t.TempDir()
	name, secret, none := filepath.Join(dir, "services.yaml"), filepath.Join(dir, "secret"), filepath.Join(dir, "none")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, "hush\n")
	rest := "    callbacks:\n      hosts: [a.example.org]\n      secret_file: "
	write(name, "services:\n  a:\n    binds: [relative]\n"+rest+none+"\n    network: wifi\n  b:\n"+rest+secret+"\n")
	_, err := serviceconfig.ReadServer(name)
	if err == nil {
		t.Fatal("it was taken")
	}
	lines, want := strings.Split(err.Error(), "\n"), []string{
		`:3:5: service "a": bind "relative" must`, `:6:7: service "a": callbacks: ` + none + ": ", `:7:5: service "a": network must`, `:11:7: service "b": callbacks: ` + secret + ": line 1: ",
	}
	if len(lines) != len(want) || strings.Contains(err.Error(), "hush") {
		t.Fatalf("got\n%v", err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], name+want[i]) {
			t.Errorf("got %s, want %s", lines[i], name+want[i])
		}
	}
	write(secret, known+"\n")
	write(name, "services:\n  b:\n"+rest+secret+"\n")
	if _, err := serviceconfig.ReadServer(name); err != nil {
		t.Errorf("the control: %v", err)
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if _, err := serviceconfig.ReadServer(name); err == nil {
		t.Error("a server has secrets that are gone")
	}
	if _, err := serviceconfig.Read(name); err != nil {
		t.Errorf("an agent: %v", err)
	}
}

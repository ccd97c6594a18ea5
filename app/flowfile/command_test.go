//go:build linux || darwin

package flowfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/flow"
)

// TestEnvironmentIsOurs holds all that a command sees against the list of what it may see.
func TestEnvironmentIsOurs(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVER", "s3cret")
	v, err := one(t, "  - task: a\n    requires: [cpus]\n    run: env\n    output: text\n    provides: x\n", commands(t), "inputs: {cpus: 2}\n")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{"STAGEPOST_COMMANDS": true, "PATH": true, "HOME": true, "LANG": true, "PWD": true,
		"OLDPWD": true, "SHLVL": true, "_": true, "cpus": true,
		"STAGEPOST_FLOW": true, "STAGEPOST_TASK": true, "STAGEPOST_KEY": true, "STAGEPOST_ATTEMPT": true}
	for _, line := range strings.Split(v.(string), "\n") {
		if name, _, _ := strings.Cut(line, "="); !allowed[name] {
			t.Errorf("the command sees %s", line)
		}
	}
	for _, want := range []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "cpus=2", "STAGEPOST_TASK=a",
		"STAGEPOST_KEY=f/a/1"} {
		if !strings.Contains("\n"+v.(string)+"\n", "\n"+want+"\n") {
			t.Errorf("the command does not see %s:\n%s", want, v)
		}
	}
}

// hostile are values that would be a program if they ever stood in one.
var hostile = []string{
	"a b", "'", `"`, `'"'"'`, "$(touch pwned)", "`touch pwned`", "; touch pwned", "| touch pwned", "&& touch pwned",
	"\n touch pwned\n#", "--help", "-n", "*", "$HOME", "${x}", "%s%n",
	"\\", "\r\n", "\x01\x1b[31m", "ü€𝄞", "{y}", strings.Repeat("x", 90<<10),
}

func TestHostileValues(t *testing.T) {
	for _, c := range []struct{ name, task string }{
		{"environment", "  - task: a\n    requires: [v]\n    run: printf '%s.' \"$v\"; ls | wc -l | tr -d ' ' >&2; [ -z \"$(ls)\" ]\n    output: text\n    provides: x\n"},
		{"list", "  - task: a\n    requires: [v]\n    run: [sh, -c, 'printf \"%s.\" \"$v\"; [ -z \"$(ls)\" ]']\n    output: text\n    provides: x\n"},
		{"input", "  - task: a\n    requires: [v]\n    env: false\n    run: cat\n    output: text\n    provides: x\n"},
	} {
		values := hostile
		if c.name == "input" {
			values = append(values[:len(values):len(values)], "\x00", "a\x00b", strings.Repeat("y", 300<<10))
		}
		for _, v := range values {
			r := begin(t, "flow: f\ninputs: {v: {required: true}}\nlinear:\n"+c.task, commands(t), flow.Values{"v": v})
			if err := r.Run(t.Context()); err != nil {
				t.Errorf("%s with %.30q: %v", c.name, v, err)
				continue
			}
			got, _ := r.Value("x")
			text := got.Any().(string)
			if c.name == "input" {
				var in struct{ V string }
				if err := json.Unmarshal([]byte(text), &in); err != nil {
					t.Error(err)
				}
				text = in.V + "."
			}
			if want := v + "."; strings.TrimSpace(text) != strings.TrimSpace(want) {
				t.Errorf("%s: %.60q came as %.60q", c.name, v, text)
			}
		}
	}
}

// TestValuesThatDoNotFit are refused, rather than left out: a script would take its default.
func TestValuesThatDoNotFit(t *testing.T) {
	for v, want := range map[string]string{
		"a\x00b":                       "the value v holds a NUL byte, which the environment of a command cannot: set env: false, and read it from standard input",
		strings.Repeat("x", 101<<10):   "the value v is too long for the environment of a command (103424 bytes): set env: false, and read it from standard input",
		strings.Repeat("\x00", 10<<20): "the value v is too long for the environment of a command (10485760 bytes): set env: false, and read it from standard input",
	} {
		r := begin(t, "flow: f\ninputs: {v: {required: true}}\nlinear:\n  - task: a\n    requires: v\n    run: echo \"$v\"\n", commands(t), flow.Values{"v": v})
		if f := failureOf(t, r.Run(t.Context())); f.Message != want || f.Type != "Invalid" {
			t.Errorf("got %s: %s", f.Type, f.Message)
		}
	}
}

func TestCommandFailure(t *testing.T) {
	_, err := one(t, "  - task: a\n    run: |\n      echo one >&2\n      exit 9\n", commands(t), "")
	f := failureOf(t, err)
	var e *CommandError
	if f.Type != TypeCommandFailed || f.Message != "the command exited with 9: one" || !errors.As(err, &e) ||
		e.Exit != 9 {
		t.Errorf("%v", f)
	}
	_, err = one(t, "  - task: a\n    run: kill -9 $$\n", commands(t), "")
	if f := failureOf(t, err); f.Message != "the command was ended by SIGKILL" {
		t.Errorf("%v", f)
	}
	for text, want := range map[string]string{"false; true": "exited with 1", `echo "$unset"`: "unset"} { // sh -eu
		if _, err := one(t, "  - task: a\n    run: '"+text+"'\n", commands(t),
			""); !strings.Contains(failureOf(t, err).Message, want) {
			t.Error(err)
		}
	}
}

func TestTimeout(t *testing.T) {
	_, err := one(t, "  - task: a\n    timeout: 20ms\n    run: sleep 1000\n", commands(t), "")
	if f := failureOf(t, err); f.Type != flow.TypeTimeout || f.Message != "a took longer than 20ms" {
		t.Errorf("%v", f)
	}
}

func TestOutputs(t *testing.T) {
	const say = "    run: |\n      printf 'one\\n{\"a\": [1, 2.5]}\\n\\n'\n"
	for _, c := range []struct {
		extra string
		want  any
	}{
		{"", `{"a": [1, 2.5]}`},
		{"    output: text\n", "one\n{\"a\": [1, 2.5]}"},
	} {
		if v, err := one(t, "  - task: a\n"+say+"    provides: x\n"+c.extra, commands(t), ""); err != nil ||
			v != c.want {
			t.Errorf("got %v, %v", v, err)
		}
	}
	_, err := one(t, "  - task: a\n"+say+"    output: json\n", commands(t), "")
	if f := failureOf(t, err); f.Type != TypeBadOutput || !strings.HasPrefix(f.Message, "the output is not JSON: ") {
		t.Error(f)
	}
	for _, c := range []struct{ provides, run string }{
		{"[y, x]", `echo '[1, "v"]'`}, {"[null, x]", `echo '[1, "v"]'`}, {"{keys: [x]}", `echo '{"x": "v"}'`},
	} {
		if v, err := one(t, "  - task: a\n    run: |\n      "+c.run+"\n    provides: "+c.provides+"\n", commands(t),
			""); err != nil || v != "v" {
			t.Errorf("%s: got %v, %v", c.provides, v, err)
		}
	}
}

// TestRevertKnows gives a revert what the task provided, and its failure.
func TestRevertKnows(t *testing.T) {
	dir := t.TempDir()
	text := `flow: f
inputs: {dir: {required: true}}
linear:
  - task: a
    requires: dir
    run: echo '["n1", {"k":2}]'
    provides: [net, more]
    revert: echo "$net $more $result ${STAGEPOST_FAILURE:-none}" > "$dir/a"; cat > "$dir/stdin"
  - task: b
    requires: dir
    run: exit 3
    provides: late
    revert: {run: 'echo "[$late] $STAGEPOST_FAILURE $other" > "$dir/b"', requires: dir, inject: {other: 5}}
`
	if err := begin(t, text, commands(t), flow.Values{"dir": dir}).Run(t.Context()); err == nil {
		t.Fatal("it succeeded")
	}
	if got, want := read1(t, dir, "a"), `n1 {"k":2} ["n1",{"k":2}] none`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := read1(t, dir, "b"), "[] CommandFailed: the command exited with 3 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := read1(t, dir, "stdin"), `{"dir":"`+dir+`","more":{"k":2},"net":"n1","result":["n1",{"k":2}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := commands(t)
	o.Dir = dir
	v, err := one(t, "  - task: a\n    run: pwd\n    dir: in\n    provides: x\n", o, "")
	if err != nil || v != filepath.Join(dir, "in") {
		t.Errorf("got %v, %v", v, err)
	}
}

//go:build linux || darwin

package flowfile

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/flow"
)

func sh(text string) *Command {
	return &Command{Argv: []string{"sh", "-c", text}, Env: []string{"PATH=/usr/bin:/bin"}, Most: 1000, Grace: time.Minute}
}

func TestLocalExits(t *testing.T) {
	for _, c := range []struct {
		text           string
		exit           int
		signal, stderr string
	}{
		{"exit 0", 0, "", ""},
		{"echo no >&2; exit 7", 7, "", "no\n"},
		{"kill -9 $$", -1, "SIGKILL", ""},
		{"kill -15 $$", -1, "SIGTERM", ""},
		{"exec 1>&- 2>&-; exit 2", 2, "", ""},
	} {
		out, err := Local{Temp: t.TempDir()}.Run(t.Context(), sh(c.text))
		if err != nil || out.Exit != c.exit || out.Signal != c.signal || string(out.Stderr) != c.stderr {
			t.Errorf("%s: %+v, %v", c.text, out, err)
		}
	}
}

func TestLocalLeavesNoDirectory(t *testing.T) {
	temp := t.TempDir()
	out, err := Local{Temp: temp}.Run(t.Context(), sh("mkdir a; touch a/b; chmod 0 a; pwd; echo $HOME"))
	if err != nil || out.Exit != 0 {
		t.Fatal(out, err)
	}
	lines := strings.Fields(string(out.Stdout))
	if left, _ := os.ReadDir(temp); len(left) != 0 || len(lines) != 2 || lines[0] != lines[1] || filepath.Dir(lines[0]) != temp {
		t.Errorf("%v, left %v", lines, left)
	}
}

// alive tells whether a process is there and is no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(text), ") Z ")
}

// TestLocalEndsAll cancels a command whose child ignores SIGTERM. The child tells its number and that it is ready through a fifo.
func TestLocalEndsAll(t *testing.T) {
	for _, how := range []string{"cancelled", "leader exits"} {
		t.Run(how, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			c := sh(`sh -c 'trap "" TERM; echo $$ > "$0"; exec sleep 1000' "$FIFO" & `)
			c.Argv[2] += map[string]string{"cancelled": "wait", "leader exits": `read -r pid < "$FIFO"; echo "$pid"`}[how]
			c.Env = append(c.Env, "FIFO="+fifo)
			c.Grace = 100 * time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("given up")
			pid := make(chan int, 1)
			if how == "cancelled" {
				go func() {
					text, _ := os.ReadFile(fifo)
					n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
					pid <- n
					cancel(why)
				}()
			}
			out, err := Local{Temp: t.TempDir()}.Run(ctx, c)
			cancel(nil)
			if how == "cancelled" {
				if !errors.Is(err, why) {
					t.Errorf("error %v", err)
				}
			} else {
				if err != nil || out.Exit != 0 {
					t.Fatal(out, err)
				}
				n, _ := strconv.Atoi(strings.TrimSpace(string(out.Stdout)))
				pid <- n
			}
			n := <-pid
			if n < 2 {
				t.Fatalf("the child did not begin: %d", n)
			}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for deadline := time.Now().Add(30 * time.Second); alive(n); <-tick.C { // its new parent may take a moment to collect it
				if time.Now().After(deadline) {
					t.Fatalf("process %d survives", n)
				}
			}
		})
	}
}

// TestLocalIsPatient lets a command that hears SIGTERM put its things in order.
func TestLocalIsPatient(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c := sh(`trap 'echo tidy > "$D/tidy"; exit 0' TERM; echo go > "$D/fifo"; while :; do sleep 0.01; done`)
	c.Env = append(c.Env, "D="+dir)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(fifo)
		cancel()
	}()
	if _, err := (Local{Temp: dir}).Run(ctx, c); !errors.Is(err, context.Canceled) || read1(t, dir, "tidy") != "tidy" {
		t.Error(err)
	}
}

func TestLocalLimitsOutput(t *testing.T) {
	var e *OutputError
	if _, err := (Local{Temp: t.TempDir()}).Run(t.Context(), sh("while :; do echo hello; done")); !errors.As(err, &e) || e.Type != TypeOutputTooLarge {
		t.Error(err)
	}
	if _, err := (Local{Temp: t.TempDir()}).Run(t.Context(), sh("head -c 1001 /dev/zero")); !errors.As(err, &e) {
		t.Error(err)
	}
	out, err := Local{Temp: t.TempDir()}.Run(t.Context(), sh("head -c 1000 /dev/zero; head -c 1000000 /dev/zero >&2; echo the end >&2"))
	if err != nil || len(out.Stdout) != 1000 || len(out.Stderr) > keptStderr || !strings.HasSuffix(string(out.Stderr), "the end\n") {
		t.Errorf("%d %d, %v", len(out.Stdout), len(out.Stderr), err)
	}
}

func TestLocalCannotStart(t *testing.T) {
	for argv, want := range map[string]string{
		"no-such-program": `the command cannot be run: there is no program "no-such-program" in /usr/bin:/bin`,
		"./none":          "the command cannot be run: ",
	} {
		c := sh("")
		c.Argv = []string{argv}
		if _, err := (Local{Temp: t.TempDir()}).Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Local{Temp: t.TempDir()}).Run(ctx, sh("exit 0")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestEnvironmentIsOurs holds all that a command sees against the list of what it may see.
func TestEnvironmentIsOurs(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVER", "s3cret")
	v, err := one(t, "  - task: a\n    requires: [cpus]\n    run: env\n    output: text\n    provides: x\n", commands(t), "inputs: {cpus: 2}\n")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{"STAGEPOST_COMMANDS": true, "PATH": true, "HOME": true, "LANG": true, "PWD": true, "OLDPWD": true, "SHLVL": true, "_": true, "cpus": true,
		"STAGEPOST_FLOW": true, "STAGEPOST_TASK": true, "STAGEPOST_KEY": true, "STAGEPOST_ATTEMPT": true}
	for _, line := range strings.Split(v.(string), "\n") {
		if name, _, _ := strings.Cut(line, "="); !allowed[name] {
			t.Errorf("the command sees %s", line)
		}
	}
	for _, want := range []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "cpus=2", "STAGEPOST_TASK=a", "STAGEPOST_KEY=f/a/1"} {
		if !strings.Contains("\n"+v.(string)+"\n", "\n"+want+"\n") {
			t.Errorf("the command does not see %s:\n%s", want, v)
		}
	}
}

// hostile are values that would be a program if they ever stood in one.
var hostile = []string{
	"a b", "'", `"`, `'"'"'`, "$(touch pwned)", "`touch pwned`", "; touch pwned", "| touch pwned", "&& touch pwned", "\n touch pwned\n#", "--help", "-n", "*", "$HOME", "${x}", "%s%n",
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
	if f.Type != TypeCommandFailed || f.Message != "the command exited with 9: one" || !errors.As(err, &e) || e.Exit != 9 {
		t.Errorf("%v", f)
	}
	_, err = one(t, "  - task: a\n    run: kill -9 $$\n", commands(t), "")
	if f := failureOf(t, err); f.Message != "the command was ended by SIGKILL" {
		t.Errorf("%v", f)
	}
	for text, want := range map[string]string{"false; true": "exited with 1", `echo "$nobody"`: "nobody"} { // sh -eu
		if _, err := one(t, "  - task: a\n    run: '"+text+"'\n", commands(t), ""); !strings.Contains(failureOf(t, err).Message, want) {
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
		if v, err := one(t, "  - task: a\n"+say+"    provides: x\n"+c.extra, commands(t), ""); err != nil || v != c.want {
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
		if v, err := one(t, "  - task: a\n    run: |\n      "+c.run+"\n    provides: "+c.provides+"\n", commands(t), ""); err != nil || v != "v" {
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

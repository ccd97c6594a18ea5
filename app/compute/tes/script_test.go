package tes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ran is what became of a script.
type ran struct {
	dir            string
	code           int
	stdout, stderr string
}

// file reads a file below the job's directory.
func (r *ran) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// play runs the script of a task in a directory of its own, as an agent does.
func play(t *testing.T, task Task) *ran {
	t.Helper()
	c, err := check(task)
	if err != nil {
		t.Fatal(err)
	}
	return playIn(t, directory(t), c)
}

// directory makes one whose name a shell reads as it is, whatever the test is called.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary directory
	return dir
}

func playIn(t *testing.T, dir string, c *checked) *ran {
	t.Helper()
	script := c.script()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("run.sh", script)
	for i := range c.Inputs {
		write(inputName+string(rune('0'+i)), c.Inputs[i].Content)
	}
	if out, err := exec.Command("bash", "-n", filepath.Join(dir, "run.sh")).CombinedOutput(); err != nil {
		t.Fatalf("bash cannot read it: %s\n%s", out, script)
	}
	var out, wrong bytes.Buffer
	cmd := exec.Command("bash", "run.sh")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &wrong
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	_ = cmd.Run() // the code is checked
	return &ran{dir: dir, code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: wrong.String()}
}

// hostile are texts that a shell would make something else of.
var hostile = []string{
	"", " ", "a b", "it's", "''", `"`, `\`, `\\'`, "$(touch pwned)", "`touch pwned`", "${HOME}", "$tes", `"$tes"`,
	"'; touch pwned; '", "\n", "a\nb\n", "\r", "\t", "*", "?", "[a]", "~", "!x", "-n", "--", "#",
	"a=b", "&", "|", ">x", "<(x)", "{a,b}", "é", "\u2028", "EOF", "$'\\n'", "%s", "\x01\x7f",
}

// TestArgv has every word arrive as it was sent, with and without variables. The control is that the same words,
// unquoted, do something else.
func TestArgv(t *testing.T) {
	for _, env := range []map[string]string{nil, {"A": "b"}} {
		r := play(t, Task{Executors: []Executor{{Image: "x", Command: append([]string{"printf", `%s\0`}, hostile...),
			Env: env}}})
		got := strings.Split(strings.TrimSuffix(r.stdout, "\x00"), "\x00")
		if diff := cmp.Diff(hostile, got); diff != "" || r.code != 0 {
			t.Errorf("code %d, %s: %s", r.code, r.stderr, diff)
		}
		if found, err := filepath.Glob(filepath.Join(r.dir, "*", "pwned")); err != nil || len(found) > 0 {
			t.Errorf("a word was run: %v, %v", found, err)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("bash", "-c", "printf '%s' "+hostile[8])
	cmd.Dir = dir
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err != nil {
		t.Error("the control does nothing: the test proves nothing")
	}
}

// TestHostileNames puts what a shell reads otherwise into all names of files, and into values of variables.
func TestHostileNames(t *testing.T) {
	for _, h := range hostile {
		if h == "" || strings.HasPrefix(h, "<(") {
			h = "x"
		}
		name := strings.ReplaceAll(h, "/", "_")
		task := Task{
			Inputs:  []Input{{Path: "/data/" + name + "/in", Content: "given"}},
			Outputs: []Output{{Path: "/out/" + name + "/o"}},
			Executors: []Executor{{
				Image: "x", Command: []string{"sh", "-c", `cat; printf '%s' "$V" >&2; pwd`},
				Env: map[string]string{"V": h}, Workdir: "/work/" + name,
				Stdin: "/data/" + name + "/in", Stdout: "/out/" + name + "/o", Stderr: "/err/" + name,
			}},
		}
		r := play(t, task)
		if got := r.file(t, "tes/out/"+name+"/o"); r.code != 0 || !strings.HasPrefix(got, "given") ||
			!strings.Contains(got, "/tes/work/"+name) {
			t.Errorf("%q: code %d, wrote %q, %s", h, r.code, got, r.stderr)
		}
		if got := r.file(t, "tes/err/"+name); got != h {
			t.Errorf("the variable is %q, want %q", got, h)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, h := range hostile {
		f.Add(h, h, "/data/in", h)
	}
	f.Fuzz(func(t *testing.T, word, value, name, work string) {
		task := Task{
			Inputs: []Input{{Path: name, Content: "x"}},
			Executors: []Executor{{Image: "x", Command: []string{"printf", `%s\0`, word, "|", value},
				Env: map[string]string{"V": value}, Workdir: "/w/" + work}},
		}
		c, err := check(task)
		if err != nil {
			return // refused: nothing is written
		}
		r := playIn(t, directory(t), c)
		if r.code != 0 {
			if strings.Contains(r.stderr, "cannot be made") { // the file system refuses the name
				return
			}
			t.Fatalf("code %d: %s", r.code, r.stderr)
		}
		root := filepath.Join(r.dir, "tes")
		want := []string{c.led(word, root), "|", c.led(value, root)}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(r.stdout, "\x00"), "\x00")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// led is what a text is once its paths are led below a root, by another way than word.
func (c *checked) led(text, root string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if c.paths.at(text, i) > 0 {
			b.WriteString(root)
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// TestPaths rewrites what speaks of a path of the task, and nothing else.
func TestPaths(t *testing.T) {
	c, err := check(Task{
		Inputs:    []Input{{Path: "/data/in.txt", Content: "x"}, {Path: "/usr/bin/own.py", Content: "x"}},
		Volumes:   []string{"/vol/A/"},
		Executors: []Executor{{Image: "x", Command: []string{"x"}, Workdir: "/work/run"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"/data/in.txt": "R/data/in.txt", "/data": "R/data", "/data/": "R/data/", "/data/other": "R/data/other",
		"/data/in.txt.bak": "R/data/in.txt.bak", "--in=/data/in.txt": "--in=R/data/in.txt",
		"cat '/data/in.txt' >/data/x;ls /data": "cat 'R/data/in.txt' >R/data/x;ls R/data", "a:/data:/vol/A": "a:R/data:R/vol/A", "/vol/A/b": "R/vol/A/b", "/vol": "R/vol", "/work/run/x": "R/work/run/x",
		"/database": "/database", "/data-1": "/data-1", "x/data": "x/data", "$HOME/data": "$HOME/data",
		"${X}/data": "${X}/data", "file:///data/in.txt": "file:///data/in.txt", "../data": "../data",
		"~/data":          "~/data",
		"/usr/bin/python": "/usr/bin/python", "/usr/bin/own.py": "R/usr/bin/own.py", "/bin/sh": "/bin/sh", "/": "/",
		"": "", "/dev/null": "/dev/null",
	} {
		if got := c.led(text, "R"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		out, err := exec.Command("bash", "-c", "tes=R; printf %s "+c.paths.word(text)).Output()
		if string(out) != want || err != nil {
			t.Errorf("%q: bash makes %q of it, want %q (%v)", text, out, want, err)
		}
	}
}

// TestSequence runs executors one after the other, each with what those before it left.
func TestSequence(t *testing.T) {
	task := Task{
		Inputs:  []Input{{Path: "/data/in.txt", Content: "one\n"}, {Path: "/data/both.txt", Content: "before\n"}},
		Outputs: []Output{{Path: "/data/both.txt"}, {Path: "/out/made", Type: TypeDirectory}},
		Volumes: []string{"/vol"},
		Executors: []Executor{
			{Image: "x", Command: []string{"sh", "-c", "cat /data/in.txt >/vol/a; echo hello; echo loud >&2; echo more >>/data/both.txt"}},
			{Image: "x", Command: []string{"sh", "-c", "exit 3"}, IgnoreError: true},
			{Image: "x", Command: []string{"cat", "a"}, Workdir: "/vol", Stdout: "/out/made/both",
				Stderr: "/out/made/both"},
			{Image: "x", Command: []string{"sh", "-c", "kill -9 $$"}},
			{Image: "x", Command: []string{"touch", "/vol/never"}},
		},
	}
	r := play(t, task)
	if r.code != 137 || r.stdout != "" {
		t.Errorf("code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	for name, want := range map[string]string{"tes/vol/a": "one\n", "tes/out/made/both": "one\n",
		"tes.log/0.stdout": "hello\n", "tes.log/0.stderr": "loud\n", "tes/data/both.txt": "before\nmore\n",
		"tes.in.1": "before\n"} {
		if got := r.file(t, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(r.dir, "tes/vol/never")); err == nil {
		t.Error("an executor ran behind one that failed")
	}
	if target, err := os.Readlink(filepath.Join(r.dir, "tes/data/in.txt")); err != nil || target != "../../tes.in.0" {
		t.Errorf("the input is %q, %v", target, err)
	}
	var codes []string
	for line := range strings.Lines(r.file(t, "tes.log/executors")) {
		codes = append(codes, strings.Join(strings.Fields(line)[:2], "="))
	}
	if diff := cmp.Diff([]string{"0=0", "1=3", "2=0", "3=137"}, codes); diff != "" {
		t.Error(diff)
	}
}

// TestUnsafeDirectory refuses to run where a path in a shell's text would mean something else; the control is any other
// directory.
func TestUnsafeDirectory(t *testing.T) {
	c, err := check(Task{Inputs: []Input{{Path: "/d/x", Content: "x"}},
		Executors: []Executor{{Image: "x", Command: []string{"sh", "-c", "cat /d/x"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]int{"plain": 0, "with space": 125, "$(id)": 125, "a;b": 125, "é": 125} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if r := playIn(t, dir, c); r.code != code {
			t.Errorf("%q: code %d, want %d: %s", name, r.code, code, r.stderr)
		}
	}
}

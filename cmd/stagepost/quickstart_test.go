package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestQuickStarts follows documents in an empty directory, as a reader would: it saves the files that follow <!-- file
// NAME -->, and runs the blocks that follow <!-- run -->, line by line. A line succeeds unless its comment is "exit
// code N". A line that starts a server runs until the end. ID, BATCH and ARK stand for what the commands before have
// made.
func TestQuickStarts(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "docs/ingest.md", "docs/compute.md", "docs/custom.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", name))
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{T: t, program: path, dir: t.TempDir(), port: freePort(t)}
			r.link("README.md", "examples")
			ran := 0
			for _, b := range blocksOf(string(text)) {
				switch mark, arg, _ := strings.Cut(b.mark, " "); mark {
				case "file":
					if err := os.WriteFile(filepath.Join(r.dir, arg), []byte(r.ported(b.text)), 0o600); err != nil {
						t.Fatal(err)
					}
				case "run":
					for _, line := range logical(b.script()) {
						ran++
						r.follow(line)
					}
				}
			}
			if ran < 5 {
				t.Errorf("only %d commands were run", ran)
			}
		})
	}
}

// reader follows a document.
type reader struct {
	*testing.T
	program, dir, port string
	id, output         string // the job that ID stands for; what all commands printed
}

// link puts files of the repository into the directory, as a clone has them.
func (r *reader) link(names ...string) {
	r.Helper()
	for _, name := range names {
		from, err := filepath.Abs(filepath.Join("..", "..", name))
		if err == nil {
			err = os.Symlink(from, filepath.Join(r.dir, name))
		}
		if err != nil {
			r.Fatal(err)
		}
	}
}

// ported replaces the port of the examples by one that is free.
func (r *reader) ported(text string) string {
	return strings.NewReplacer("127.0.0.1:8000", "127.0.0.1:"+r.port, "http.server 8000",
		"http.server "+r.port).Replace(text)
}

// freePort gives a port that no outgoing connection takes: the system takes those from 32768 on.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(20000+rand.IntN(10000)))
		if err == nil {
			_, port, _ := net.SplitHostPort(l.Addr().String())
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// logical gives the lines of a script; a backslash at the end continues one.
func logical(script string) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

var (
	wantedCode = regexp.MustCompile(`# exit code (\d+)`)
	lasting    = regexp.MustCompile(`^(stagepost serve|python3 -m http\.server)\b`)
	printedARK = regexp.MustCompile(`ark:/\d+/\w+`)
	standIn    = regexp.MustCompile(`\b(ID|BATCH|ARK)\b`)
)

// command makes the call of a line by a shell.
func (r *reader) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(r.program)+":"+os.Getenv("PATH"), "HOME="+r.dir,
		"STAGEPOST_LISTEN=127.0.0.1:0",
		"PYTHONUNBUFFERED=1", "XDG_DATA_HOME=")
	return cmd
}

// follow runs a line.
func (r *reader) follow(line string) {
	r.Helper()
	line = standIn.ReplaceAllStringFunc(r.ported(line), r.made)
	if lasting.MatchString(line) {
		r.serve(line)
		return
	}
	out, err := r.call(line)
	if err != nil {
		r.Fatalf("$ %s\n%s\n%v", line, out, err)
	}
	r.Logf("$ %s\n%s", line, out)
}

// call runs a line that ends, and reports another exit code than its comment gives.
func (r *reader) call(line string) (string, error) {
	want := 0
	if m := wantedCode.FindStringSubmatch(line); m != nil {
		want, _ = strconv.Atoi(m[1])
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	out, err := r.command(ctx, line).CombinedOutput()
	r.output += string(out)
	code := 0
	if err != nil {
		code = -1
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		}
	}
	if code != want {
		return string(out), fmt.Errorf("exit code %d, want %d", code, want)
	}
	return string(out), nil
}

// TestQuickStartsSees is the control.
func TestQuickStartsSees(t *testing.T) {
	r := &reader{T: t, program: filepath.Join(t.TempDir(), "stagepost"), dir: t.TempDir()}
	for line, ok := range map[string]bool{
		"true": true, "false": false, "false # exit code 1": true, "true # exit code 1": false, "no-command": false,
	} {
		if _, err := r.call(line); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// made gives what a word of the documents stands for: a failed job, or else the one before; the newest batch; an
// identifier that a command printed.
func (r *reader) made(word string) string {
	r.Helper()
	newest := func(flags string) string {
		out, err := r.command(r.Context(), "stagepost list -o json "+flags).Output()
		var jobs []struct {
			ID string `json:"id"`
		}
		if err == nil {
			err = json.Unmarshal(out, &jobs)
		}
		if err != nil {
			r.Fatalf("%s: %v\n%s", word, err, out)
		}
		if len(jobs) == 0 {
			return ""
		}
		return jobs[0].ID
	}
	switch word {
	case "BATCH":
		return newest("--kind ingest.batch")
	case "ARK":
		if all := printedARK.FindAllString(r.output, -1); len(all) > 0 {
			return all[len(all)-1]
		}
		r.Fatal("no command printed an ARK")
	}
	if id := newest("--kind ingest.job --state Failed"); id != "" {
		r.id = id
	}
	return cmp.Or(r.id, newest(""))
}

// serve starts a server, which runs until the test ends, and waits until it has printed its address.
func (r *reader) serve(line string) {
	r.Helper()
	cmd := r.command(context.WithoutCancel(r.Context()), "exec "+line)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.Fatalf("%s: %v", line, err)
	}
	ended := make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "127.0.0.1") {
				close(ready)
				_, _ = io.Copy(io.Discard, out)
				return
			}
		}
	}()
	r.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = cmd.Wait() // python ends by the signal
	})
	select {
	case <-ready:
	case <-ended:
		r.Fatal(fmt.Errorf("%s ended", line))
	}
}

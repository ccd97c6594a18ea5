package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
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
	"unicode/utf8"
)

// TestQuickStarts follows documents in an empty directory, as a reader would: it saves the files that follow <!-- file
// NAME -->, and runs the blocks that follow <!-- run -->, line by line, on a terminal of 80 columns. A line succeeds
// unless its comment is "exit code N". A line that starts a server runs until the end. ID, BATCH, ARK and JOB stand for
// what the commands before have made. No command and no line of output is longer than 80 columns. With -transcript the
// session is written to a file.
func TestQuickStarts(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "docs/ingest.md", "docs/compute.md", "docs/custom.md",
		"docs/archive.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", name))
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{T: t, program: path, dir: t.TempDir(), port: freePort(t), second: freePort(t)}
			r.link("README.md", "examples")
			ran := 0
			for _, b := range blocksOf(string(text)) {
				switch mark, arg, _ := strings.Cut(b.mark, " "); mark {
				case "file":
					if err := os.WriteFile(filepath.Join(r.dir, arg), []byte(r.ported(b.text)), 0o600); err != nil {
						t.Fatal(err)
					}
				case "run":
					for line := range strings.Lines(b.script()) {
						if utf8.RuneCountInString(line) > 78 { // after the prompt
							t.Errorf("a command of %s is longer than the terminal: %s", name, line)
						}
					}
					for _, line := range logical(b.script()) {
						ran++
						r.follow(line)
					}
				}
			}
			if ran < 5 {
				t.Errorf("only %d commands were run", ran)
			}
			if *transcripts != "" {
				file := strings.TrimSuffix(filepath.Base(name), ".md") + ".txt"
				if err := os.WriteFile(filepath.Join(*transcripts, file), []byte(r.session), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

var transcripts = flag.String("transcript", "", "a directory for the sessions of TestQuickStarts")

// reader follows a document.
type reader struct {
	*testing.T
	program, dir string
	port, second string // instead of those of the examples
	id, output   string // the job that ID stands for; what all commands printed
	session      string // the commands and what the terminal showed
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

// ported replaces the ports of the examples by free ones.
func (r *reader) ported(text string) string {
	return strings.NewReplacer("127.0.0.1:8000", "127.0.0.1:"+r.port, "http.server 8000",
		"http.server "+r.port, "127.0.0.1:8001", "127.0.0.1:"+r.second, "--port 8001",
		"--port "+r.second).Replace(text)
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
	lasting    = regexp.MustCompile(`^(stagepost serve|stagepost demo campus|python3 -m http\.server)\b`)
	printedARK = regexp.MustCompile(`ark:/\d+/\w+`)
	greeted    = regexp.MustCompile(`(?s)127\.0\.0\.1.*,\s+data\s+in\s+\S+\s|Serving HTTP|authority\s.*root\s`)
	standIn    = regexp.MustCompile(`\b(ID|BATCH|ARK|JOB)\b`)
)

// command makes the call of a line by a shell.
func (r *reader) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(r.program)+":"+os.Getenv("PATH"), "HOME="+r.dir,
		"STAGEPOST_LISTEN=127.0.0.1:0", "TERM=xterm",
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
	r.saw(line, out)
}

// saw notes what a terminal showed after a command.
func (r *reader) saw(line, out string) {
	r.Helper()
	shown := screenOf(out)
	r.session += "$ " + folded(line) + "\n"
	if shown != "" {
		r.session += shown + "\n"
	}
	r.Logf("$ %s\n%s", line, shown)
	for _, fault := range unfit(shown) {
		r.Errorf("$ %s: %s", line, fault)
	}
}

// folded writes a command as it is typed on a terminal of 80 columns, without its comment.
func folded(line string) string {
	text, width := "", 2
	command, _, _ := strings.Cut(line, " # ")
	for word := range strings.FieldsSeq(command) {
		if n := utf8.RuneCountInString(word) + 1; width+n > 78 {
			text, width = text+" \\\n ", 1+n
		} else {
			width += n
		}
		text += " " + word
	}
	return strings.TrimSpace(text)
}

// onScreen runs a command on a terminal, or where there is none in a pipe, and gives what it printed.
func onScreen(cmd *exec.Cmd) (string, error) {
	watcher, program, err := openTerminal()
	if errors.Is(err, errors.ErrUnsupported) {
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if err != nil {
		return "", err
	}
	defer watcher.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = program.Close()
	if err != nil {
		return "", err
	}
	out, _ := io.ReadAll(watcher) // the read fails when the command has closed the terminal
	return string(out), cmd.Wait()
}

// call runs a line that ends, and reports another exit code than its comment gives.
func (r *reader) call(line string) (string, error) {
	want := 0
	if m := wantedCode.FindStringSubmatch(line); m != nil {
		want, _ = strconv.Atoi(m[1])
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	out, err := onScreen(r.command(ctx, line))
	r.output += out
	code := 0
	if err != nil {
		code = -1
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		}
	}
	if code != want {
		return out, fmt.Errorf("exit code %d, want %d", code, want)
	}
	return out, nil
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
	case "JOB":
		return newest("--kind archive.job")
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
	out, program, err := openTerminal()
	if errors.Is(err, errors.ErrUnsupported) {
		out, program, err = os.Pipe()
	}
	if err == nil {
		cmd.Stdout = program
		err = cmd.Start()
		_ = program.Close()
	}
	if err != nil {
		r.Fatalf("%s: %v", line, err)
	}
	var greeting strings.Builder // until ready is closed
	ended := make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			greeting.WriteString(lines.Text() + "\n")
			if greeted.MatchString(greeting.String()) {
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
		_ = out.Close()
	})
	select {
	case <-ready:
		r.saw(line, greeting.String())
	case <-ended:
		r.Fatal(fmt.Errorf("%s ended", line))
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-ended
		r.Fatal(fmt.Errorf("%s printed no greeting within a minute, but this:\n%s", line, greeting.String()))
	}
}

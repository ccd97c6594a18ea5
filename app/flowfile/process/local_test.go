//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/polltest"
)

func sh(text string) *Command {
	return &Command{Argv: []string{"sh", "-c", text}, Env: []string{"PATH=/usr/bin:/bin"}, Most: 1000,
		Grace: time.Minute}
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
	if left, _ := os.ReadDir(temp); len(left) != 0 || len(lines) != 2 || lines[0] != lines[1] ||
		filepath.Dir(lines[0]) != temp {
		t.Errorf("%v, left %v", lines, left)
	}
}

// alive reports whether a process is there and is no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(text), ") Z ")
}

// TestLocalEndsAll cancels a command whose child ignores SIGTERM. The child reports its number and that it is ready
// through a fifo.
func TestLocalEndsAll(t *testing.T) {
	for _, how := range []string{"cancelled", "leader exits"} {
		t.Run(how, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			c := sh(`sh -c 'trap "" TERM; echo $$ > "$0"; exec sleep 1000' "$FIFO" & `)
			c.Argv[2] += map[string]string{"cancelled": "wait",
				"leader exits": `read -r pid < "$FIFO"; echo "$pid"`}[how]
			c.Env = append(c.Env, "FIFO="+fifo)
			c.Grace = 100 * time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("abandoned")
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
			// its new parent may take a moment to collect it
			polltest.Until(t, fmt.Sprintf("the end of process %d", n), func() bool { return !alive(n) })
		})
	}
}

// TestLocalIsPatient lets a command that receives SIGTERM put its things in order.
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
	if _, err := (Local{Temp: dir}).Run(ctx, c); !errors.Is(err, context.Canceled) ||
		contents(t, dir, "tidy") != "tidy" {
		t.Error(err)
	}
}

func TestLocalLimitsOutput(t *testing.T) {
	var e *OutputError
	if _, err := (Local{Temp: t.TempDir()}).Run(t.Context(), sh("while :; do echo hello; done")); !errors.As(err, &e) ||
		e.Type != TypeOutputTooLarge {
		t.Error(err)
	}
	if _, err := (Local{Temp: t.TempDir()}).Run(t.Context(), sh("head -c 1001 /dev/zero")); !errors.As(err, &e) {
		t.Error(err)
	}
	out, err := Local{Temp: t.TempDir()}.Run(t.Context(), sh("head -c 1000 /dev/zero; head -c 1000000 /dev/zero >&2; echo the end >&2"))
	if err != nil || len(out.Stdout) != 1000 || len(out.Stderr) > 4<<10 ||
		!strings.HasSuffix(string(out.Stderr), "the end\n") {
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
		if _, err := (Local{Temp: t.TempDir()}).Run(t.Context(), c); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Local{Temp: t.TempDir()}).Run(ctx, sh("exit 0")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func contents(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/sandbox"
)

// boxes are the tiers that work here, opened once.
var boxes = map[string]*sandbox.Sandbox{}

func TestMain(m *testing.M) {
	sandbox.Init()
	for _, tier := range []string{sandbox.Native, sandbox.Bwrap, sandbox.None} {
		if box, err := sandbox.Open(context.Background(),
			sandbox.Options{Tier: tier, Name: "stagepost-process-" + tier}); err == nil {
			boxes[tier] = box
		}
	}
	code := m.Run()
	for _, box := range boxes {
		_ = box.Close()
	}
	os.Exit(code)
}

// position is where a command of a test runs.
type site struct {
	Commander
	temp  string // where directories of commands are made
	dir   string // one that a command may be given
	walls bool   // it sees its own files only, and no network
}

// everywhere runs a test with each commander there is.
func everywhere(t *testing.T, test func(t *testing.T, p site)) {
	t.Run("local", func(t *testing.T) {
		temp := t.TempDir()
		test(t, site{Local{Temp: temp}, temp, t.TempDir(), false})
	})
	if len(boxes) == 0 {
		t.Error("no tier of the sandbox works here; stagepost compute agent doctor shows why")
	}
	for tier, box := range boxes {
		t.Run(tier, func(t *testing.T) {
			temp, dir := t.TempDir(), t.TempDir()
			passable(t, temp)
			test(t, site{&Confined{Sandbox: box, Temp: temp, Dirs: []string{dir}}, temp, dir, tier != sandbox.None})
		})
	}
}

// passable lets all users pass through a directory of the test and the one above it: commands of root have a user of
// their own.
func passable(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(name, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

func TestContractExits(t *testing.T) {
	everywhere(t, func(t *testing.T, p site) {
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
			out, err := p.Run(t.Context(), sh(c.text))
			if err != nil || out.Exit != c.exit || out.Signal != c.signal || string(out.Stderr) != c.stderr ||
				out.Limit != "" {
				t.Errorf("%s: %+v, %v", c.text, out, err)
			}
		}
	})
}

// TestContractDirectory: a directory of its own goes with all that is in it, one that is given stays.
func TestContractDirectory(t *testing.T) {
	everywhere(t, func(t *testing.T, p site) {
		out, err := p.Run(t.Context(), sh("mkdir a; touch a/b; chmod 0 a; pwd; echo $HOME"))
		if err != nil || out.Exit != 0 {
			t.Fatal(out, err)
		}
		lines := strings.Fields(string(out.Stdout))
		if left, _ := os.ReadDir(p.temp); len(left) != 0 || len(lines) != 2 || lines[0] != lines[1] {
			t.Errorf("%v, left %v", lines, left)
		}
		c := sh("echo made > here; cat before")
		c.Dir = p.dir
		if err := os.WriteFile(filepath.Join(p.dir, "before"), []byte("found"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := p.Run(t.Context(), c); err != nil || string(out.Stdout) != "found" ||
			contents(t, p.dir, "here") != "made" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// TestContractEndsAll: the one who holds the fifo to write is a process of the command; at its end there is none.
func TestContractEndsAll(t *testing.T) {
	for name, after := range map[string]string{"cancelled": "wait", "leader exits": "read -r word < back"} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, p site) {
				for _, fifo := range []string{"fifo", "back"} {
					if err := syscall.Mkfifo(filepath.Join(p.dir, fifo), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				c := sh(`sh -c 'trap "" TERM; exec 3>fifo; echo began >&3; while :; do sleep 1000; done' & ` + after)
				c.Dir, c.Grace = p.dir, 100*time.Millisecond
				why := errors.New("abandoned")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				ended := make(chan error, 1)
				go func() {
					in, err := os.Open(filepath.Join(p.dir, "fifo"))
					if err != nil {
						ended <- err
						return
					}
					defer in.Close()
					_, err = in.Read(make([]byte, 6))
					if name == "cancelled" {
						cancel(why)
					} else {
						err = errors.Join(err, os.WriteFile(filepath.Join(p.dir, "back"), []byte("go\n"), 0o600))
					}
					_, rest := io.ReadAll(in)
					ended <- errors.Join(err, rest)
				}()
				out, err := p.Run(ctx, c)
				if name == "cancelled" && !errors.Is(err, why) || name != "cancelled" && (err != nil || out.Exit != 0) {
					t.Errorf("%+v, %v", out, err)
				}
				if err := <-ended; err != nil { // the test's own time limit if a process lives on
					t.Error(err)
				}
			})
		})
	}
}

// TestContractIsPatient lets a command that receives SIGTERM put its things in order.
func TestContractIsPatient(t *testing.T) {
	everywhere(t, func(t *testing.T, p site) {
		if err := syscall.Mkfifo(filepath.Join(p.dir, "fifo"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := sh(`trap 'echo tidy > tidy; exit 0' TERM; echo go > fifo; while :; do sleep 0.01; done`)
		c.Dir = p.dir
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = os.ReadFile(filepath.Join(p.dir, "fifo"))
			cancel()
		}()
		if _, err := p.Run(ctx, c); !errors.Is(err, context.Canceled) || contents(t, p.dir, "tidy") != "tidy" {
			t.Error(err)
		}
	})
}

func TestContractOutput(t *testing.T) {
	everywhere(t, func(t *testing.T, p site) {
		for _, text := range []string{"while :; do echo hello; done", "head -c 1001 /dev/zero"} {
			var e *OutputError
			if _, err := p.Run(t.Context(), sh(text)); !errors.As(err, &e) || e.Type != TypeOutputTooLarge {
				t.Errorf("%s: %v", text, err)
			}
		}
		out, err := p.Run(t.Context(), sh("head -c 1000 /dev/zero; head -c 1000000 /dev/zero >&2; echo the end >&2"))
		if err != nil || len(out.Stdout) != 1000 || len(out.Stderr) > keptStderr ||
			!strings.HasSuffix(string(out.Stderr), "the end\n") {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestContractInput(t *testing.T) {
	everywhere(t, func(t *testing.T, p site) {
		c := sh("cat")
		c.Stdin, c.Most = bytes.Repeat([]byte("0123456789\x00\n"), 50_000), 1<<20
		if out, err := p.Run(t.Context(), c); err != nil || !bytes.Equal(out.Stdout, c.Stdin) {
			t.Errorf("%v", err)
		}
		c.Argv = sh("exit 3").Argv // reads nothing
		if out, err := p.Run(t.Context(), c); err != nil || out.Exit != 3 {
			t.Errorf("%+v, %v", out, err)
		}
		if out, err := p.Run(t.Context(), sh("cat; echo at its end")); err != nil ||
			string(out.Stdout) != "at its end\n" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestContractCannotStart(t *testing.T) {
	everywhere(t, func(t *testing.T, p site) {
		for _, argv := range []string{"no-such-program", "./none"} {
			c := sh("")
			c.Argv = []string{argv}
			if _, err := p.Run(t.Context(), c); err == nil ||
				!strings.HasPrefix(err.Error(), "the command cannot be run: ") {
				t.Errorf("%s: %v", argv, err)
			}
		}
		why := errors.New("before it began")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if _, err := p.Run(ctx, sh("exit 0")); !errors.Is(err, why) {
			t.Error(err)
		}
	})
}

// TestContractEnvironment holds all that a command sees against the list of what it may see.
func TestContractEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVER", "s3cret")
	everywhere(t, func(t *testing.T, p site) {
		c := sh("env")
		c.Env = append(c.Env, "GIVEN=a b\nc=d")
		out, err := p.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(out.Stdout); strings.Contains(text, "s3cret") ||
			!strings.Contains(text, "GIVEN=a b\nc=d\n") || !strings.Contains(text, "PATH=/usr/bin:/bin\n") {
			t.Errorf("the command sees\n%s", text)
		}
	})
}

// TestWalls: a file and a port of the machine are there for the one who is not confined, which is the control, and for
// no one else.
func TestWalls(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o644); err != nil {
		t.Fatal(err)
	}
	passable(t, filepath.Dir(secret))
	everywhere(t, func(t *testing.T, p site) {
		for _, text := range []string{`cat "$SECRET"`, `exec 3<>/dev/tcp/127.0.0.1/$PORT`} {
			c := sh(text)
			c.Argv[0] = "bash"
			c.Env = append(c.Env, "SECRET="+secret, "PORT="+port)
			out, err := p.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if (out.Exit != 0) != p.walls {
				t.Errorf("%s: exit %d, %s", text, out.Exit, out.Stderr)
			}
		}
	})
	for tier, box := range boxes { // the second control: the network is there if that was stated
		c := sh(`exec 3<>/dev/tcp/127.0.0.1/$PORT`)
		c.Argv[0] = "bash"
		c.Env = append(c.Env, "PORT="+port)
		if out, err := (&Confined{Sandbox: box, Temp: t.TempDir(), Network: "host"}).Run(t.Context(), c); err != nil ||
			out.Exit != 0 {
			t.Errorf("tier %s with the machine's network: %+v, %v", tier, out, err)
		}
	}
}

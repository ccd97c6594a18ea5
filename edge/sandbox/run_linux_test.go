package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/edge/sandbox/proctree"
)

func TestExit(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		for _, c := range []struct {
			script, signal string
			exit           int
			cause          Cause
			sentence       string
		}{
			{"true", "", 0, Itself, "the command ended well"},
			{"exit 3", "", 3, Itself, "the command ended with exit code 3"},
			{"exit 255", "", 255, Itself, "the command ended with exit code 255"},
			{"kill -SEGV $$", "SIGSEGV", -1, Signal, "the command was ended by SIGSEGV"},
			{"kill -KILL $$", "SIGKILL", -1, Signal, "the command was ended by SIGKILL"},
			{"kill -TERM $$", "SIGTERM", -1, Signal, "the command was ended by SIGTERM"},
			{"exec sh -c 'exit 9'", "", 9, Itself, "the command ended with exit code 9"},
		} {
			g := shell(t, s, tier, c.script, nil)
			if g.Exit != c.exit || g.Signal != c.signal || g.Cause != c.cause || g.Sentence != c.sentence ||
				g.Tier != tier {
				t.Errorf("%s: got %+v, want %+v", c.script, g.Ending, c)
			}
		}
	})
}

// limited is a command that goes beyond a limit.
var limited = []struct {
	name, script string
	limits       Limits
	want         Cause
}{
	{"wall", "sleep 600", Limits{Wall: 200 * time.Millisecond}, Timeout},
	{"wall, deaf to TERM", "trap '' TERM; while :; do sleep 1; done", Limits{Wall: 200 * time.Millisecond}, Timeout},
	{"cpu", "while :; do :; done", Limits{CPU: 400 * time.Millisecond}, CPU},
	{"cpu of children", "(while :; do :; done) & (while :; do :; done) & wait", Limits{CPU: 400 * time.Millisecond}, CPU},
	{"memory", "x=a; for i in {1..26}; do x=$x$x; done; sleep 600; : $x", Limits{Memory: 48 << 20}, Memory},
	{"memory of a child", "bash -c 'x=a; for i in {1..26}; do x=$x$x; done; sleep 600; : $x'; exit $?", Limits{Memory: 48 << 20}, Memory},
	{"disk, one file", "head -c 20M /dev/zero > f; exit $?", Limits{Disk: 4 << 20}, Disk},
	{"disk, many files", "for i in {1..40}; do head -c 1M /dev/zero > f$i; done; sleep 600", Limits{Disk: 4 << 20}, Disk},
	{"disk, temporary files", `for i in {1..40}; do head -c 1M /dev/zero > $TMPDIR/f$i || break; done; sleep 600`, Limits{Disk: 4 << 20}, Disk},
}

func TestLimits(t *testing.T) {
	alone := ungrouped(t)
	each(t, func(t *testing.T, grouped *Sandbox, tier string) {
		for name, s := range map[string]*Sandbox{"groups": grouped, "watch": alone} {
			for _, c := range limited {
				t.Run(name+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					g := shell(t, s, tier, c.script, func(cmd *Command) { cmd.Limits = c.limits })
					if g.Cause != c.want || g.Sentence == "" || g.Exit == 0 {
						t.Errorf("got %+v, want %s", g.Ending, c.want)
					}
				})
			}
		}
	})
}

// TestLimitsKept is the control of TestLimits: what stays below its limits ends well, and is measured.
func TestLimitsKept(t *testing.T) {
	alone := ungrouped(t)
	each(t, func(t *testing.T, grouped *Sandbox, tier string) {
		for name, s := range map[string]*Sandbox{"groups": grouped, "watch": alone} {
			g := shell(t, s, tier, "head -c 2M /dev/zero > f; head -c 1M /dev/zero > $TMPDIR/f; (exit 0) & wait", func(c *Command) {
				c.Limits = Limits{Wall: time.Minute, CPU: time.Minute, Memory: 512 << 20, Disk: 8 << 20, Processes: 32,
					Cores: 1.5, Files: 64}
			})
			if g.Exit != 0 || g.Cause != Itself {
				t.Errorf("%s: got %+v (%s), want exit 0", name, g.Ending, g.err)
			}
			if g.DiskUsed < 2<<20 || g.DiskUsed > 3<<20 || g.PeakMemory == 0 || g.CPU == 0 || g.Wall == 0 {
				t.Errorf("%s: got %+v, want what was used", name, g.Ending)
			}
		}
	})
}

// notify calls a function with every write.
type notify func(text string)

func (f notify) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// TestProcesses begins more processes than there may be. bash writes a line when it gets none, and is cancelled then:
// it would go on trying. Without control groups the watch may be faster.
func TestProcesses(t *testing.T) {
	const bomb = "for i in {1..200}; do sleep 600 & done; wait"
	alone := ungrouped(t)
	each(t, func(t *testing.T, grouped *Sandbox, tier string) {
		bombed := func(s *Sandbox) Ending {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			refused := notify(func(text string) {
				if strings.Contains(text, "fork") {
					cancel()
				}
			})
			e, err := s.run(ctx, tier, &Command{Argv: []string{"/bin/bash", "-c", bomb}, Dir: t.TempDir(),
				Stderr: refused, Limits: Limits{Processes: 20}, Grace: 100 * time.Millisecond})
			if err != nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Fatalf("got %+v, %v, want an end", e, err)
			}
			return e
		}
		if e := bombed(alone); e.Cause != Processes && e.Cause != Killed {
			t.Errorf("got %+v, want processes, or none above the limit", e)
		}
		if grouped.groups == nil {
			return
		}
		if e := bombed(grouped); !strings.Contains(e.Sentence, "it reached its limit of 20 processes") {
			t.Errorf("got %+v, want a note on the limit", e)
		}
	})
}

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		g := shell(t, s, tier, "ulimit -n; ulimit -c", func(c *Command) { c.Limits.Files = 33 })
		if g.out != "33\n0\n" {
			t.Errorf("got %q, want 33 open files and no core", g.out)
		}
	})
}

func TestOutputIsCut(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		g := shell(t, s, tier, "seq 100000; echo bad >&2; exit 4", func(c *Command) { c.Limits.Output = 10 })
		if g.out != "1\n2\n3\n4\n5\n" || g.err != "bad\n" || !g.Cut || g.StdoutBytes != 588895 || g.Exit != 4 {
			t.Errorf("got %q, %q, %+v, want the first 10 bytes, and exit 4", g.out, g.err, g.Ending)
		}
		if g := shell(t, s, tier, "echo 12345678", func(c *Command) {
			c.Limits.Output = 10
		}); g.Cut || g.out != "12345678\n" {
			t.Errorf("got %q, %+v, want it whole", g.out, g.Ending)
		}
	})
}

// alive gives the processes of the machine that have a text in their arguments.
func alive(t *testing.T, mark string) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if text, err := os.ReadFile(name); err == nil && pid != os.Getpid() && strings.Contains(string(text), mark) {
			out = append(out, pid)
		}
	}
	return out
}

// waitGone waits until each process with a mark has ended by itself.
func waitGone(t *testing.T, mark string) {
	t.Helper()
	for until := time.Now().Add(patience); ; {
		left := alive(t, mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Errorf("%v are left", left)
			return
		}
		if fd, err := unix.PidfdOpen(left[0], 0); err == nil {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
			_ = unix.Close(fd)
		}
	}
}

// brood leaves every kind of process that does not want to go; the last word is a mark.
const brood = `trap '' TERM HUP INT
(trap '' TERM; setsid sh -c 'trap "" TERM; sleep 600; : MARK' >/dev/null 2>&1 </dev/null &) 
setsid setsid bash -c '(setsid bash -c "trap \"\" TERM; exec -a MARK sleep 600" &)' &
nohup sh -c 'while :; do sleep 5; done; : MARK' & 
(exec -a MARK sleep 600) &
kill -STOP $! `

func marked(script string) (mark, full string) {
	mark = fmt.Sprintf("brood-%d-%d", os.Getpid(), time.Now().UnixNano())
	return mark, strings.ReplaceAll(script, "MARK", mark)
}

func TestNothingIsLeft(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		for name, end := range map[string]string{"exit": "sleep 0.2; exit 5", "crash": "sleep 0.2; kill -9 $$",
			"cancel": "echo here; while :; do sleep 1; done"} {
			mark, script := marked(brood + "\n" + end)
			ctx, cancel := context.WithCancel(t.Context())
			out := lines{got: make(chan string, 16)}
			most := 0
			go func() {
				if name == "cancel" {
					<-out.got
					cancel()
				}
			}()
			e, err := s.run(ctx, tier, &Command{Argv: []string{"bash", "-c", script}, Dir: t.TempDir(), Stdout: &out,
				Grace: 100 * time.Millisecond})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if left := alive(t, mark); len(left) != most {
				t.Errorf("%s: %v are left", name, left)
			}
			if want := map[string]Cause{"exit": Itself, "crash": Signal, "cancel": Killed}[name]; e.Cause != want {
				t.Errorf("%s: got %+v, want %q", name, e, want)
			}
		}
	})
}

// lines collects every write.
type lines struct{ got chan string }

func (l *lines) Write(p []byte) (int, error) {
	select {
	case l.got <- string(p):
	default:
	}
	return len(p), nil
}

// TestParentIsKilled kills the process that runs the sandbox as no handler can see.
func TestParentIsKilled(t *testing.T) {
	each(t, func(t *testing.T, _ *Sandbox, tier string) {
		mark, script := marked(brood + "\necho here; while :; do sleep 1; done")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		temp := t.TempDir()
		parent := exec.Command(self, hostileMarker, "parent", tier, t.TempDir(), script)
		parent.Env = append(os.Environ(), "TMPDIR="+temp)
		out, err := parent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		parent.Stderr = os.Stderr
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		word := make([]byte, 16)
		if n, err := out.Read(word); err != nil || string(word[:n]) != "here\n" {
			t.Fatalf("got %q, %v", word[:n], err)
		}
		if n := len(alive(t, mark)); n < 3 { // with the agent itself
			t.Errorf("only %d processes were begun", n)
		}
		var begun []int
		for _, s := range proctree.Descendants(parent.Process.Pid) {
			if fd, err := unix.PidfdOpen(s.PID, 0); err == nil {
				begun = append(begun, fd)
			}
		}
		_ = parent.Process.Kill()
		_ = parent.Wait()
		waitGone(t, mark)
		for _, fd := range begun {
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
				int(patience.Milliseconds())); n != 1 || err != nil {
				t.Errorf("a process lives on: %d, %v", n, err)
			}
			_ = unix.Close(fd)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%v, %v are left", left, err)
		}
		next, err := Open(t.Context(), Options{Tier: None, Name: parentName}) // ends what is left of control groups
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		if left, err := filepath.Glob("/sys/fs/cgroup/*/" + parentName + "-*"); err != nil || len(left) > 0 {
			t.Errorf("%v, %v are left", left, err)
		}
	})
}

func TestEnvironment(t *testing.T) {
	t.Setenv("STAGEPOST_SECRET", "hunter2")
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		g := shell(t, s, tier, "env; tr '\\0' '\\n' < /proc/1/environ; tr '\\0' '\\n' < /proc/$PPID/environ", func(c *Command) { c.Env = []string{"JOB_ID=17", "LANG=de_DE.UTF-8"} })
		for _, want := range []string{"JOB_ID=17\n", "LANG=de_DE.UTF-8\n", "PATH=" + defaultPath + "\n", "HOME=/",
			"TMPDIR=/"} {
			if !strings.Contains(g.out, want) {
				t.Errorf("got %q, want %q in it", g.out, want)
			}
		}
		if strings.Contains(g.out, "hunter2") || strings.Contains(g.out, "LANG=C.UTF-8") {
			t.Errorf("got %q, want nothing of the agent's", g.out)
		}
	})
}

func TestInput(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		if g := shell(t, s, tier, "cat; readlink /proc/self/fd/0", nil); g.out != "/dev/null\n" {
			t.Errorf("got %q, want nothing to read", g.out)
		}
		given := func(c *Command) { c.Stdin = strings.NewReader("abc") }
		g := shell(t, s, tier, "cat; cat < /dev/stdin; echo err > /dev/stderr", given)
		if g.out != "abc" || g.err != "err\n" {
			t.Errorf("got %q, %q, want what was given", g.out, g.err)
		}
		stuck, held, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if g := shell(t, s, tier, "exit 0", func(c *Command) { c.Stdin = stuck }); g.Exit != 0 {
			t.Errorf("got %+v: a reader that gives nothing must not hold the end", g.Ending)
		}
		_, _ = held.Close(), stuck.Close()
	})
}

func TestNetwork(t *testing.T) {
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
			_, _ = c.Write([]byte("agent\n"))
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	dial := "exec 3<>/dev/tcp/127.0.0.1/" + port + " && cat <&3"
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		if g := shell(t, s, tier, dial, func(c *Command) { c.Network = "host" }); g.out != "agent\n" {
			t.Errorf("host: got %q, %q", g.out, g.err)
		}
		g := shell(t, s, tier, dial, nil)
		if want := map[bool]string{true: "agent\n"}[tier == None]; g.out != want {
			t.Errorf("none: got %q, %q, want %q", g.out, g.err, want)
		}
		if tier == None {
			return
		}
		if g := shell(t, s, tier, "cat /proc/net/dev | grep -c :; (exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | grep -o refused | head -1", nil); g.out != "1\nrefused\n" {
			t.Errorf("got %q %q, want only lo, which is up", g.out, g.err)
		}
	})
}

func TestBinds(t *testing.T) {
	tool, other := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{tool + "/tool": "#!/bin/sh\necho tool\n", other + "/secret": "hunter2"} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		if tier == None {
			_, err := s.run(t.Context(), tier, &Command{Argv: []string{"true"}, Dir: t.TempDir(),
				Binds: []Bind{{tool, "/opt/tool"}}})
			if err == nil || !strings.Contains(err.Error(), "no mounts") {
				t.Errorf("got %v, want a refusal", err)
			}
			return
		}
		g := shell(t, s, tier, "/opt/tool/tool; touch /opt/tool/x /usr/x /etc/x /x; cat "+other+"/secret; ls /root /home /work", func(c *Command) { c.Binds = []Bind{{tool, "/opt/tool"}} })
		if g.out != "tool\n" || strings.Count(g.err, "Read-only file system") != 4 {
			t.Errorf("got %q, %q, want tool, and nothing written or seen", g.out, g.err)
		}
	})
}

func TestFilesBelongToCaller(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte("echo more >> given; rm old; mkdir d && echo x > d/f; cat private\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"given", "old", "private"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if g := shell(t, s, tier, "bash run.sh", func(c *Command) {
			c.Dir = dir
		}); g.Exit != 0 || g.out != "private\n" {
			t.Fatalf("got %+v, %q, %q", g.Ending, g.out, g.err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, "d/f"), &st); err != nil || int(st.Uid) != os.Geteuid() {
			t.Errorf("got user %d, %v, want the caller", st.Uid, err)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, "given")); string(text) != "given\nmore\n" {
			t.Errorf("got %q", text)
		}
	})
}

func TestNotStarted(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "text"), []byte("no program"), 0o755); err != nil {
			t.Fatal(err)
		}
		for want, c := range map[string]*Command{
			`there is no program "no-such-thing"`: {Argv: []string{"no-such-thing"}, Dir: dir},
			"run ./nothing: no such file":         {Argv: []string{"./nothing"}, Dir: dir},
			"run ./text: exec format error":       {Argv: []string{"./text"}, Dir: dir},
			"run .: permission denied":            {Argv: []string{"./"}, Dir: dir},
			"not a directory":                     {Argv: []string{"true"}, Dir: link},
			"no such file":                        {Argv: []string{"true"}, Dir: dir + "/none"},
			"there is no program\nthe directory":  {Argv: nil, Dir: "relative", Network: "mine"},
			"the variable":                        {Argv: []string{"true"}, Dir: dir, Env: []string{"novalue"}},
			"may not cover /usr":                  {Argv: []string{"true"}, Dir: dir, Binds: []Bind{{"/opt", "/usr"}}},
			"may not lie in /proc": {Argv: []string{"true"}, Dir: dir,
				Binds: []Bind{{"/opt", "/proc/sys"}}},
			"a limit is negative": {Argv: []string{"true"}, Dir: dir, Limits: Limits{Disk: -1}},
		} {
			if want == "run .: permission denied" {
				want = "permission denied"
			}
			if _, err := s.run(t.Context(), tier, c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
}

func TestCancelledBefore(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if e, err := s.run(ctx, tier, &Command{Argv: []string{"sleep", "60"}, Dir: t.TempDir(),
			Grace: time.Millisecond}); err != nil || e.Cause != Killed {
			t.Errorf("got %+v, %v, want killed", e, err)
		}
	})
}

func TestStarted(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		var pids []int
		g := shell(t, s, tier, "grep NSpid /proc/self/status >/dev/null; exit 0", func(c *Command) {
			c.Started = func(pid int) {
				pids = append(pids, pid)
				if err := unix.Kill(pid, 0); err != nil {
					t.Errorf("it does not live: %v", err)
				}
			}
		})
		if len(pids) != 1 || g.Exit != 0 {
			t.Errorf("got %v, %+v, want one", pids, g.Ending)
		}
	})
}

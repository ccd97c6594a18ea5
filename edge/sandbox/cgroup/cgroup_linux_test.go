package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// real opens the machine's own control groups. Where there are none the tests of the kernel's part have nothing to try:
// then the checks must report it, and the fake kernel's tests remain.
func real(t *testing.T) *Manager {
	t.Helper()
	m, checks, err := Open(Options{Prefix: fmt.Sprintf("stagepost-test%d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	if m == nil {
		for _, c := range checks {
			t.Logf("no control groups to use: %+v", c)
		}
	}
	return m
}

// script is a shell in a group; it waits for a line before it runs the text.
type script struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, g *Group, text string) *script {
	t.Helper()
	s := &script{cmd: exec.Command("bash", "-c", "read go\n"+text)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.out = w, bufio.NewReader(r)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait(); r.Close() })
	if g != nil {
		if err := g.Add(s.cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(s.in, "go")
	return s
}

func (s *script) line(t *testing.T) string {
	t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the script wrote nothing more: %v", err)
	}
	return strings.TrimSpace(line)
}

func newGroup(t *testing.T, m *Manager, name string, l Limits) *Group {
	t.Helper()
	g, err := m.New(name, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Kill(); err != nil {
			t.Error(err)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func usage(t *testing.T, g *Group) Usage {
	t.Helper()
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestMemoryLimitBites(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	hog := `x=$(head -c 100000000 /dev/zero | tr '\0' x); echo ${#x}`
	free := newGroup(t, m, "free", Limits{})
	if got := start(t, free, hog).line(t); got != "100000000" { // the control
		t.Fatalf("without a limit: %q", got)
	}
	if u := usage(t, free); u.OOMKills != 0 || u.PeakMemory < 90<<20 {
		t.Errorf("without a limit: %+v", u)
	}
	bound := newGroup(t, m, "bound", Limits{Memory: 50 << 20})
	s := start(t, bound, "exec bash -c '"+strings.ReplaceAll(hog, "'", `'"'"'`)+"'")
	err := s.cmd.Wait()
	if u := usage(t, bound); err == nil || u.OOMKills < 1 || u.PeakMemory > 51<<20 || u.PeakMemory < 40<<20 {
		t.Errorf("with 50 MiB: ended with %v, %+v", err, u)
	}
}

func TestProcessLimitBites(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	many := `for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 </dev/null >/dev/null 2>&1 & done 2>/dev/null; echo $(jobs -p | wc -w)`
	free := newGroup(t, m, "free", Limits{})
	if got := start(t, free, many).line(t); got != "12" {
		t.Fatalf("without a limit: %s", got)
	}
	bound := newGroup(t, m, "bound", Limits{Processes: 6})
	s := start(t, bound, "exec 2>/dev/null\n"+many)
	waitFor(t, "a refused fork", func() bool { return usage(t, bound).ProcessLimitHits > 0 })
	pids, err := bound.Pids()
	if err != nil || len(pids) > 6 {
		t.Errorf("%d processes (%v)", len(pids), err)
	}
	if !slices.Contains(pids, s.cmd.Process.Pid) {
		t.Errorf("the shell %d is not among %v", s.cmd.Process.Pid, pids)
	}
	if u := usage(t, free); u.ProcessLimitHits != 0 {
		t.Errorf("the other group: %+v", u)
	}
}

// TestKillFindsDaemons starts a process that leaves its session and one that is orphaned by a double fork; killing the
// process group, which is the control, misses both.
func TestKillFindsDaemons(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	for _, way := range ways(m) {
		t.Run(way.name, func(t *testing.T) {
			g := newGroup(t, way.m, "daemons", Limits{Processes: 50})
			s := start(t, g, `setsid bash -c 'echo $$; exec sleep 1000' & ( ( bash -c 'trap "" TERM HUP; echo $BASHPID; while :; do sleep 1000; done' & ) & ); sleep 1000`)
			one, two := atoi(t, s.line(t)), atoi(t, s.line(t))
			if s.cmd.Process.Kill(); s.cmd.Wait() == nil {
				t.Error("the script ended by itself")
			}
			for _, pid := range []int{one, two} {
				if syscall.Kill(pid, 0) != nil {
					t.Fatalf("%d ended with its parent: the control has failed", pid)
				}
			}
			if err := g.Kill(); err != nil {
				t.Fatal(err)
			}
			if pids, err := g.Pids(); err != nil || len(pids) > 0 {
				t.Errorf("still there: %v, %v", pids, err)
			}
			for _, pid := range []int{one, two} {
				if state := procState(pid); state != "" && state != "Z" && state != "X" {
					t.Errorf("%d is in state %s", pid, state)
				}
			}
		})
	}
}

// ways are m and m without the kill file of version 2, as on a machine that has version 1 alone.
func ways(m *Manager) (all []struct {
	name string
	m    *Manager
}) {
	add := func(name string, m *Manager) {
		all = append(all, struct {
			name string
			m    *Manager
		}{name, m})
	}
	add(m.version, m)
	if m.version == "hybrid" {
		one := &Manager{kernel: m.kernel, prefix: m.prefix, version: "v1", cpu: m.cpu, patience: m.patience}
		one.hierarchies = slices.DeleteFunc(slices.Clone(m.hierarchies), func(p hierarchy) bool { return p.v2 })
		add("v1", one)
		bare := *one
		bare.hierarchies = slices.DeleteFunc(slices.Clone(one.hierarchies),
			func(p hierarchy) bool { return p.has("freezer") })
		add("v1 without freezer", &bare)
	}
	return all
}

func TestKillForkBomb(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	for _, way := range ways(m) {
		t.Run(way.name, func(t *testing.T) {
			g := newGroup(t, way.m, "bomb", Limits{Processes: 40, Cores: 0.5, Memory: 256 << 20})
			start(t, g, `exec 2>/dev/null; bomb() { bomb & bomb & wait; }; bomb`)
			waitFor(t, "the bomb", func() bool { return usage(t, g).ProcessLimitHits > 0 })
			if err := g.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKillFrozen: a group that was left frozen still ends.
func TestKillFrozen(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	for _, way := range ways(m) {
		t.Run(way.name, func(t *testing.T) {
			g := newGroup(t, way.m, "frozen", Limits{})
			s := start(t, g, `echo here; exec sleep 1000`)
			s.line(t)
			g.freeze(true)
			if err := g.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKillRefusesItself(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	g := &Group{m: m, name: "own"}
	for _, p := range m.hierarchies {
		if pids, _ := readPids(filepath.Join(p.dir, "cgroup.procs")); slices.Contains(pids, os.Getpid()) {
			g.spots = []spot{{hierarchy: p, path: p.dir}}
		}
	}
	if len(g.spots) == 0 {
		return // in a leaf; version 2
	}
	g.spots[0].v2 = false // so that a mistake could only try process by process
	if err := g.Kill(); err == nil || !strings.Contains(err.Error(), "itself") {
		t.Errorf("got %v", err)
	}
}

// TestSweep: the groups of a process that was killed go, with what runs in them; those of the living stay.
func TestSweep(t *testing.T) {
	if os.Getenv("STAGEPOST_TEST_ORPHAN") != "" {
		orphan()
		return
	}
	m := real(t)
	if m == nil {
		return
	}
	alive := newGroup(t, m, "alive", Limits{})
	kept := start(t, alive, "echo here; exec sleep 1000")
	kept.line(t)

	earlier := exec.Command(os.Args[0], "-test.run=^TestSweep$")
	earlier.Env = append(os.Environ(), "STAGEPOST_TEST_ORPHAN="+m.prefix)
	out, err := earlier.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := earlier.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	pid := atoi(t, strings.TrimSpace(line))
	if err := m.Sweep(""); err != nil { // the control: while it lives, nothing of it is touched
		t.Fatal(err)
	}
	if s := procState(pid); s == "" || s == "Z" {
		t.Fatalf("the process of a living owner was killed: %q", s)
	}
	if _, err := m.New("orphan", Limits{}); err == nil {
		t.Error("a group in use was given a second time")
	}
	earlier.Process.Kill()
	earlier.Wait()
	if s := procState(pid); s == "" || s == "Z" {
		t.Fatal("the process ended with its owner: the control has failed")
	}
	if err := m.Sweep(""); err != nil {
		t.Fatal(err)
	}
	if s := procState(pid); s != "" && s != "Z" {
		t.Errorf("the process of the dead owner is in state %s", s)
	}
	for _, p := range m.hierarchies {
		if isDir(filepath.Join(p.dir, m.prefix+"-orphan")) {
			t.Errorf("%s has the group still", p.dir)
		}
	}
	if pids, err := alive.Pids(); err != nil || !slices.Contains(pids, kept.cmd.Process.Pid) {
		t.Errorf("our own group has %v, %v", pids, err)
	}
}

// orphan is the earlier process of TestSweep.
func orphan() {
	m, checks, err := Open(Options{Prefix: os.Getenv("STAGEPOST_TEST_ORPHAN")})
	if err != nil || m == nil {
		fmt.Println(checks, err)
		return
	}
	g, err := m.New("orphan", Limits{Processes: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		fmt.Println(err)
		return
	}
	if err := g.Add(sleep.Process.Pid); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sleep.Process.Pid)
	select {}
}

// TestSweepElsewhere: an earlier process may have run in another group than we do; its groups are found too.
func TestSweepElsewhere(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	for _, p := range m.hierarchies {
		path := filepath.Join(p.top, m.prefix+"-elsewhere")
		must(t, m.mkdir(path))
		t.Cleanup(func() { m.rmdir(path) })
	}
	must(t, m.Sweep(""))
	for _, p := range m.hierarchies {
		if isDir(filepath.Join(p.top, m.prefix+"-elsewhere")) {
			t.Errorf("%s has the group still", p.top)
		}
	}
}

// TestNewTakesOver: the name of a dead process's group can be used again at once.
func TestNewTakesOver(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	old, err := m.New("again", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, old, "echo here; exec sleep 1000")
	s.line(t)
	for _, spot := range old.spots {
		spot.lock.Close() // what the death of the process does
	}
	g := newGroup(t, m, "again", Limits{})
	if err := s.cmd.Wait(); err == nil {
		t.Error("the old process ended by itself")
	}
	if pids, err := g.Pids(); err != nil || len(pids) != 0 {
		t.Errorf("the new group has %v, %v", pids, err)
	}
}

// TestRemoveBusy: a group with a process is not removed, and is still usable.
func TestRemoveBusy(t *testing.T) {
	m := real(t)
	if m == nil {
		return
	}
	m.patience = 50 * time.Millisecond
	g, err := m.New("busy", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, g, "echo here; exec sleep 1000")
	s.line(t)
	if err := g.Remove(); err == nil {
		t.Error("removed with a process inside")
	}
	m.patience = time.Minute
	for range 2 { // both may be called again
		if err := g.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNames(t *testing.T) {
	k := kernel{self: t.TempDir()}
	for _, prefix := range []string{"a/b", "..", ".x", "a b", "ä", strings.Repeat("x", 200)} {
		if _, _, err := open(Options{Prefix: prefix}, k); err == nil {
			t.Errorf("prefix %q was taken", prefix)
		}
	}
	m := &Manager{kernel: k, prefix: "p"}
	for _, name := range []string{"", "..", "a/../b", "a\nb"} {
		if _, err := m.New(name, Limits{}); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
	if _, err := m.New("a", Limits{Memory: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
	g := &Group{m: m}
	for _, pid := range []int{0, -1} { // 0 would move this process itself
		if err := g.Add(pid); err == nil {
			t.Errorf("process %d was added", pid)
		}
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for wait := newPatience(2 * time.Minute); !ok(); {
		if !wait.more() {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// procState is the letter of /proc/pid/stat, or nothing for a process that is gone.
func procState(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	text := string(b)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])[0]
}

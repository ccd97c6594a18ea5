package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake plays the kernel's part of a cgroup file system in a plain directory: which files a group has, in which group a
// process is, that a parent with processes cannot enable controllers, and that cgroup.kill kills.
type fake struct {
	t   *testing.T
	top string
	kernel
	controllers string
	deny        string // writes and mkdirs below it are refused
}

func newFake(t *testing.T, own, controllers string) *fake {
	dir := t.TempDir()
	f := &fake{t: t, top: filepath.Join(dir, "sys fs"), controllers: controllers}
	self := filepath.Join(dir, "self")
	f.kernel = kernel{self: self, pid: os.Getpid(), mkdir: f.mk, rmdir: f.rm, write: f.wr}
	must(t, os.MkdirAll(self, 0o755))
	mount := strings.ReplaceAll(f.top, " ", `\040`)
	must(t, os.WriteFile(filepath.Join(self, "mountinfo"), fmt.Appendf(nil,
		"25 30 0:22 / /proc rw - proc proc rw\n30 29 0:26 / %s rw,nosuid shared:9 - cgroup2 cgroup2 rw\n", mount), 0o644))
	must(t, os.WriteFile(filepath.Join(self, "cgroup"), []byte("0::"+own+"\n"), 0o644))
	path := f.top
	must(t, f.mk(path))
	for part := range strings.SplitSeq(strings.Trim(own, "/"), "/") {
		if part != "" {
			path = filepath.Join(path, part)
			must(t, f.mk(path))
		}
	}
	must(t, f.put(filepath.Join(path, "cgroup.procs"), strconv.Itoa(f.pid)+"\n"))
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fake) put(file, text string) error { return os.WriteFile(file, []byte(text), 0o644) }

func (f *fake) get(parts ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{f.top}, parts...)...))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

func (f *fake) mk(dir string) error {
	if f.deny != "" && strings.HasPrefix(dir, f.deny) {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.EACCES}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	files := map[string]string{"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.controllers": f.controllers,
		"cgroup.kill":   "",
		"cgroup.freeze": "0", "cgroup.events": "populated 0\nfrozen 0\n",
		"cpu.stat":   "usage_usec 1500000\nuser_usec 1\n",
		"memory.max": "max\n", "memory.swap.max": "max\n", "memory.oom.group": "0\n", "memory.current": "4096\n",
		"memory.peak":   "8192\n",
		"memory.events": "low 0\noom 1\noom_kill 2\n", "pids.max": "max\n", "pids.events": "max 3\n",
		"cpu.max": "max 100000\n"}
	for name, text := range files {
		if err := f.put(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) rm(dir string) error {
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err == nil && len(b) > 0 {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: syscall.EBUSY}
	}
	return os.RemoveAll(dir)
}

func (f *fake) wr(file, text string) error {
	if f.deny != "" && strings.HasPrefix(file, f.deny) {
		return &fs.PathError{Op: "open", Path: file, Err: syscall.EACCES}
	}
	if _, err := os.Stat(file); err != nil {
		return err
	}
	dir := filepath.Dir(file)
	switch filepath.Base(file) {
	case "cgroup.procs":
		for _, group := range inside(f.top) {
			procs := filepath.Join(group, "cgroup.procs")
			pids := slices.DeleteFunc(words(procs), func(p string) bool { return p == text })
			must(f.t, f.put(procs, strings.Join(pids, "\n")))
		}
		return f.put(file, strings.Join(append(words(file), text), "\n"))
	case "cgroup.subtree_control":
		if dir != f.top && len(words(filepath.Join(dir, "cgroup.procs"))) > 0 {
			return &fs.PathError{Op: "write", Path: file, Err: syscall.EBUSY}
		}
		return f.put(file, strings.ReplaceAll(text, "+", ""))
	case "cgroup.kill":
		for _, pid := range words(filepath.Join(dir, "cgroup.procs")) {
			n, _ := strconv.Atoi(pid)
			syscall.Kill(n, syscall.SIGKILL)
		}
		return f.put(filepath.Join(dir, "cgroup.procs"), "")
	}
	return f.put(file, text)
}

func TestV2Delegated(t *testing.T) {
	f := newFake(t, "/system.slice/stagepost.service", "cpuset cpu io memory pids")
	m, checks, err := open(Options{}, f.kernel)
	if err != nil || m == nil || m.Version() != "v2" {
		t.Fatalf("%v, %v, %v", m, checks, err)
	}
	own := "system.slice/stagepost.service"
	if got, want := f.get(own, "cgroup.subtree_control"), "memory pids cpu"; got != want {
		t.Errorf("subtree_control %q, want %q", got, want)
	}
	if got := f.get(own, "stagepost.leaf", "cgroup.procs"); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("the leaf has %q", got)
	}
	g, err := m.New("job-1", Limits{Memory: 1 << 30, Processes: 17, Cores: 1.5})
	must(t, err)
	got := map[string]string{}
	for _, file := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"} {
		got[file] = f.get(own, "stagepost-job-1", file)
	}
	want := map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1",
		"pids.max": "17", "cpu.max": "150000 100000"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	u, err := g.Usage()
	must(t, err)
	if d := cmp.Diff(Usage{CPU: 1500 * time.Millisecond, PeakMemory: 8192, Memory: 4096, OOMKills: 2,
		ProcessLimitHits: 3}, u); d != "" {
		t.Error(d)
	}
	if fd, ok := g.FD(); !ok || fd <= 0 {
		t.Errorf("FD %d, %v", fd, ok)
	}
	// A kernel before 5.19: no memory.peak. The largest value seen is reported.
	dir := filepath.Join(f.top, own, "stagepost-job-1")
	must(t, os.Remove(filepath.Join(dir, "memory.peak")))
	must(t, f.put(filepath.Join(dir, "memory.current"), "100\n"))
	if u, err = g.Usage(); err != nil || u.PeakMemory != 4096 || u.Memory != 100 {
		t.Errorf("%+v, %v", u, err)
	}
	// Before 5.14: no cgroup.kill. The group is frozen and killed one by one.
	must(t, os.Remove(filepath.Join(dir, "cgroup.kill")))
	s := start(t, g, "echo here; exec sleep 1000")
	s.line(t)
	go func() { s.cmd.Wait(); f.put(filepath.Join(dir, "cgroup.procs"), "") }()
	must(t, g.Kill())
	must(t, g.Remove())
	if isDir(dir) {
		t.Error("the group is still there")
	}
	// A second process of the same service starts in the leaf: its groups go beside it.
	must(t, f.put(filepath.Join(f.self, "cgroup"), "0::/"+own+"/stagepost.leaf\n"))
	again, checks, err := open(Options{}, f.kernel)
	if err != nil || again == nil || again.hierarchies[0].dir != filepath.Join(f.top, own) {
		t.Errorf("%+v, %v, %v", again, checks, err)
	}
}

// TestV2Container: at the root of a cgroup namespace all processes of the container move out of it.
func TestV2Container(t *testing.T) {
	f := newFake(t, "/", "cpu memory pids")
	other := start(t, nil, "exec sleep 1000")
	pid := strconv.Itoa(other.cmd.Process.Pid)
	must(t, f.put(filepath.Join(f.top, "cgroup.procs"), pid+"\n"+strconv.Itoa(f.pid)+"\n"))
	f.kernel.write = func(file, text string) error {
		if filepath.Base(file) == "cgroup.subtree_control" && f.get("cgroup.procs") != "" {
			return syscall.EBUSY
		}
		return f.wr(file, text)
	}
	m, checks, err := open(Options{}, f.kernel)
	if err != nil || m == nil {
		t.Fatalf("%v, %v", checks, err)
	}
	if got := strings.Fields(f.get("stagepost.leaf", "cgroup.procs")); len(got) != 2 {
		t.Errorf("the leaf has %v", got)
	}
}

// TestV2Neighbours: other processes in our group are left alone; we go back and report what is wrong.
func TestV2Neighbours(t *testing.T) {
	f := newFake(t, "/user.slice/session-1.scope", "cpu memory pids")
	procs := filepath.Join(f.top, "user.slice/session-1.scope/cgroup.procs")
	must(t, f.put(procs, "1\n"+strconv.Itoa(f.pid)+"\n"))
	m, checks, err := open(Options{}, f.kernel)
	if m != nil || err != nil || !strings.Contains(checks[0].Detail, "other processes") || checks[0].Remedy == "" {
		t.Errorf("%v, %+v, %v", m, checks, err)
	}
	if got := words(procs); len(got) != 2 {
		t.Errorf("the group has %v", got)
	}
	if isDir(filepath.Join(filepath.Dir(procs), "stagepost.leaf")) {
		t.Error("the leaf was left behind")
	}
}

func TestDegrades(t *testing.T) {
	cases := map[string]struct {
		spoil func(f *fake)
		want  string // in the first check's detail
	}{
		"nothing writable": {func(f *fake) { f.deny = f.top }, "permission denied"},
		"no mkdir":         {func(f *fake) { f.deny = filepath.Join(f.top, "a/stagepost") }, "permission denied"},
		"no controllers": {func(f *fake) {
			must(f.t, f.put(filepath.Join(f.top, "a/cgroup.controllers"), "hugetlb\n"))
		}, "hugetlb"},
		"no mounts": {func(f *fake) {
			must(f.t, f.put(filepath.Join(f.self, "mountinfo"), "garbage\n1 2 - \n"))
		}, "no control groups"},
		"no proc": {func(f *fake) { must(f.t, os.RemoveAll(f.self)) }, "mounts"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, "/a", "cpu memory pids")
			c.spoil(f)
			m, checks, err := open(Options{}, f.kernel)
			if m != nil || err != nil || len(checks) == 0 {
				t.Fatalf("%v, %v, %v", m, checks, err)
			}
			if got := checks[0]; got.OK || !strings.Contains(got.Detail, c.want) || got.Remedy == "" {
				t.Errorf("%+v", got)
			}
			if c.spoil(f); name == "nothing writable" && f.get("a", "cgroup.procs") != strconv.Itoa(os.Getpid()) {
				t.Errorf("this process is in another group: %q", f.get("a", "cgroup.procs"))
			}
		})
	}
}

// TestV2WithoutCPU: limits on memory and processes hold, and a check reports that those on cores do not.
func TestV2WithoutCPU(t *testing.T) {
	f := newFake(t, "/a", "memory pids")
	m, checks, err := open(Options{}, f.kernel)
	if m == nil || err != nil || len(checks) != 2 || checks[1].OK {
		t.Fatalf("%v, %+v, %v", m, checks, err)
	}
	g, err := m.New("x", Limits{Processes: 5, Cores: 1})
	must(t, err)
	if got := f.get("a/stagepost-x/cpu.max"); got != "max 100000" {
		t.Errorf("cpu.max %q", got)
	}
	must(t, g.Remove())
}

// TestV1Unwritable: one check for each controller, each with a remedy.
func TestV1Unwritable(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "mountinfo"), fmt.Appendf(nil, `1 2 0:1 / %[1]s/memory rw - cgroup cgroup rw,memory
1 2 0:2 / %[1]s/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
1 2 0:3 /docker/x %[1]s/pids rw - cgroup cgroup rw,pids
`, dir), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "cgroup"), []byte("3:pids:/docker/x/y\n2:cpu,cpuacct:/\n1:memory:/gone\n"), 0o644))
	must(t, os.MkdirAll(filepath.Join(dir, "pids/y"), 0o755))
	var tried []string
	k := kernel{self: dir, mkdir: func(d string) error { tried = append(tried, filepath.Dir(d)); return syscall.EROFS }}
	m, checks, err := open(Options{}, k)
	if m != nil || err != nil || len(checks) != 6 {
		t.Fatalf("%v, %+v, %v", m, checks, err)
	}
	for _, c := range checks {
		if c.OK || c.Detail == "" || c.Remedy == "" {
			t.Errorf("%+v", c)
		}
	}
	// The container's part of the path is what the mount shows; a group that is not there falls back to the mount
	// point.
	want := []string{dir + "/memory", dir + "/pids/y", dir + "/cpu,cpuacct", dir + "/cpu,cpuacct"}
	if d := cmp.Diff(want, tried); d != "" {
		t.Error(d)
	}
}

// TestKillGivesUp: what cannot be killed is reported after a bounded time.
func TestKillGivesUp(t *testing.T) {
	f := newFake(t, "/a", "memory pids cpu")
	m, _, err := open(Options{}, f.kernel)
	if m == nil || err != nil {
		t.Fatal(err)
	}
	g, err := m.New("x", Limits{})
	must(t, err)
	m.patience = 20 * time.Millisecond
	m.write = func(string, string) error { return nil }
	must(t, f.put(filepath.Join(g.spots[0].path, "cgroup.procs"), "0\n"))
	if err := g.Kill(); err == nil || !strings.Contains(err.Error(), "still there") {
		t.Errorf("got %v", err)
	}
	if err := g.Remove(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("got %v", err)
	}
}

// TestNewUndone: a limit that cannot be set leaves no group behind.
func TestNewUndone(t *testing.T) {
	f := newFake(t, "/a", "memory pids cpu")
	m, _, err := open(Options{}, f.kernel)
	if m == nil || err != nil {
		t.Fatal(err)
	}
	f.deny = filepath.Join(f.top, "a/stagepost-x/pids.max")
	if _, err := m.New("x", Limits{Processes: 3}); !errors.Is(err, syscall.EACCES) {
		t.Errorf("got %v", err)
	}
	if isDir(filepath.Join(f.top, "a/stagepost-x")) {
		t.Error("the group was left behind")
	}
}

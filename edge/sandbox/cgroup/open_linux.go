package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Manager makes groups. Its methods may be called from many goroutines.
type Manager struct {
	kernel
	prefix      string
	version     string
	hierarchies []hierarchy
	cpu         bool          // Limits.Cores is enforced
	patience    time.Duration // how long Kill and Remove wait for the kernel
}

// leaf is the group that we move into when the group we were started in must become a parent: in version 2 a group has
// either processes or children with limits (cgroup-v2.rst, "No Internal Process Constraint").
const leaf = "stagepost.leaf"

const delegate = "run Stagepost in a systemd unit with Delegate=yes, or as root, or in a container with its own " +
	"writable cgroup namespace"

// Open searches for control groups that this process may use, by making a group with limits, putting a process into it,
// killing and removing it. Without any it gives no manager and no error: the checks report why. An error means that the
// options are wrong.
//
// With version 2, Open may move this process into the leaf "stagepost.leaf" of its group (in a container, where the
// group is the root of the namespace, all processes of the container), so call it once, early.
func Open(o Options) (*Manager, []Check, error) {
	return open(o, kernel{
		self:  "/proc/self",
		pid:   os.Getpid(),
		mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
		rmdir: func(dir string) error { return syscall.Rmdir(dir) },
		write: write,
	})
}

func open(o Options, k kernel) (*Manager, []Check, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if err := checkName("prefix", o.Prefix); err != nil {
		return nil, nil, err
	}
	m := &Manager{kernel: k, prefix: o.Prefix, patience: 10 * time.Second}
	hierarchies, err := k.hierarchies()
	if err != nil {
		return nil, []Check{{Name: "cgroup", Detail: err.Error(), Remedy: "mount /proc and /sys/fs/cgroup"}}, nil
	}
	if len(hierarchies) == 0 {
		return nil, []Check{{Name: "cgroup", Detail: "no control groups are mounted", Remedy: "mount /sys/fs/cgroup"}},
			nil
	}
	two, checks := m.tryV2(hierarchies)
	if two {
		return m, checks, nil
	}
	one, more := m.tryV1(hierarchies)
	if checks = append(checks, more...); one {
		return m, checks, nil
	}
	return nil, checks, nil
}

// Version is "v2", "v1" or "hybrid".
func (m *Manager) Version() string { return m.version }

// tryV2 makes m a manager of version 2, or reports why it cannot.
func (m *Manager) tryV2(hierarchies []hierarchy) (bool, []Check) {
	const name = "cgroup v2"
	at := slices.IndexFunc(hierarchies, func(p hierarchy) bool { return p.v2 })
	if at < 0 {
		return false, []Check{{Name: name, Detail: "not mounted",
			Remedy: "boot with systemd.unified_cgroup_hierarchy=1"}}
	}
	p := hierarchies[at]
	if filepath.Base(p.dir) == leaf {
		p.dir = filepath.Dir(p.dir)
	}
	have := words(filepath.Join(p.dir, "cgroup.controllers"))
	if !slices.Contains(have, "memory") || !slices.Contains(have, "pids") {
		detail := fmt.Sprintf("%s has the controllers %q, memory and pids are needed", p.dir, have)
		return false, []Check{{Name: name, Detail: detail, Remedy: delegate}}
	}
	want := []string{"memory", "pids"}
	if slices.Contains(have, "cpu") {
		want = append(want, "cpu")
	}
	undo, err := m.makeParent(p.dir, want)
	if err == nil {
		m.version, m.hierarchies, m.cpu = "v2", []hierarchy{p}, slices.Contains(want, "cpu")
		err = m.probe()
	}
	if err != nil {
		undo()
		return false, []Check{{Name: name, Detail: err.Error(), Remedy: delegate}}
	}
	checks := []Check{{Name: name, OK: true, Detail: "groups with limits are made below " + p.dir}}
	if !m.cpu {
		checks = append(checks,
			Check{Name: "cgroup v2 cpu", Detail: "the controller is not delegated: limits on cores are not enforced",
				Remedy: delegate})
	}
	return true, checks
}

// makeParent lets the children of dir have limits; undo reverts what was done.
func (m *Manager) makeParent(dir string, want []string) (undo func(), err error) {
	undo = func() {}
	control := filepath.Join(dir, "cgroup.subtree_control")
	if on := words(control); !slices.ContainsFunc(want, func(c string) bool { return !slices.Contains(on, c) }) {
		return undo, nil
	}
	enable := "+" + strings.Join(want, " +")
	if err = m.write(control, enable); err == nil || !errors.Is(err, syscall.EBUSY) {
		return undo, err
	}
	move := []int{m.pid}
	if own, _ := os.ReadFile(filepath.Join(m.self, "cgroup")); ownPaths(string(own))[""] == "/" {
		if move, err = readPids(filepath.Join(dir, "cgroup.procs")); err != nil {
			return undo, err
		}
	}
	inner := filepath.Join(dir, leaf)
	if err = m.mkdir(inner); err != nil && !errors.Is(err, os.ErrExist) {
		return undo, err
	}
	undo = func() {
		for _, pid := range move {
			m.write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
		}
		m.rmdir(inner)
	}
	for _, pid := range move {
		err = m.write(filepath.Join(inner, "cgroup.procs"), strconv.Itoa(pid))
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return undo, err
		}
	}
	if err = m.write(control, enable); errors.Is(err, syscall.EBUSY) {
		err = fmt.Errorf("other processes run in the group %s: %w", dir, err)
	}
	return undo, err
}

// tryV1 makes m a manager of version 1, with the kill file of version 2 where that is mounted without controllers.
func (m *Manager) tryV1(hierarchies []hierarchy) (bool, []Check) {
	var checks []Check
	var use []hierarchy
	var missing []string
	for _, c := range []string{"memory", "pids", "cpu", "cpuacct", "freezer"} {
		check := Check{Name: "cgroup v1 " + c}
		at := slices.IndexFunc(hierarchies, func(p hierarchy) bool { return p.has(c) })
		if at < 0 {
			check.Detail, check.Remedy = "not mounted", "mount the controller below /sys/fs/cgroup/"+c
		} else if err := m.tryHierarchy(hierarchies[at]); err != nil {
			check.Detail, check.Remedy = err.Error(), "run Stagepost as root, or let its user write "+
				hierarchies[at].dir
		} else {
			check.OK, check.Detail = true, "groups are made below "+hierarchies[at].dir
			if !slices.ContainsFunc(use, hierarchies[at].same) {
				use = append(use, hierarchies[at])
			}
		}
		if !check.OK {
			missing = append(missing, c)
		}
		checks = append(checks, check)
	}
	if slices.Contains(missing, "memory") || slices.Contains(missing, "pids") {
		return false, checks
	}
	m.version, m.cpu = "v1", !slices.Contains(missing, "cpu")
	at := slices.IndexFunc(hierarchies, func(p hierarchy) bool { return p.v2 })
	if at >= 0 && m.tryHierarchy(hierarchies[at]) == nil {
		m.version = "hybrid"
		use = append(use, hierarchies[at])
	}
	m.hierarchies = use
	if err := m.probe(); err != nil {
		return false, append(checks, Check{Name: "cgroup v1", Detail: err.Error(), Remedy: delegate})
	}
	return true, append(checks, Check{Name: "cgroup " + m.version, OK: true,
		Detail: "a process was bounded and killed"})
}

// tryHierarchy makes and removes a directory.
func (m *Manager) tryHierarchy(p hierarchy) error {
	dir := filepath.Join(p.dir, fmt.Sprintf("%s-try-%d", m.prefix, m.pid))
	if err := m.mkdir(dir); err != nil {
		return err
	}
	return m.rmdir(dir)
}

// probe does once what every job needs, with a shell that waits for its input.
func (m *Manager) probe() (err error) {
	g, err := m.New(fmt.Sprintf("probe-%d", m.pid), Limits{Memory: 64 << 20, Processes: 8, Cores: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Remove()) }()
	shell := exec.Command("sh", "-c", "read x")
	in, err := shell.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := shell.Start(); err != nil {
		return fmt.Errorf("start a shell to bound: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- shell.Wait() }()
	defer func() { shell.Process.Kill(); <-ended }()
	if err := g.Add(shell.Process.Pid); err != nil {
		return err
	}
	if pids, err := g.Pids(); err != nil || !slices.Contains(pids, shell.Process.Pid) {
		return fmt.Errorf("a process that was put into %s is not in it (%v)", g.name, err)
	}
	if _, err := g.Usage(); err != nil {
		return err
	}
	return g.Kill()
}

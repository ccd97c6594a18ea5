package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Group is a set of processes with common limits. Its methods may be called from many goroutines, except that nothing
// may use FD once Remove was called.
type Group struct {
	m     *Manager
	name  string
	spots []spot
	peak  atomic.Int64
}

// spot is the directory of a group in one hierarchy; lock holds the flock of a live process.
type spot struct {
	hierarchy
	path string
	lock *os.File
}

// New makes a group; the directories are called Prefix-name. A group of that name which an earlier process left behind
// is killed and removed first; one that a living process holds is an error. Name has letters, digits, '.', '_', '-'.
// The caller calls Kill, Usage and Remove at the end, in this order.
func (m *Manager) New(name string, l Limits) (*Group, error) {
	if err := checkName("name of a group", name); err != nil {
		return nil, err
	}
	if l.Memory < 0 || l.Processes < 0 || l.Cores < 0 {
		return nil, fmt.Errorf("cgroup: negative limit: %+v", l)
	}
	g := &Group{m: m, name: m.prefix + "-" + name}
	for _, p := range m.hierarchies {
		s, err := m.make(p, g.name)
		if err == nil {
			g.spots = append(g.spots, s)
			err = m.limit(s, l)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cgroup: make %s: %w", g.name, err), g.Remove())
		}
	}
	return g, nil
}

var errInUse = errors.New("another living process holds this group")

// mostSweeps is how many sweeps of other processes in turn may hold or remove a new directory before its lock is taken.
const mostSweeps = 100

// make makes the directory of a group and locks it. Between the two, a sweep of another process may remove it: it is
// made again then. The pauses, about 1.5 s in all, are for sweeps on a loaded machine.
func (m *Manager) make(p hierarchy, name string) (spot, error) {
	path := filepath.Join(p.dir, name)
	fresh := false // this call has made it: only a sweep can hold it
	for n := range mostSweeps {
		made := m.mkdir(path)
		if made != nil && !errors.Is(made, fs.ErrExist) {
			return spot{}, made
		}
		fresh = fresh || made == nil
		s, err := take(p, path)
		if errors.Is(err, fs.ErrNotExist) || fresh && errors.Is(err, errInUse) {
			time.Sleep(min(time.Duration(n)*time.Millisecond, 16*time.Millisecond))
			continue
		}
		if err != nil {
			return spot{}, err
		}
		if made == nil {
			return s, nil
		}
		old := &Group{m: m, name: name, spots: []spot{s}}
		if err := errors.Join(old.Kill(), old.Remove()); err != nil {
			return spot{}, err
		}
	}
	return spot{}, errInUse
}

// take opens and locks the directory of a group, or gives errInUse.
func take(p hierarchy, path string) (spot, error) {
	lock, err := os.Open(path)
	if err != nil {
		return spot{}, err
	}
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err == syscall.EWOULDBLOCK {
		err = errInUse
	}
	if err == nil { // still the directory that the path names?
		var now, locked os.FileInfo
		if now, err = os.Stat(path); err == nil {
			if locked, err = lock.Stat(); err == nil && !os.SameFile(now, locked) {
				err = fs.ErrNotExist
			}
		}
	}
	if err != nil {
		lock.Close()
		return spot{}, err
	}
	return spot{hierarchy: p, path: path, lock: lock}, nil
}

// limit writes the limits that the hierarchy of s has controllers for.
func (m *Manager) limit(s spot, l Limits) error {
	const period = 100_000 // microseconds
	quota := max(int64(l.Cores*period), 1000)
	set := func(file, text string) error { return m.write(filepath.Join(s.path, file), text) }
	bytes, count := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Processes)
	unified := m.version == "v2"
	var errs []error
	if l.Memory > 0 && unified {
		errs = append(errs, set("memory.max", bytes), optional(set("memory.swap.max", "0")),
			optional(set("memory.oom.group", "1")))
	} else if l.Memory > 0 && s.has("memory") {
		errs = append(errs, set("memory.limit_in_bytes", bytes))
		if err := set("memory.memsw.limit_in_bytes", bytes); err != nil {
			// no accounting of swap: keep what it has in memory
			errs = append(errs, optional(set("memory.swappiness", "0")))
		}
	}
	if l.Processes > 0 && (unified || s.has("pids")) {
		errs = append(errs, set("pids.max", count))
	}
	if l.Cores > 0 && unified && m.cpu {
		errs = append(errs, set("cpu.max", fmt.Sprintf("%d %d", quota, period)))
	} else if l.Cores > 0 && s.has("cpu") {
		errs = append(errs, set("cpu.cfs_period_us", strconv.Itoa(period)),
			set("cpu.cfs_quota_us", strconv.FormatInt(quota, 10)))
	}
	return errors.Join(errs...)
}

// optional forgives a file that this kernel does not have.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Add puts a process with all its threads into the group; what it forks later is born there. After an error it may be
// in a part of the hierarchies: kill it.
func (g *Group) Add(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("cgroup: add process %d: not a process id", pid)
	}
	for _, s := range g.spots {
		if err := g.m.write(filepath.Join(s.path, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cgroup: add process %d: %w", pid, err)
		}
	}
	return nil
}

// FD is the open directory for SysProcAttr.CgroupFD, valid until Remove; only version 2 has one: elsewhere use Add.
func (g *Group) FD() (int, bool) {
	if g.m.version != "v2" {
		return 0, false
	}
	return int(g.spots[0].lock.Fd()), true
}

// Usage reads the counters; call it before Remove.
func (g *Group) Usage() (Usage, error) {
	var u Usage
	var errs []error
	keep := func(to *int64, n int64, err error) {
		if err != nil {
			errs = append(errs, err)
		}
		*to = n
	}
	for _, s := range g.spots {
		number := func(to *int64, file string) { n, err := readNumber(filepath.Join(s.path, file)); keep(to, n, err) }
		key := func(to *int64, file, key string) {
			n, err := readKey(filepath.Join(s.path, file), key)
			keep(to, n, err)
		}
		var cpu int64
		switch {
		case g.m.version == "v2":
			number(&u.Memory, "memory.current")
			if n, err := readNumber(filepath.Join(s.path, "memory.peak")); optional(err) != nil {
				errs = append(errs, err)
			} else {
				u.PeakMemory = n
			}
			key(&u.OOMKills, "memory.events", "oom_kill")
			key(&u.ProcessLimitHits, "pids.events", "max")
		case s.has("memory"):
			number(&u.Memory, "memory.usage_in_bytes")
			number(&u.PeakMemory, "memory.max_usage_in_bytes")
			key(&u.OOMKills, "memory.oom_control", "oom_kill")
		}
		switch {
		case s.v2:
			key(&cpu, "cpu.stat", "usage_usec")
			u.CPU = max(u.CPU, time.Duration(cpu)*time.Microsecond)
		case s.has("cpuacct"):
			number(&cpu, "cpuacct.usage")
			u.CPU = max(u.CPU, time.Duration(cpu))
		}
		if !s.v2 && s.has("pids") {
			n, err := readKey(filepath.Join(s.path, "pids.events"), "max") // since Linux 4.8
			keep(&u.ProcessLimitHits, n, optional(err))
		}
	}
	for old := g.peak.Load(); u.Memory > old && !g.peak.CompareAndSwap(old, u.Memory); old = g.peak.Load() {
	}
	u.PeakMemory = max(u.PeakMemory, g.peak.Load())
	if err := errors.Join(errs...); err != nil {
		return u, fmt.Errorf("cgroup: usage of %s: %w", g.name, err)
	}
	return u, nil
}

// Pids lists the living processes of the group and of the groups that were made inside it; 0 stands for one of another
// pid namespace. A removed group has none.
func (g *Group) Pids() ([]int, error) {
	var all []int
	for _, s := range g.spots {
		for _, dir := range inside(s.path) {
			pids, err := readPids(filepath.Join(dir, "cgroup.procs"))
			if err != nil {
				return nil, fmt.Errorf("cgroup: processes of %s: %w", g.name, err)
			}
			all = append(all, pids...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// inside lists a group and those inside it, outer ones first.
func inside(dir string) []string {
	var dirs []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kill kills every process of the group, those that called setsid or forked twice too, and returns when none is left.
// An error means that one was still there after ten seconds (in an uninterruptible sleep, perhaps). It may be called
// again, also on an empty group.
//
// With cgroup.kill (version 2 since Linux 5.14, also in hybrid) the kernel does it at one stroke. Otherwise the group
// is frozen first, so that nothing can fork away while the processes are killed one by one.
func (g *Group) Kill() error {
	wait := newPatience(g.m.patience)
	stroke := g.stroke()
	for {
		pids, err := g.Pids()
		if err != nil {
			return err
		}
		if slices.Contains(pids, os.Getpid()) {
			return fmt.Errorf("cgroup: kill %s: this process is in it itself", g.name)
		}
		if len(pids) == 0 {
			return nil
		}
		if !stroke || wait.tries > 3 {
			g.freeze(true)
			for _, pid := range pids {
				if pid > 0 {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			g.freeze(false)
		}
		if !wait.more() {
			return fmt.Errorf("cgroup: kill %s: %d processes (%v) are still there after %v", g.name, len(pids),
				pids[:min(len(pids), 5)], g.m.patience)
		}
		if stroke {
			g.stroke()
		}
	}
}

// stroke writes cgroup.kill and reports whether there is one. A group that version 1 left frozen is let go first:
// frozen processes of version 1 do not even die.
func (g *Group) stroke() bool {
	for _, s := range g.spots {
		if !s.v2 {
			continue
		}
		kill := filepath.Join(s.path, "cgroup.kill")
		if _, err := os.Stat(kill); err != nil {
			return false
		}
		if g.m.write(kill, "1") == nil {
			g.freeze(false)
			return true
		}
	}
	return false
}

// freeze stops or continues the whole group. It waits only briefly until the kernel reports that all
// processes are frozen: one in an uninterruptible sleep would delay it, and Kill checks again.
func (g *Group) freeze(on bool) {
	for _, s := range g.spots {
		control, state, value, want := "freezer.state", "freezer.state", "THAWED", "FROZEN"
		switch {
		case s.v2:
			control, state, value, want = "cgroup.freeze", "cgroup.events", "0", "frozen 1"
		case !s.has("freezer"):
			continue
		}
		dirs := []string{s.path}
		if on {
			value = map[bool]string{true: "1", false: "FROZEN"}[s.v2]
		} else {
			dirs = inside(s.path) // an inner group may have been frozen by itself
		}
		for _, dir := range dirs {
			g.m.write(filepath.Join(dir, control), value)
		}
		for wait := newPatience(200 * time.Millisecond); on; {
			if b, err := os.ReadFile(filepath.Join(s.path, state)); err != nil || strings.Contains(string(b), want) ||
				!wait.more() {
				break
			}
		}
	}
}

// Remove removes the group, which must be empty: it tries for up to ten seconds while the kernel calls it busy (a
// process that is being reaped). It may be called again; a group that is gone is no error.
func (g *Group) Remove() error {
	var errs []error
	for i, s := range g.spots {
		wait := newPatience(g.m.patience)
		err := g.m.removeAll(s.path)
		for errors.Is(err, syscall.EBUSY) && wait.more() {
			err = g.m.removeAll(s.path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cgroup: remove %s: %w", s.path, err))
			continue
		}
		g.spots[i].lock.Close()
	}
	return errors.Join(errs...)
}

func (m *Manager) removeAll(path string) error {
	dirs := inside(path)
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if err := m.rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Sweep kills and removes the groups with the given prefix (empty: that of this manager) whose process is no more: the
// groups that no one holds a lock on. They may lie below other groups than ours, where the earlier process ran, so all
// that is mounted is searched. Groups of living processes, our own too, stay. Call it at start, before the first job.
func (m *Manager) Sweep(prefix string) error {
	if prefix == "" {
		prefix = m.prefix
	}
	if err := checkName("prefix", prefix); err != nil {
		return err
	}
	old := map[string]*Group{}
	for _, p := range m.hierarchies {
		for _, path := range m.find(p, prefix+"-") {
			s, err := take(p, path)
			if err != nil {
				continue // in use, gone, or not ours to open
			}
			name := filepath.Base(path)
			if old[name] == nil {
				old[name] = &Group{m: m, name: name}
			}
			old[name].spots = append(old[name].spots, s)
		}
	}
	var errs []error
	for _, g := range old {
		err := errors.Join(g.Kill(), g.Remove())
		for _, s := range g.spots {
			s.lock.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// find searches a hierarchy for groups by the beginning of their name; it inspects so many groups at most.
func (m *Manager) find(p hierarchy, start string) []string {
	const most = 50_000
	seen := 0
	var found []string
	filepath.WalkDir(p.top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), start):
			found = append(found, path)
			return fs.SkipDir
		}
		if seen++; seen > most {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// patience is a bounded wait with growing steps: the kernel reports none of these events on version 1.
type patience struct {
	until time.Time
	step  time.Duration
	tries int
}

func newPatience(d time.Duration) *patience {
	return &patience{until: time.Now().Add(d), step: 200 * time.Microsecond}
}

// more waits a step and reports whether there is time for another try.
func (p *patience) more() bool {
	if time.Now().After(p.until) {
		return false
	}
	time.Sleep(p.step)
	p.tries++
	p.step = min(2*p.step, 50*time.Millisecond)
	return true
}

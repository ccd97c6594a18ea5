// Package cgroup bounds the memory, the processes and the processor time of a group of processes, counts what they used
// and kills all of them, with the control groups of Linux: version 2 where a subtree is delegated to us, version 1
// where its controllers may be written, or both at once ("hybrid": the limits of version 1, cgroup.kill of version 2).
//
// A Group is one directory in version 2 and one in each hierarchy in version 1; callers do not see the difference.
// Groups are below the group of this process, so its limits apply to them, too. The process that made a group
// holds a lock (flock) on its directories. Sweep removes a group only if no process holds that lock, so it
// never changes the groups of another running process, also of one in another container.
//
// Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the kernel.
package cgroup

import (
	"fmt"
	"strings"
	"time"
)

// Options define how groups are named.
type Options struct {
	Prefix string // begins the names of our groups. Defaults to "stagepost"
}

// Check is one thing that Open tried. Name is "cgroup v2" or "cgroup v1 memory" and the like; Detail reports what was
// found; Remedy, for a check that is not OK, what an operator can do about it.
type Check struct {
	Name   string
	OK     bool
	Detail string
	Remedy string
}

// Limits of one group; zero means none. A limit whose controller the machine does not give (only cpu may be missing
// from a Manager; its check reports it) is not enforced.
type Limits struct {
	Memory    int64   // bytes, page cache and kernel memory included; the group gets no swap beyond it
	Processes int     // processes and threads at one time, unreaped ones included
	Cores     float64 // processors' worth of time, 0.5 is half of one; at least 0.01
}

// Usage is what a group has used since it was made.
type Usage struct {
	CPU              time.Duration
	PeakMemory       int64 // bytes; on kernels before 5.19 with version 2, the most that a call of Usage has seen
	Memory           int64 // bytes now
	OOMKills         int64 // processes killed because of Limits.Memory
	ProcessLimitHits int64 // forks refused because of Limits.Processes
}

const defaultPrefix = "stagepost"

// checkName refuses what would not be one plain directory name.
func checkName(what, name string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	switch {
	case name == "":
		return fmt.Errorf("cgroup: the %s is empty", what)
	case len(name) > 120:
		return fmt.Errorf("cgroup: the %s has %d bytes (at most 120)", what, len(name))
	case strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) || name[0] == '.':
		return fmt.Errorf("cgroup: the %s %q has other characters than letters, digits, '.', '_' and '-', or begins "+
			"with '.'", what, name)
	}
	return nil
}

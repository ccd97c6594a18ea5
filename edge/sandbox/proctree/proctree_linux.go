package proctree

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process as in /proc/PID/stat (proc_pid_stat(5)).
type Process struct {
	PID, Parent, group int
	zombie             bool
	Threads            int
	RSS                int64         // bytes
	CPU                time.Duration // of itself and of the children it waited for
	began              uint64        // identifies the process together with PID
}

// clockTick is that of /proc on every architecture that Linux has today.
const clockTick = 10 * time.Millisecond

// Find reads a process; false if there is none.
func Find(pid int) (Process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	end := bytes.LastIndexByte(text, ')') // the name before it may hold anything
	if end < 0 {
		return Process{}, false
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 22 {
		return Process{}, false
	}
	// the manual counts from 1, with pid and name
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i-3], 10, 64); return v }
	return Process{
		PID: pid, Parent: int(n(4)), group: int(n(5)), zombie: f[0] == "Z", Threads: int(n(20)),
		RSS: n(24) * int64(os.Getpagesize()),
		CPU: time.Duration(n(14)+n(15)+n(16)+n(17)) * clockTick, began: uint64(n(22)),
	}, true
}

// All gives every process that can be seen.
func All() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []Process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := Find(pid); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// Descendants gives the children of a process, their children, and so on.
func Descendants(of int) []Process {
	children := map[int][]Process{}
	for _, s := range All() {
		children[s.Parent] = append(children[s.Parent], s)
	}
	var out []Process
	for todo := []int{of}; len(todo) > 0; {
		next := children[todo[0]]
		delete(children, todo[0]) // each once
		todo = todo[1:]
		out = append(out, next...)
		for _, s := range next {
			todo = append(todo, s.PID)
		}
	}
	return out
}

// Memory returns the bytes of memory of processes (proportional set size): shared memory counts once. A process whose
// share cannot be read counts in full.
func Memory(tree []Process) (total int64) {
	for _, s := range tree {
		share := s.RSS
		text, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID) + "/smaps_rollup")
		if _, after, ok := strings.Cut(string(text), "\nPss:"); err == nil && ok {
			if f := strings.Fields(after); len(f) > 0 {
				if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
					share = n << 10
				}
			}
		}
		total += share
	}
	return total
}

// KillTree kills all descendants of a process that takes in orphans (a subreaper), until there are none but zombies.
// Whole process groups go first, each at one blow: a tree that forks faster than its members can be counted loses so.
// What is begun during one pass is found by the next.
func KillTree(of int) {
	for until := time.Now().Add(KillTimeout); time.Now().Before(until); {
		living := 0
		groups := map[int]bool{unix.Getpgrp(): true} // never its own
		for _, s := range Descendants(of) {
			if s.zombie {
				continue
			}
			living++
			if !groups[s.group] && s.group > 1 {
				// the command began with a session of its own, so every group in the tree is of the tree
				groups[s.group] = true
				_ = unix.Kill(-s.group, unix.SIGKILL)
			}
			s.kill()
		}
		if living == 0 {
			return
		}
	}
}

// KillTimeout bounds how long a tree is killed; one that hangs in the kernel does not block anything else.
const KillTimeout = 10 * time.Second

// kill ends a process if it is still the one that was seen.
func (s Process) kill() {
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := Find(s.PID); ok && now.began == s.began {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// KillMarked kills every process whose environment has a mark, and all that these began, until none is left: what a
// tree in tier none left when its init was killed.
func KillMarked(mark string) {
	want := []byte("\x00" + mark + "\x00")
	for until := time.Now().Add(KillTimeout); time.Now().Before(until); {
		found := false
		for _, s := range All() {
			if s.zombie || s.PID == os.Getpid() {
				continue
			}
			env, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID) + "/environ")
			if err != nil || !bytes.Contains(append(append([]byte{0}, env...), 0), want) {
				continue
			}
			found = true
			for _, below := range Descendants(s.PID) {
				below.kill()
			}
			s.kill()
		}
		if !found {
			return
		}
	}
}

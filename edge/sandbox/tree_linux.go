package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// seen is a process as /proc/PID/stat tells it (proc_pid_stat(5)).
type seen struct {
	pid, parent, group int
	zombie             bool
	threads            int
	rss                int64         // bytes
	cpu                time.Duration // of itself and of the children it waited for
	began              uint64        // with pid this names a process for ever
}

// clockTick is that of /proc on every architecture that Linux has today.
const clockTick = 10 * time.Millisecond

func look(pid int) (seen, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return seen{}, false
	}
	end := bytes.LastIndexByte(text, ')') // the name before it may hold anything
	if end < 0 {
		return seen{}, false
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 22 {
		return seen{}, false
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i-3], 10, 64); return v } // the manual counts from 1, with pid and name
	return seen{
		pid: pid, parent: int(n(4)), group: int(n(5)), zombie: f[0] == "Z", threads: int(n(20)), rss: n(24) * int64(os.Getpagesize()),
		cpu: time.Duration(n(14)+n(15)+n(16)+n(17)) * clockTick, began: uint64(n(22)),
	}, true
}

// all gives every process that can be seen.
func all() []seen {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []seen
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := look(pid); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// descendants gives the children of a process, their children, and so on.
func descendants(of int) []seen {
	children := map[int][]seen{}
	for _, s := range all() {
		children[s.parent] = append(children[s.parent], s)
	}
	var out []seen
	for todo := []int{of}; len(todo) > 0; {
		next := children[todo[0]]
		delete(children, todo[0]) // each once
		todo = todo[1:]
		out = append(out, next...)
		for _, s := range next {
			todo = append(todo, s.pid)
		}
	}
	return out
}

// proportional gives the bytes of memory of processes, where what several share counts once. Whose share cannot be read counts as a whole.
func proportional(tree []seen) (total int64) {
	for _, s := range tree {
		share := s.rss
		text, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/smaps_rollup")
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

// killTree kills all descendants of a process that takes in orphans (a subreaper), until there are none but zombies. Whole process groups go first, each at one blow: a tree that
// forks faster than its members can be counted loses so. What is begun while it looks is found by the next look.
func killTree(of int) {
	for until := time.Now().Add(lastTree); time.Now().Before(until); {
		living := 0
		groups := map[int]bool{unix.Getpgrp(): true} // never its own
		for _, s := range descendants(of) {
			if s.zombie {
				continue
			}
			living++
			if !groups[s.group] && s.group > 1 { // the command began with a session of its own, so every group in the tree is of the tree
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

// lastTree bounds how long the end of a tree may take; one that hangs in the kernel holds nothing else up.
const lastTree = 10 * time.Second

// kill ends a process if it is still the one that was seen.
func (s seen) kill() {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := look(s.pid); ok && now.began == s.began {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// killMarked kills every process whose environment has a mark, and all that these began, until none is left: what a tree in tier none left when its init was killed.
func killMarked(mark string) {
	want := []byte("\x00" + mark + "\x00")
	for until := time.Now().Add(lastTree); time.Now().Before(until); {
		found := false
		for _, s := range all() {
			if s.zombie || s.pid == os.Getpid() {
				continue
			}
			env, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/environ")
			if err != nil || !bytes.Contains(append(append([]byte{0}, env...), 0), want) {
				continue
			}
			found = true
			for _, below := range descendants(s.pid) {
				below.kill()
			}
			s.kill()
		}
		if !found {
			return
		}
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const ticksPerSecond = 100 // USER_HZ, the same on every architecture that Go supports

// treeCPU returns the processor time that this process, the servers that it started and their processes have used, to
// a hundredth of a second.
func treeCPU() time.Duration {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	parents, used := map[int]int{}, map[int]int64{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		if pid, parent, ticks, ok := parseStat(string(text)); ok {
			parents[pid], used[pid] = parent, ticks
		}
	}
	var sum int64
	for pid, ticks := range used {
		if descends(parents, pid, os.Getpid()) {
			sum += ticks
		}
	}
	return time.Duration(sum) * time.Second / ticksPerSecond
}

// parseStat reads proc_pid_stat(5): the time is that of the process and of its children that it waited for.
func parseStat(text string) (pid, parent int, ticks int64, ok bool) {
	name := strings.LastIndexByte(text, ')') // the name may have spaces and parentheses
	first, _, _ := strings.Cut(text, " ")
	if name < 0 {
		return 0, 0, 0, false
	}
	fields := strings.Fields(text[name+1:])
	if len(fields) < 15 {
		return 0, 0, 0, false
	}
	pid, err1 := strconv.Atoi(first)
	parent, err2 := strconv.Atoi(fields[1])
	for _, field := range fields[11:15] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, 0, false
		}
		ticks += n
	}
	return pid, parent, ticks, err1 == nil && err2 == nil
}

func descends(parents map[int]int, pid, from int) bool {
	for range 100 {
		if pid == from {
			return true
		}
		if pid = parents[pid]; pid <= 1 {
			return false
		}
	}
	return false
}

// syncs returns how often a second a page can be appended to a file in dir and synced by one caller.
func syncs(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	begin := time.Now()
	for n := 1; ; n++ {
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		if took := time.Since(begin); took > time.Second/6 {
			return float64(n) / took.Seconds(), nil
		}
	}
}

// machine describes what is measured on, as far as the kernel reports it.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	var u unix.Utsname
	release := ""
	if unix.Uname(&u) == nil {
		release = string(u.Release[:max(slices.Index(u.Release[:], 0), 0)])
	}
	return fmt.Sprintf("%d cores, %s, Linux %s", cores(), model, release)
}

// usage is processor time since some moment in the past: of all processes of the machine, and of this one with those
// that it started and that have ended.
type usage struct{ all, own time.Duration }

// used reads the processor times of the machine and of this process.
func used() (u usage, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if u.all, err = parseUsed(first); err != nil {
		return u, err
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			return u, err
		}
		u.own += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u, nil
}

// parseUsed adds what the first line of proc_stat(5) has, without idle and iowait.
func parseUsed(line string) (sum time.Duration, err error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for _, i := range []int{1, 2, 3, 6, 7, 8} { // user, nice, system, irq, softirq, steal
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		sum += time.Duration(n) * time.Second / ticksPerSecond
	}
	return sum, nil
}

// others is the part of the machine that other processes used between two moments, from 0 to 1.
func others(from, to usage, took time.Duration) float64 {
	spent := (to.all - from.all) - (to.own - from.own)
	return max(0, min(1, spent.Seconds()/took.Seconds()/float64(cores())))
}

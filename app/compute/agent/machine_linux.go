package agent

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// processorTimes reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, in ticks
// (proc(5)).
func processorTimes() (s sample, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	return parseTimes(text)
}

func parseTimes(text []byte) (s sample, err error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 5 || string(fields[0]) != "cpu" {
		return s, errors.New("/proc/stat does not begin with the processors' times")
	}
	for i, f := range fields[1:min(len(fields), 9)] { // guest times are in user and nice already
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return s, err
		}
		s.total += n
		if i != 3 && i != 4 {
			s.busy += n
		}
	}
	return s, nil
}

// MachineMemory gives the bytes of memory of the machine, 0 if it cannot report.
func MachineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}

// DiskFree reports how many bytes of a directory's file system are free for us.
func DiskFree(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

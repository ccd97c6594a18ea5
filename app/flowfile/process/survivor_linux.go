package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// lastSurvivor bounds how long a killed process may take to end; one that hangs in the kernel does not keep the
// program from starting indefinitely.
const lastSurvivor = 10 * time.Second

// endSurvivors kills the commands below a directory that outlived the process which started them, and their child
// processes: they would run beside the repeated command. They are recognized by the mark in their environment; only
// processes of the same user can be read.
func endSurvivors(temp string) error {
	if temp == "" {
		return nil
	}
	mark := []byte("\x00" + markOf(temp) + "\x00")
	for until := time.Now().Add(lastSurvivor); ; {
		all, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err
		}
		found := false
		for _, name := range all { // each pass may find processes that were started since the last one
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil || pid == os.Getpid() {
				continue
			}
			ours, err := endMarked(pid, name, mark, time.Until(until))
			if err != nil {
				return err
			}
			found = found || ours
		}
		if !found {
			return nil
		}
	}
}

// endMarked kills a process whose environment has the mark, and waits until it has gone. The process is held by its
// file descriptor from before the check of its environment: its number cannot become another's in between.
func endMarked(pid int, environ string, mark []byte, most time.Duration) (ours bool, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH): // it has ended
		return false, nil
	case err != nil:
		return false, fmt.Errorf("find the commands of a crashed process: %w", err)
	}
	defer unix.Close(fd)
	env, err := os.ReadFile(environ)
	if err != nil || !bytes.Contains(append(append([]byte{0}, env...), 0), mark) {
		return false, nil // it is another process, or has ended
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("end the command %d of a crashed process: %w", pid, err)
	}
	gone := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(gone, int(max(most, 0).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true, fmt.Errorf("wait for the command %d of a crashed process: %w", pid, err)
		case n == 0:
			return true, fmt.Errorf("the command %d of a crashed process does not end", pid)
		default:
			return true, nil
		}
	}
}

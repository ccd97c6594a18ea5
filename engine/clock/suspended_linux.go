package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// Clocks of Linux: both are steady, and only the second goes on while the machine is suspended (clock_gettime(2)).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns for how long the machine was suspended since it was booted.
func suspended() (time.Duration, bool) {
	boot, ok := readClock(clockBoottime)
	if !ok {
		return 0, false
	}
	// read last: an interruption in between makes the difference smaller, never larger
	running, ok := readClock(clockMonotonic)
	return boot - running, ok
}

func readClock(id uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}

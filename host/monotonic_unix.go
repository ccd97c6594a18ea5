//go:build unix

package host

import "golang.org/x/sys/unix"

// Monotonic gives CLOCK_MONOTONIC in microseconds, with which a service manager tells an old message from a new one; ok is false where there is
// no such clock.
func Monotonic() (usec int64, ok bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, false
	}
	return t.Nano() / 1000, true
}

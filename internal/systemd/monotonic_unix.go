//go:build unix

package systemd

import "golang.org/x/sys/unix"

// Monotonic returns CLOCK_MONOTONIC in microseconds, by which a service manager orders messages. ok is false without
// that clock.
func Monotonic() (usec int64, ok bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, false
	}
	return t.Nano() / 1000, true
}

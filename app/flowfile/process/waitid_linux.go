package process

import "golang.org/x/sys/unix"

// waitid waits until a child has ended without taking its exit status, so that its number stays its own.
func waitid(pid int) error { return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) }

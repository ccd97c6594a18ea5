package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// waitid waits until a child has ended. The system cannot state that without taking its exit status, so the process
// table is asked.
func waitid(pid int) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
		if err != nil || info.Proc.P_stat == zombie {
			return nil
		}
		time.Sleep(pause)
	}
}

const zombie = 5 // SZOMB

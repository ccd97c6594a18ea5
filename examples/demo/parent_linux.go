package demo

import (
	"os/exec"
	"syscall"
)

// endsWithParent ends a process with the demo. The thread that starts the process must live as long as the demo.
func endsWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

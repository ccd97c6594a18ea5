package zktest

import "syscall"

// The signals of Pause and Continue.
const (
	stop = syscall.SIGSTOP
	cont = syscall.SIGCONT
)

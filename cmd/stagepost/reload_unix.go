//go:build unix

package main

import (
	"os"
	"syscall"
)

// reloadSignals make a server read its configuration anew.
var reloadSignals = []os.Signal{syscall.SIGHUP}

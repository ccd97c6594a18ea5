//go:build unix

package host

import (
	"os"
	"syscall"
)

// ReloadSignals make a server read its configuration anew.
var ReloadSignals = []os.Signal{syscall.SIGHUP}

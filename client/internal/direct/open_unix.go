//go:build unix

package direct

import (
	"errors"
	"net"
	"syscall"
)

// checked reports whether open can check connections on this system.
const checked = true

// open reports whether an idle connection is open and has nothing to read. The server may have closed it: then a
// request would be lost, and only some requests may be repeated.
func open(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		quiet = errors.Is(err, syscall.EAGAIN)
		return true // do not wait
	})
	return err == nil && quiet
}

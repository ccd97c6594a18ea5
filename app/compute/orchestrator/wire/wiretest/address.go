package wiretest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

// The ports of Address lie below those that systems give by themselves (32768 and up on Linux, 49152 and up elsewhere):
// a process that returns to such an address later finds that no other test has got its port meanwhile.
const (
	firstPort = 20_000
	ports     = 10_000
)

var (
	begin = rand.Uint32N(ports) // another process that tests begins elsewhere
	given atomic.Uint32
)

// Address returns an address of this machine that nothing listens on, and that stays free until the caller listens on
// it. No other process that tests gets it until the test has ended.
func Address(t testing.TB) string {
	t.Helper()
	l := Listener(t)
	if err := closeWhole(l); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Listener listens on such an address.
func Listener(t testing.TB) net.Listener {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "stagepost-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for range ports {
		port := firstPort + (begin+given.Add(1))%ports
		lock, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(port)), os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = lock.Close()
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = lock.Close()
			continue
		}
		t.Cleanup(func() { _ = lock.Close() })
		return l
	}
	t.Fatal("no port is free")
	return nil
}

// closeWhole closes a listener so that its address is free afterwards: a process that is being started has a copy of
// it until it executes its program.
func closeWhole(l io.Closer) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return l.Close()
}

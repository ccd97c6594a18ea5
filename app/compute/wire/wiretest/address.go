package wiretest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// The ports of Address lie below those that systems give by themselves (32768 and up on Linux, 49152 and up elsewhere): whoever comes back to such an address later finds that no
// other test has got its port meanwhile.
const (
	firstPort = 20_000
	ports     = 10_000
)

var (
	begin = rand.Uint32N(ports) // another process that tests begins elsewhere
	given atomic.Uint32
)

// Address gives an address of this machine that nobody listens on, and that stays free until the caller listens on it.
func Address(t testing.TB) string {
	t.Helper()
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+(begin+given.Add(1))%ports)
		if l, err := net.Listen("tcp", address); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

package systemdtest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Manager is a service manager as far as a service sees it: a socket that takes datagrams.
type Manager struct {
	Socket string // its path or name
	t      *testing.T
	conn   *net.UnixConn
}

// New starts a manager, which ends with the test. Its socket is a path, or an abstract name.
func New(t *testing.T, abstract bool) *Manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Manager{t: t, Socket: filepath.Join(dir, "notify")}
	if abstract {
		s.Socket = "@stagepost-test" + s.Socket
	}
	s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.Socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// Next gives the next datagram; none within the time is "".
func (s *Manager) Next(within time.Duration) string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := s.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b[:n])
}

// Until gives the first datagram that begins so, and how many others came before it.
func (s *Manager) Until(begin string) (text string, others int) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); others++ {
		if text = s.Next(time.Until(deadline)); strings.HasPrefix(text, begin) {
			return text, others
		}
	}
	s.t.Fatalf("no %s came", begin)
	return "", 0
}

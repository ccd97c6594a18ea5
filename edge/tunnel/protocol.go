package tunnel

import (
	"net"
	"net/http"
	"strings"
	"sync"
)

const (
	upgradeName = "stagepost-tunnel/2"
	defaultPath = "/api/v1/compute/tunnel"
	suffix      = ".tunnel" // of the host names of agents
)

// Sizes of HTTP/2. A stream may have streamWindow unread bytes. The window of a connection is so large that streams
// with slow readers do not block others.
const (
	frameSize        = 1 << 20
	streamWindow     = 4 << 20
	connectionWindow = 1 << 30
)

// unencrypted is HTTP/2 without TLS: if the server has https, TLS is below the upgrade.
func unencrypted() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// longestName is the greatest length of an agent's name, in bytes.
const longestName = 63

// validName reports whether a name may be that of an agent: lower-case letters, digits, and between them - . and _.
func validName(name string) bool {
	if name == "" || len(name) > longestName {
		return false
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		inside := i > 0 && i < len(name)-1 && strings.IndexByte("-._", c) >= 0
		if !letter && !inside {
			return false
		}
	}
	return true
}

// asksForUpgrade reports whether the headers of a request or a response are those of an upgrade to a tunnel (RFC
// 9110, section 7.8).
func asksForUpgrade(h http.Header) bool {
	return hasToken(h["Connection"], "upgrade") && hasToken(h["Upgrade"], upgradeName)
}

func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}

// notifying is a connection that calls a function once when it is closed.
type notifying struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *notifying) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}

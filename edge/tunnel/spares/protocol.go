package spares

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// What the two sides say to each other.
const (
	upgradeName = "stagepost-tunnel"
	defaultPath = "/api/v1/compute/tunnel"
	suffix      = ".tunnel" // of the host names that a Pool dials

	bytePing  = 0 // and pong
	byteBegin = 1 // and ready
)

// longestName is how long the name of an agent may be, in bytes.
const longestName = 63

// validName tells whether a name may be that of an agent: lower-case letters, digits, and between them - . and _.
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

// asksForUpgrade tells whether the headers of a request or an answer are those of an upgrade to a tunnel (RFC 9110, section 7.8).
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

// readByte reads one byte.
func readByte(r io.Reader) (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return b[0], err
}

// writeByte writes one byte within a time.
func writeByte(c net.Conn, b byte, within time.Duration) error {
	if err := c.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := c.Write([]byte{b}); err != nil {
		return err
	}
	return c.SetWriteDeadline(time.Time{})
}

func unexpected(b byte) error { return fmt.Errorf("the other side sent the byte %d out of turn", b) }

// once is a connection that tells once that it was closed.
type once struct {
	net.Conn
	reader io.Reader // what was read ahead of it, then the connection
	do     sync.Once
	closed func()
}

func (c *once) Read(b []byte) (int, error) { return c.reader.Read(b) }

func (c *once) Close() error {
	err := c.Conn.Close()
	c.do.Do(c.closed)
	return err
}

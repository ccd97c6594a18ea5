// Package direct posts JSON over connections of its own, each in the goroutine of its caller. net/http passes every
// request to two other goroutines, which costs more than the rest of a small request.
package direct

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds.
const (
	mostIdle   = 256
	idle       = 45 * time.Second // a connection is not used again after it; servers close idle ones after 60 s
	mostHeader = 64 << 10         // bytes of the header of an answer
	mostLine   = 16 << 10         // bytes of a line of it
	mostKept   = 64 << 10         // bytes of a buffer that an idle connection keeps

	// MostBody is how many bytes a body may have. A server may refuse a larger one before it has read it, which these
	// connections do not notice.
	MostBody = 1 << 20
)

// Conns are connections to one server without TLS. They are safe for concurrent use.
type Conns struct {
	host   string
	header string // of each request, up to the value of Content-Length
	most   int64  // bytes of an answer
	dial   func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex // guards free
	free []*conn    // the one used last is at the end
}

// New makes connections to HOST or HOST:PORT that send some header fields besides those of a body, and accept answers
// of at most so many bytes. It returns nil where they cannot be used: on systems that cannot check whether a
// connection was closed, or if a field has other characters than printable ASCII.
func New(host string, fields [][2]string, most int64,
	dial func(ctx context.Context, network, address string) (net.Conn, error)) *Conns {
	header := " HTTP/1.1\r\nHost: " + host + "\r\n"
	for _, f := range fields {
		header += f[0] + ": " + f[1] + "\r\n"
	}
	header += "Content-Type: application/json\r\nContent-Length: "
	if !checked || strings.ContainsFunc(strings.ReplaceAll(header, "\r\n", ""), func(r rune) bool {
		return r < ' ' || r > '~'
	}) {
		return nil
	}
	for _, f := range fields {
		if strings.ContainsAny(f[0]+f[1], "\r\n") {
			return nil
		}
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	return &Conns{host: host, header: header, most: most, dial: dial}
}

// CloseIdle closes the connections that are not in use.
func (c *Conns) CloseIdle() {
	c.mu.Lock()
	free := c.free
	c.free = nil
	c.mu.Unlock()
	for _, one := range free {
		_ = one.Close()
	}
}

// conn is a connection. It has one user at a time.
type conn struct {
	net.Conn
	read  *bufio.Reader
	write []byte // the request
	head  []byte // of the answer
	body  []byte // of the answer
	used  time.Time
}

// get returns a connection that is not in use, or a new one.
func (c *Conns) get(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		n := len(c.free) - 1
		if n < 0 {
			c.mu.Unlock()
			break
		}
		one := c.free[n]
		c.free[n] = nil
		c.free = c.free[:n]
		c.mu.Unlock()
		if time.Since(one.used) < idle && open(one.Conn) {
			return one, nil
		}
		_ = one.Close()
	}
	made, err := c.dial(ctx, "tcp", c.host)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: made, read: bufio.NewReaderSize(made, mostLine)}, nil
}

// put keeps a connection for later calls, and closes the oldest one if it was idle for too long or there are too many.
func (c *Conns) put(one *conn) {
	one.used = time.Now()
	if cap(one.write) > mostKept {
		one.write = nil
	}
	if cap(one.body) > mostKept {
		one.body = nil
	}
	var old *conn
	c.mu.Lock()
	c.free = append(c.free, one)
	if len(c.free) > mostIdle || one.used.Sub(c.free[0].used) > idle {
		old = c.free[0]
		c.free = append(c.free[:0], c.free[1:]...)
	}
	c.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

// Post posts a body to the path of a request, whose context ends the call. It calls use with the body of an answer of
// status 2xx, which is valid until use returns; every other answer is returned, with its body in memory. A request is
// sent once.
func (c *Conns) Post(r *http.Request, body []byte, use func(text []byte) error) (refusal *http.Response, err error) {
	ctx := r.Context()
	one, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = one.SetDeadline(time.Unix(1, 0)) })
	}
	status, keep, err := c.exchange(one, r, body)
	if !stop() {
		keep = false
		if err != nil {
			err = ctx.Err()
		}
	}
	switch {
	case err != nil:
	case status >= 200 && status < 300:
		err = use(one.body)
	default:
		refusal, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(one.head)), r)
		if err == nil {
			refusal.Body = io.NopCloser(bytes.NewReader(bytes.Clone(one.body)))
		}
	}
	if keep {
		c.put(one)
	} else {
		_ = one.Close()
	}
	return refusal, err
}

// exchange sends a request and reads its answer into the buffers of the connection. keep reports whether the connection
// may be used again.
func (c *Conns) exchange(one *conn, r *http.Request, body []byte) (status int, keep bool, err error) {
	b := append(one.write[:0], "POST "...)
	b = append(append(b, r.URL.RequestURI()...), c.header...)
	b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n\r\n"...)
	one.write = append(b, body...)
	if _, err := one.Write(one.write); err != nil {
		return 0, false, err
	}
	h, err := one.header()
	if err != nil {
		return 0, false, err
	}
	if h.usual {
		if h.length > c.most {
			return 0, false, tooLarge(c.most)
		}
		one.body = slices.Grow(one.body[:0], int(h.length))[:h.length]
		_, err := io.ReadFull(one.read, one.body)
		return h.status, err == nil && one.read.Buffered() == 0, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(one.head), one.read)), r)
	if err != nil {
		return 0, false, err
	}
	one.body, err = io.ReadAll(io.LimitReader(answer.Body, c.most+1))
	if err == nil && int64(len(one.body)) > c.most {
		err = tooLarge(c.most)
	}
	return answer.StatusCode, false, err
}

func tooLarge(most int64) error { return fmt.Errorf("the answer is larger than %d bytes", most) }

// header is what the reading of an answer depends on.
type header struct {
	status int
	length int64
	usual  bool // HTTP/1.1 with one Content-Length and no Transfer-Encoding, which keeps the connection
}

// header reads the header of an answer into head. It passes over informational answers (RFC 9110, section 15.2).
func (c *conn) header() (h header, err error) {
	for h.status < 200 {
		c.head = c.head[:0]
		if h, err = c.oneHeader(); err != nil {
			return h, err
		}
		if h.status == http.StatusSwitchingProtocols {
			return h, errors.New("the server switches to another protocol")
		}
	}
	return h, nil
}

func (c *conn) oneHeader() (h header, err error) {
	line, err := c.line()
	if err != nil {
		return h, err
	}
	if h.status, err = statusOf(line); err != nil {
		return h, err
	}
	lengths := 0
	h.usual = bytes.HasPrefix(line, []byte("HTTP/1.1 ")) && h.status != http.StatusNoContent &&
		h.status != http.StatusNotModified
	for {
		if line, err = c.line(); err != nil || len(line) == 0 {
			h.usual = h.usual && lengths == 1
			return h, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case foldEqual(name, "content-length"):
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 62)
			h.length, h.usual = int64(n), h.usual && err == nil
			lengths++
		case foldEqual(name, "transfer-encoding"), foldEqual(name, "connection"), len(name) == 0, name[0] == ' ',
			name[0] == '\t':
			h.usual = false
		}
	}
}

// line reads a line of a header and returns it without its end.
func (c *conn) line() ([]byte, error) {
	line, err := c.read.ReadSlice('\n')
	c.head = append(c.head, line...)
	switch {
	case errors.Is(err, bufio.ErrBufferFull), len(c.head) > mostHeader:
		return nil, fmt.Errorf("the header of the answer has more than %d bytes, or %d in a line", mostHeader, mostLine)
	case err == io.EOF && len(c.head) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// statusOf returns the status of the first line of an answer.
func statusOf(line []byte) (int, error) {
	if _, rest, ok := bytes.Cut(line, []byte(" ")); ok && bytes.HasPrefix(line, []byte("HTTP/1.")) && len(rest) >= 3 {
		if n, err := strconv.ParseUint(string(rest[:3]), 10, 16); err == nil && n >= 100 {
			return int(n), nil
		}
	}
	return 0, fmt.Errorf("the answer begins with %.40q, not with a status of HTTP/1.1", line)
}

// foldEqual reports whether name is lower, which has only small letters, in letters of any case.
func foldEqual(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

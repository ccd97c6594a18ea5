package spares

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"
)

// maxAnswer bounds what the server says before the tunnel begins, in bytes.
const maxAnswer = 64 << 10

// spare opens a connection and waits until the server begins to use it. The connection then has a place, which its Close gives back; after an error the
// caller does.
func (l *Listener) spare() (*once, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.o.Handshake)
	defer cancel()
	raw, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(l.ctx, func() { _ = raw.Close() })
	defer stop()
	reader, err := l.upgrade(ctx, raw)
	if err == nil {
		l.note(nil)
		err = l.park(raw, reader)
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, hangUp(raw))
	}
	return &once{Conn: raw, reader: reader, closed: func() { <-l.room }}, nil
}

// hangUp closes a connection of which it is known that it is of no use any more.
func hangUp(c net.Conn) error {
	_ = c.Close()
	return nil
}

// connect dials the server, with TLS if its URL says so.
func (l *Listener) connect(ctx context.Context) (net.Conn, error) {
	port := cmp.Or(l.target.Port(), map[string]string{"http": "80", "https": "443"}[l.target.Scheme])
	raw, err := l.o.Dial(ctx, "tcp", net.JoinHostPort(l.target.Hostname(), port))
	if err != nil || l.target.Scheme == "http" {
		return raw, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.o.TLS != nil {
		config = l.o.TLS.Clone()
	}
	config.ServerName = cmp.Or(config.ServerName, l.target.Hostname())
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no upgrade
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, hangUp(raw))
	}
	return c, nil
}

// upgrade asks the server to take the connection as a spare. The reader has what the server sent behind its answer.
func (l *Listener) upgrade(ctx context.Context, c net.Conn) (*bufio.Reader, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.target.String(), nil)
	if err != nil {
		return nil, err
	}
	if l.o.Header != nil {
		r.Header = l.o.Header.Clone()
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", upgradeName)
	if err := r.Write(c); err != nil {
		return nil, err
	}
	limit := &io.LimitedReader{R: c, N: maxAnswer}
	reader := bufio.NewReader(limit)
	answer, err := http.ReadResponse(reader, r)
	if err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols || !asksForUpgrade(answer.Header) {
		return nil, refusalOf(answer)
	}
	limit.N = math.MaxInt64
	return reader, nil
}

// park answers pings until the server begins.
func (l *Listener) park(c net.Conn, r io.Reader) error {
	for {
		if err := c.SetReadDeadline(time.Now().Add(l.o.Silence)); err != nil {
			return err
		}
		b, err := readByte(r)
		if err != nil {
			return err
		}
		switch b {
		case bytePing, byteBegin:
			if err := writeByte(c, b, l.o.Handshake); err != nil {
				return err
			}
		default:
			return unexpected(b)
		}
		if b == byteBegin {
			return nil
		}
	}
}

package fetch

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Bounds of the log of hosts that cannot be reached.
const (
	againAfter = 10 * time.Minute // before a host has another line
	mostHosts  = 100              // with a line in that time
)

// hosts logs why hosts cannot be reached, with the addresses that errors do not name. It is safe for concurrent use.
type hosts struct {
	log *slog.Logger // nil: none

	mu   sync.Mutex // guards last
	last map[string]time.Time
}

// report logs an error about a host, unless the host, or many others, had one a short time ago.
func (h *hosts) report(host string, err error) {
	if h.log == nil || errors.Is(err, context.Canceled) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for name, at := range h.last {
		if now.Sub(at) >= againAfter {
			delete(h.last, name)
		}
	}
	if _, had := h.last[host]; had || len(h.last) >= mostHosts {
		return
	}
	if h.last == nil {
		h.last = map[string]time.Time{}
	}
	h.last[host] = now
	h.log.Warn("a host of a URL cannot be reached", "host", host, "error", err)
}

// private is an error whose text names no address, neither of the host nor of the resolver or of this machine: users
// read it, and a name that they choose may be that of an inner host.
type private struct {
	text string
	err  error
}

func (p *private) Error() string { return p.text }

func (p *private) Unwrap() error { return p.err }

// Timeout is part of net.Error.
func (p *private) Timeout() bool { return timedOut(p.err) }

// Temporary is part of net.Error.
func (p *private) Temporary() bool { return p.Timeout() }

// unreachable is the error of a lookup or a dial for users.
func unreachable(host string, err error) error {
	_, closed := errors.AsType[*private](err)
	if literal := net.ParseIP(host) != nil; closed || literal && isRefusal(err) {
		return err
	}
	return &private{host + ": " + reason(err), err}
}

// withoutAddresses returns the error of a connection for users.
func withoutAddresses(err error) error {
	_, closed := errors.AsType[*private](err)
	if op, ok := errors.AsType[*net.OpError](err); ok && !closed && (op.Addr != nil || op.Source != nil) {
		return &private{op.Op + ": " + reason(err), err}
	}
	return err
}

// reason is what happened, without addresses.
func reason(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	errno, isErrno := errors.AsType[syscall.Errno](err)
	switch {
	case isRefusal(err):
		return "the host is not allowed: it has no public address (the server's log has the details)"
	case isDNS && dns.IsNotFound:
		return "no such host"
	case isDNS && !dns.IsTimeout:
		return "the lookup of the name failed"
	case isErrno:
		return errno.Error()
	case timedOut(err):
		return "it does not answer in time"
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	}
	return "it cannot be reached"
}

// timedOut reports whether an error is the end of a time.
func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded)
}

package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/internal/retryafter"
)

// Kind classifies an error by its cause and possible remedy.
type Kind string

const (
	// Refused: the URL, a redirect or an address is not allowed. Nothing was sent to it.
	Refused Kind = "refused"
	// Invalid: the caller's name, algorithm or digest is invalid.
	Invalid Kind = "invalid"
	// NotFound: 404 or 410.
	NotFound Kind = "not found"
	// Status: another answer without success; the same request would get it again.
	Status Kind = "status"
	// Server: 5xx, 408, 425 or 429; a later request may succeed.
	Server Kind = "server"
	// Network: lookup, connection, TLS, timeout, too slow, interrupted, or the caller's context ended.
	Network Kind = "network"
	// TooLarge: more bytes than the policy or the caller allows.
	TooLarge Kind = "too large"
	// BadDigest: the complete bytes have another digest than expected.
	BadDigest Kind = "bad digest"
	// BadSize: the server has another number of bytes than expected.
	BadSize Kind = "bad size"
	// Storage: the local disk failed; errors.Is finds ENOSPC.
	Storage Kind = "storage"
)

// Error is the only type of error that the functions of a Client return.
type Error struct {
	Kind       Kind
	URL        string        // without user information and signatures; the hop that failed
	Status     int           // HTTP status, or 0
	RetryAfter time.Duration // the server's Retry-After, or 0
	Err        error
}

func (e *Error) Error() string {
	text := "fetch"
	if e.URL != "" {
		text += " " + e.URL
	}
	text += ": " + string(e.Kind)
	if e.Status != 0 {
		text += fmt.Sprintf(" (%d %s)", e.Status, http.StatusText(e.Status))
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same call may succeed later: servers and networks recover, a disk is emptied; a wrong
// certificate, a refusal and wrong bytes are permanent.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case Server:
		return true
	case Network:
		var cert *tls.CertificateVerificationError
		return !errors.As(e.Err, &cert)
	case Storage:
		for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE} {
			if errors.Is(e.Err, errno) {
				return true
			}
		}
	}
	return false
}

// Causes of kind Network that the package itself detects.
var (
	ErrIdle    = errors.New("no bytes came within the idle timeout")
	ErrSlow    = errors.New("slower than the minimum rate")
	ErrTimeout = errors.New("total timeout")
)

// networkError classifies an error of a round trip or of a body. The cause of the context is more specific than the
// error that its end caused.
func networkError(ctx context.Context, url string, err error) *Error {
	if isRefusal(err) {
		return &Error{Kind: Refused, URL: url, Err: err}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &Error{Kind: Network, URL: url, Err: withoutAddresses(err)}
}

// statusError classifies an answer without success.
func statusError(url string, r *http.Response, now time.Time) *Error {
	e := &Error{Kind: Status, URL: url, Status: r.StatusCode}
	switch code := r.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusGone:
		e.Kind = NotFound
	case retryafter.Passes(code):
		e.Kind = Server
		e.RetryAfter = retryafter.Parse(r.Header.Get("Retry-After"), now)
	}
	return e
}

func storageError(err error) *Error { return &Error{Kind: Storage, Err: err} }

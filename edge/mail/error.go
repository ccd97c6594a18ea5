package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/textproto"

	gomail "github.com/wneessen/go-mail"
)

// Error is the only type of error that senders return.
type Error struct {
	Code int  // SMTP reply code, or 0
	Temp bool // 4xx, network, or the local disk: the same message may be accepted later
	Err  error
}

func (e *Error) Error() string {
	if e.Temp {
		return fmt.Sprintf("mail: temporary: %v", e.Err)
	}
	return fmt.Sprintf("mail: %v", e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a repeated send of the same message may succeed.
func (e *Error) Temporary() bool { return e.Temp }

// classify converts errors of the SMTP exchange to an *Error. A reply code decides; without one an interrupted
// connection is temporary, and a failed negotiation (no STARTTLS, unknown certificate) is permanent.
func classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &Error{Temp: true, Err: fmt.Errorf("%w: %w", context.Cause(ctx), err)}
	}
	var send *gomail.SendError
	if errors.As(err, &send) {
		if code := send.ErrorCode(); code != 0 {
			return &Error{Code: code, Temp: code < 500, Err: err}
		}
		switch send.Reason {
		case gomail.ErrGetSender, gomail.ErrGetRcpts, gomail.ErrNoUnencoded:
			return &Error{Err: err}
		}
		return &Error{Temp: true, Err: err}
	}
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return &Error{Code: reply.Code, Temp: reply.Code < 500, Err: err}
	}
	var network net.Error
	temp := errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
	return &Error{Temp: temp, Err: err}
}

// Secret is a password that prints, logs and encodes as ***. string(s) is the password.
type Secret string

func (Secret) String() string               { return "***" }
func (Secret) GoString() string             { return "***" }
func (Secret) Format(f fmt.State, _ rune)   { io.WriteString(f, "***") }
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }
func (Secret) LogValue() slog.Value         { return slog.StringValue("***") }

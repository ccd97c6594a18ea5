package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// Conditions of PostgreSQL.
const (
	UniqueViolation  = "23505"
	DivisionByZero   = "22012"
	DiskFull         = "53100"
	LimitExceeded    = "54000" // a text that is too long for an index
	LockNotAvailable = "55P03" // after lock_timeout
	ReadOnly         = "25006" // a write on a standby, or with default_transaction_read_only
)

// State returns the condition that PostgreSQL reports; "" for another error.
func State(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Temporary reports whether a later attempt may succeed: the connection was lost, or the server ended, refused or
// rolled back the transaction for a reason that is not in the transaction itself. The end of a context counts.
func Temporary(err error) bool {
	var e *pgconn.PgError
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) { // not if the password is wrong or the database does not exist
		return !errors.As(err, &e) || !slices.Contains([]string{"28", "3D"}, e.Code[:2])
	}
	if errors.As(err, &e) {
		switch e.Code {
		case LockNotAvailable, ReadOnly, "53300", "53200", "25P03": // too many clients, memory, idle
			return true
		}
		// connection, transaction rollback (serialization, deadlock), operator intervention
		return slices.Contains([]string{"08", "40", "57", "58"}, e.Code[:2])
	}
	var network net.Error
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

package pg

import (
	"context"
	"errors"
	"net"
	"time"
)

// Bounds of the pauses of [Repeat].
const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// Repeat calls do again after a connection was lost or the server refused one for a time, as long as it is within a
// time after the first call. It does not wait for a database that cannot be reached or that accepts no writes: the
// setting may name a wrong one.
func Repeat(ctx context.Context, within time.Duration, do func() error) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := do()
		if err == nil || !Temporary(err) || unreached(err) || State(err) == ReadOnly ||
			time.Since(began)+pause > within {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// unreached reports whether there was no connection to a server.
func unreached(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "dial"
}

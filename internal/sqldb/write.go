package sqldb

import (
	"context"
	"database/sql"
	"time"
)

// Write runs do in a transaction, which is on disk when Write returns nil. Until then no transaction of any server
// writes in the schema. do may be called again after it was rolled back: it may change nothing but what a repetition
// sets anew. An error of do that is not one of the connection ends the transaction, and is returned.
func (s *Shared) Write(ctx context.Context, do func(tx *sql.Tx) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	s.seq++ // all attempts have one number
	for wait, began := firstPause, time.Now(); ; wait = min(2*wait, time.Second) {
		again, err := s.attempt(ctx, do)
		if err == nil {
			return nil
		}
		if s.afterFailure != nil {
			s.afterFailure()
		}
		switch {
		case !again:
			return fullDisk(err)
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(began) > s.options.Patience:
			return unavailable(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// attempt makes one attempt. again: a later one may succeed, and finds out whether this one was committed.
func (s *Shared) attempt(ctx context.Context, do func(tx *sql.Tx) error) (again bool, err error) {
	tx, err := s.write.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return lost(err), err
	}
	applied, err := s.begin(ctx, tx)
	if err != nil || applied {
		_ = tx.Rollback()
		return err != nil && lost(err), err
	}
	if err := do(tx); err != nil {
		// an error of do may be of a type that errors of the network have
		broken := tx.Rollback() != nil || FailedStatement(err) && lost(err)
		return broken && !ended(err), err
	}
	err = tx.Commit()
	return err != nil && lost(err), err
}

const enterWriter = `INSERT INTO writers VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE
	SET seq = excluded.seq, seen = excluded.seen WHERE writers.seq < excluded.seq`

// begin takes the lock of all servers, and then enters the number of the transaction. applied: an earlier attempt of it
// was committed.
func (s *Shared) begin(ctx context.Context, tx *sql.Tx) (applied bool, err error) {
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?, ?)", int64(lockClass),
		int64(s.lock)); err != nil {
		return false, err
	}
	r, err := tx.ExecContext(ctx, enterWriter, s.writer, s.seq, time.Now().UnixMicro())
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 0, err
}

package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// A full disk does not end the store: writes are refused until there is space, and reads go on.

// setFull notes in the commit loop whether the disk is full.
func (s *Store) setFull(full bool) {
	switch {
	case full && !s.full:
		s.fullNow()
	case !full:
		s.fullSince.Store(nil)
	}
	s.full = full
}

// fullNow notes that writes are refused from now on, unless they are already. The loop and the applier call it.
func (s *Store) fullNow() {
	now := time.Now()
	s.fullSince.CompareAndSwap(nil, &now)
}

// Full returns the time since when writes are refused because the disk is full. The zero time: they are accepted.
func (s *Store) Full() time.Time {
	if since := s.fullSince.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// Writable commits a transaction that changes nothing. The error is the reason why the store accepts no writes: kind
// Unavailable, with a [job.Full] if the disk is full.
func (s *Store) Writable(ctx context.Context) error {
	return s.do(ctx, false, func(*ledger.Ledger) error {
		err := s.records.c.Exec("INSERT INTO room (filler) VALUES (zeroblob(64)); DELETE FROM room")
		if err != nil {
			s.records.failed = err
		}
		return err
	})
}

func (s *Store) fullError() error {
	free := int64(-1)
	if n, _, err := s.options.Space(s.dir); err == nil {
		free = n
	}
	return &job.Error{Op: "store", Kind: job.Unavailable, Err: &job.Full{Dir: s.dir, Free: free}}
}

// spaceAgain tests whether a full disk accepts data again: it writes some and deletes it. It tests at most every
// quarter of a second.
func (s *Store) spaceAgain() bool {
	if time.Since(s.tried) < 250*time.Millisecond {
		return false
	}
	s.tried = time.Now()
	err := s.tryToWrite()
	if err == nil {
		s.setFull(false)
		return true
	}
	if f := faultOf(err); f == conn.IO || f == conn.Corrupt {
		s.stop(err)
	}
	return false
}

// tryToWrite writes a quarter of a megabyte to the database and deletes it.
func (s *Store) tryToWrite() error {
	s.writer.Lock()
	defer s.writer.Unlock()
	err := s.records.c.Exec(
		"BEGIN IMMEDIATE; INSERT INTO room (filler) VALUES (zeroblob(262144)); COMMIT; DELETE FROM room")
	if err != nil && s.records.c.InTransaction() {
		err = errors.Join(err, s.records.c.Exec("ROLLBACK"))
	}
	return err
}

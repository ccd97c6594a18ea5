package durable

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrShared: a sync of the whole file system has failed, so it is unknown what is on the disk.
var ErrShared = errors.New("sync of the file system")

// system is a file system that is synced as a whole. The syncs have numbers, from 1. A caller waits for one that began
// after its last change; all callers that wait at the same time wait for the same one.
//
// A failure may belong to any file that was changed and not yet synced. So it ends all sets that wait, or that have
// changed something since the last sync that succeeded, and further sets sync each file by itself.
type system struct {
	sync  func() error // syncs everything that was changed before the call, and returns errors of earlier writes too
	begun atomic.Uint64

	turn   sync.Mutex // held during a sync; guards done
	done   uint64     // number of the newest sync that succeeded
	failed atomic.Pointer[error]

	cleaning atomic.Bool // a sync runs that no set waits for
}

// next is the number of a sync that includes every change until now.
func (s *system) next() uint64 { return s.begun.Load() + 1 }

// wait returns when the sync of that number, or a later one, has succeeded.
func (s *system) wait(number uint64) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.done >= number {
		return nil
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	n := s.begun.Add(1)
	if err := s.sync(); err != nil {
		err = fmt.Errorf("%w: %w", ErrShared, err)
		s.failed.Store(&err)
		return err
	}
	s.done = n
	return nil
}

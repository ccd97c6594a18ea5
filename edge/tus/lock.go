package tus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// errElsewhere reports that a store of another process writes to the upload, or has given it to its application.
var errElsewhere = fmt.Errorf("%w at another server", ErrBusy)

// Texts of ID.yield, in which a request at another store states what it needs.
const (
	yieldSilent = "silent" // the writer is to end if it is silent
	yieldNow    = "now"    // the writer is to end
)

// yieldEvery is the longest time between two searches for a request to yield.
const yieldEvery = time.Second

// A request that only reads or ends an upload has the lock for a moment, so the lock is tried so often in such
// intervals before the upload counts as busy.
const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// lock locks the upload against other stores on the directory, and reads what they changed. The caller is the writer of
// the upload. If another store has the lock, the writer there is requested to end.
func (s *Store) lock(ctx context.Context, u *upload, insist bool) error {
	if u.lock != nil {
		return nil // it was taken by the application
	}
	f, err := s.root.OpenFile(u.id+dataEnding, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		s.vanish(u)
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		mine, err := tryLock(f)
		switch {
		case err != nil:
			return errors.Join(err, f.Close())
		case mine:
			return s.locked(u, f)
		case try == lockTries || !pause(ctx, lockPause):
			text := yieldSilent
			if insist {
				text = yieldNow
			}
			return errors.Join(errElsewhere, f.Close(), s.root.WriteFile(u.id+yieldEnding, []byte(text), 0o600))
		}
	}
}

// locked reads the upload, whose lock f has, and removes the effects of a crash. An upload that another store removed
// does not exist any more.
func (s *Store) locked(u *upload, f *os.File) error {
	now, err := s.read(u.id)
	if err == nil && now == nil {
		s.vanish(u)
		err = ErrNotFound
	}
	if err == nil {
		err = s.repair(now)
	}
	if one := s.root.Remove(u.id + yieldEnding); one != nil && !errors.Is(one, fs.ErrNotExist) {
		err = errors.Join(err, one)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.info, u.offset, u.used, u.lock = now.info, now.offset, now.used, f
	return nil
}

// vanish removes an upload that has no files from the store.
func (s *Store) vanish(u *upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.gone = true
	delete(s.uploads, u.id)
}

// unlock releases what lock has locked.
func (s *Store) unlock(u *upload) {
	s.mu.Lock()
	f := u.lock
	u.lock = nil
	s.mu.Unlock()
	if f != nil {
		_ = f.Close() // nothing was written through it
	}
}

// yield stops w when a request at another store needs the upload and w is silent, or that request insists. It ends with
// w.
func (s *Store) yield(u *upload, w *writer) {
	tick := time.NewTicker(min(max(s.o.Silence/4, time.Millisecond), yieldEvery))
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-tick.C:
			text, err := s.root.ReadFile(u.id + yieldEnding)
			if err == nil && (string(text) == yieldNow || w.silent() >= s.o.Silence) {
				w.stop()
			}
		}
	}
}

// alone runs do while no other store on the directory creates an upload.
func (s *Store) alone(do func() error) (err error) {
	f, err := s.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // which releases the lock
	if err := waitLock(f); err != nil {
		return err
	}
	return do()
}

// pause waits for a time, and reports whether ctx has not ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

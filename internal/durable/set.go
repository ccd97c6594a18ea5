package durable

import (
	"errors"
	"os"
	"sync"
)

// Bounds of a set.
const (
	setSyncs = 32      // files that one set syncs at once, where each file is synced by itself
	setSmall = 1 << 20 // bytes of a file above which it is always synced by itself, so that others do not wait for it
)

// Set collects files that were written and directories in which names changed, and brings all of them to the disk
// before Sync returns. All of them are on one file system.
//
// Where the file system can be synced as a whole (see shared_linux.go), one call does that for all sets of this
// process that wait for it. Elsewhere the set syncs each file as soon as it is added, some at once, and the
// directories in Sync: once each, however many names changed.
//
// The names of files that were added may exist before the files are on the disk. After a crash, a file that was added
// to a set without a Sync may be empty under its final name: its writer must not trust it. A Set is safe for
// concurrent use; what is added during Sync belongs to the next Sync.
type Set struct {
	root   *os.Root
	system *system // nil: each file is synced by itself
	off    bool    // nothing is synced
	slots  chan struct{}
	files  sync.WaitGroup

	mu     sync.Mutex // guards all below
	ticket uint64     // the number of the sync of the whole file system that includes all that was added; 0: none
	dirs   map[string]*os.File
	err    error // the first error of a sync of a file
}

// NewSet makes a set for files and directories below root, on the same file system.
func NewSet(root *os.Root) *Set {
	return newSet(root, systemOf(root))
}

func newSet(root *os.Root, s *system) *Set {
	return &Set{root: root, system: s, slots: make(chan struct{}, setSyncs), dirs: map[string]*os.File{}}
}

// Unsynced makes a set that syncs nothing: for files that the next user of the directory syncs, or makes again if they
// are not what was written.
func Unsynced(root *os.Root) *Set {
	s := newSet(root, nil)
	s.off = true
	return s
}

// Shared reports whether Sync brings everything on the file system to the disk, added or not.
func (s *Set) Shared() bool { return s.system != nil }

// File takes over a file of size bytes that was written completely: the set syncs and closes it. The caller may rename
// it meanwhile. The error is that of an earlier file of the set, so that a full disk ends a long series early.
func (s *Set) File(f *os.File, size int64) error {
	if s.off || s.system != nil && size <= setSmall {
		err := f.Close()
		s.changed(err)
		return err
	}
	s.slots <- struct{}{}
	s.files.Go(func() {
		defer func() { <-s.slots }()
		s.changed(errors.Join(f.Sync(), f.Close()))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Dir adds a directory below the set's root after names in it have changed. It may be renamed until Sync.
func (s *Set) Dir(name string) error {
	if s.off || s.system != nil {
		s.changed(nil)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirs[name] != nil {
		return nil
	}
	f, err := s.root.OpenFile(name, os.O_RDONLY|Plain, 0)
	if err == nil {
		s.dirs[name] = f
	}
	return err
}

// changed notes the end of a change and its error.
func (s *Set) changed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	if s.system != nil {
		s.ticket = s.system.next()
	}
}

// Sync returns when everything that was added is on the disk, or with the first error. After an error it is unknown
// what is on the disk, and every later Sync of the set returns the error again. Without anything added it does nothing.
func (s *Set) Sync() error {
	s.files.Wait()
	s.mu.Lock()
	ticket, dirs, err := s.ticket, s.dirs, s.err
	s.ticket, s.dirs = 0, map[string]*os.File{}
	s.mu.Unlock()
	if err == nil && ticket > 0 {
		err = s.system.wait(ticket)
	}
	err = errors.Join(err, syncDirs(dirs, err == nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return err
}

// syncDirs closes directories, and syncs them, some at once, if that is wanted.
func syncDirs(dirs map[string]*os.File, wanted bool) error {
	var done sync.WaitGroup
	slots, errs := make(chan struct{}, setSyncs), make(chan error, len(dirs))
	for _, dir := range dirs {
		slots <- struct{}{}
		done.Go(func() {
			defer func() { <-slots }()
			var err error
			if wanted {
				err = dir.Sync()
			}
			errs <- errors.Join(err, dir.Close())
		})
	}
	done.Wait()
	close(errs)
	var first error
	for err := range errs {
		if first == nil {
			first = err
		}
	}
	return first
}

// Close ends a set. What was added since the last Sync may be lost in a power cut.
func (s *Set) Close() error {
	s.files.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	dirs := s.dirs
	s.ticket, s.dirs = 0, map[string]*os.File{}
	return syncDirs(dirs, false)
}

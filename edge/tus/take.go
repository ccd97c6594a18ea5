package tus

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Take gives a complete upload of an owner to the application, once: until [Store.Return], [Store.Close] or the end of
// the process no other call gets it, also of another store, and no request, expiry or sweep changes it. The application
// copies or moves the file, syncs it, and then calls [Store.Remove]. The errors are ErrNotFound (also for an upload of
// another owner), ErrIncomplete, ErrBusy and those of the disk.
func (s *Store) Take(id, owner string) (Upload, error) {
	u, err := s.find(id, owner)
	if err != nil {
		return Upload{}, err
	}
	if s.written(u) {
		return Upload{}, ErrBusy
	}
	w := newBrief()
	if err := s.hold(context.Background(), u, w, false); err != nil {
		return Upload{}, err
	}
	s.mu.Lock()
	switch {
	case s.expired(u):
		err = ErrNotFound
	case !u.whole():
		err = ErrIncomplete
	}
	u.taken = err == nil
	s.mu.Unlock()
	s.release(u, w)
	if err != nil {
		return Upload{}, err
	}
	sum, err := s.sum(u)
	if err != nil {
		s.Return(id)
		return Upload{}, err
	}
	metadata, err := parseMetadata(u.info.Metadata)
	if err != nil {
		s.Return(id)
		return Upload{}, err
	}
	return Upload{
		ID: id, Name: cmp.Or(metadata["filename"], metadata["name"]), Path: filepath.Join(s.o.Dir, id+dataEnding),
		Size: u.offset, SHA256: sum, Metadata: metadata,
	}, nil
}

// written reports whether a request at this store writes a piece.
func (s *Store) written(u *upload) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return u.writer != nil && !u.writer.brief
}

func (s *Store) sum(u *upload) (string, error) {
	f, err := s.root.Open(u.id + dataEnding)
	if err != nil {
		return "", err
	}
	sum, err := u.digest.finish(f, u.offset)
	return sum, errors.Join(err, f.Close())
}

// Return returns a taken upload that the application did not use. Its expiry restarts.
func (s *Store) Return(id string) {
	s.mu.Lock()
	u := s.uploads[id]
	taken := u != nil && u.taken
	s.mu.Unlock()
	if !taken {
		return
	}
	_ = s.touch(u) // if it fails, the upload expires earlier
	s.unlock(u)
	s.mu.Lock()
	u.taken = false
	s.mu.Unlock()
}

// Remove ends an upload, taken or not, and its writer. A missing upload is not an error; one that another store writes
// to is ErrBusy.
func (s *Store) Remove(id string) error {
	u, err := s.known(id)
	if err != nil || u == nil {
		return err
	}
	s.mu.Lock()
	u.taken = false
	s.mu.Unlock()
	w := newBrief()
	err = s.hold(context.Background(), u, w, true)
	if errors.Is(err, ErrNotFound) {
		return nil // removed concurrently
	}
	if err != nil {
		return err
	}
	return s.end(u, w)
}

// end removes an upload that w has locked, and releases it.
func (s *Store) end(u *upload, w *writer) error {
	defer s.release(u, w)
	err := s.erase(u.id)
	if err == nil {
		s.mu.Lock()
		u.gone = true
		delete(s.uploads, u.id)
		s.mu.Unlock()
	}
	return err
}

// Sweep removes uploads that have expired by now, and as old files without an upload; it returns the number of
// removed uploads. It keeps uploads that are being written or were taken.
func (s *Store) Sweep(now time.Time) (removed int, err error) {
	if err := s.list(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	var old []*upload
	for _, u := range s.uploads {
		if u.writer == nil && !u.taken && !now.Before(s.expires(u)) {
			old = append(old, u)
		}
	}
	s.mu.Unlock()
	for _, u := range old {
		ctx, stop := context.WithCancel(context.Background())
		stop() // do not wait for new requests
		w := newBrief()
		if s.hold(ctx, u, w, false) != nil {
			continue
		}
		if now.Before(s.expires(u)) { // used in the meantime
			s.release(u, w)
			continue
		}
		if one := s.end(u, w); one != nil {
			err = errors.Join(err, one)
			continue
		}
		removed++
	}
	return removed, errors.Join(err, s.sweepFiles(now))
}

// sweepFiles removes what crashes left: incomplete creations and removals, and unreadable uploads.
func (s *Store) sweepFiles(now time.Time) error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, rest, _ := strings.Cut(e.Name(), ".")
		rest = "." + rest
		if !validID(id) || !slices.Contains(endings, rest) {
			continue // not ours
		}
		stat, one := e.Info()
		if one != nil || now.Sub(stat.ModTime()) < s.o.Keep {
			continue // removed concurrently, or of a running creation
		}
		s.mu.Lock()
		known := s.uploads[id] != nil
		s.mu.Unlock()
		if known {
			continue
		}
		if one := s.root.Remove(e.Name()); one != nil && !errors.Is(one, fs.ErrNotExist) {
			err = errors.Join(err, one)
		}
	}
	return err
}

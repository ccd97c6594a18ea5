package tus

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Take gives a complete upload of an owner to the application, once: until [Store.Return] or a restart no other call
// gets it, and no request, expiry or sweep changes it. The application copies or moves the file, syncs it, and then
// calls [Store.Remove]. The errors are ErrNotFound (also for an upload of another owner), ErrIncomplete, ErrBusy and
// those of the disk.
func (s *Store) Take(id, owner string) (Upload, error) {
	u := s.find(id, owner)
	if u == nil {
		return Upload{}, ErrNotFound
	}
	s.mu.Lock()
	switch {
	case u.gone || !s.o.Clock().Before(s.expires(u)) && !u.taken:
		s.mu.Unlock()
		return Upload{}, ErrNotFound
	case u.taken || u.writer != nil:
		s.mu.Unlock()
		return Upload{}, ErrBusy
	case !u.whole():
		s.mu.Unlock()
		return Upload{}, ErrIncomplete
	}
	u.taken = true
	s.mu.Unlock()
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
	defer s.mu.Unlock()
	if u := s.uploads[id]; u != nil && u.taken {
		u.taken, u.used = false, s.o.Clock()
	}
}

// Remove ends an upload, taken or not, and its writer. A missing upload is not an error.
func (s *Store) Remove(id string) error {
	s.mu.Lock()
	u := s.uploads[id]
	if u == nil {
		s.mu.Unlock()
		return nil
	}
	u.taken = false
	s.mu.Unlock()
	w := newWriter(func(time.Time) {})
	if !s.hold(context.Background(), u, w, true) {
		return nil // removed concurrently
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
		w := newWriter(func(time.Time) {})
		if !s.hold(ctx, u, w, false) {
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
		if !validID(id) || (rest != dataEnding && rest != infoEnding && rest != infoEnding+newEnding) {
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

package tus

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// The files of an upload.
const (
	infoEnding  = ".json"
	dataEnding  = ".data"
	newEnding   = ".new"   // of an ID.json that is being written
	yieldEnding = ".yield" // the request of another store
)

// endings are those of all files of an upload.
var endings = []string{infoEnding, infoEnding + newEnding, yieldEnding, dataEnding}

// lockName is the file whose lock a store has while it creates an upload.
const lockName = "lock"

// info is the content of ID.json.
type info struct {
	Owner    string    `json:"owner"`
	Length   *int64    `json:"length"`             // nil while it is deferred
	Metadata string    `json:"metadata,omitempty"` // the header as received
	Created  time.Time `json:"created"`
	Unproved *int64    `json:"unproved,omitempty"` // bytes from here on are unverified
}

// upload is one upload. Its offset and digest belong to its writer, or without a writer to the holder of the store's
// lock.
type upload struct {
	id     string
	info   info
	offset int64     // bytes that are synced and verified
	used   time.Time // when the last byte arrived
	writer *writer   // the current writer, if any
	taken  bool      // by the application
	lock   *os.File  // ID.data, locked against other stores while there is a writer, or it is taken
	gone   bool
	digest digest
}

// whole reports whether all bytes have arrived.
func (u *upload) whole() bool { return u.info.Length != nil && u.offset == *u.info.Length }

func (s *Store) expires(u *upload) time.Time { return u.used.Add(s.o.Keep) }

// expired reports whether the time of an upload is over. The caller has locked mu.
func (s *Store) expired(u *upload) bool { return !s.o.Clock().Before(s.expires(u)) }

// add creates a new upload on the disk. It exists when this returns nil, and does not otherwise.
func (s *Store) add(u *upload) error {
	f, err := s.root.OpenFile(u.id+dataEnding, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = s.write(u)
	}
	if err != nil {
		return errors.Join(err, s.erase(u.id))
	}
	return nil
}

// write replaces ID.json atomically and syncs it.
func (s *Store) write(u *upload) error {
	text, err := json.Marshal(u.info)
	if err != nil {
		return err
	}
	return durable.File{Root: s.root, Name: u.id + infoEnding,
		Temporary: u.id + infoEnding + newEnding}.Write(durable.Text(text))
}

// sync syncs the names in the directory.
func (s *Store) sync() error {
	return durable.SyncIn(s.root, ".")
}

// cut truncates the data of an upload to the bytes that count.
func (s *Store) cut(u *upload, size int64) error {
	f, err := s.root.OpenFile(u.id+dataEnding, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// touch records that a byte has arrived.
func (s *Store) touch(u *upload) error {
	now := s.o.Clock()
	s.mu.Lock()
	u.used = now
	s.mu.Unlock()
	return s.root.Chtimes(u.id+dataEnding, now, now)
}

// erase removes the files of an upload, ID.json first.
func (s *Store) erase(id string) error {
	var all error
	for _, ending := range endings {
		if err := s.root.Remove(id + ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return errors.Join(all, s.sync())
}

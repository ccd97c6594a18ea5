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
	infoEnding = ".json"
	dataEnding = ".data"
	newEnding  = ".new" // of an ID.json that is being written
)

// info is what ID.json holds.
type info struct {
	Owner    string    `json:"owner"`
	Length   *int64    `json:"length"`             // nil while it is deferred
	Metadata string    `json:"metadata,omitempty"` // the header as it came
	Created  time.Time `json:"created"`
	Unproved *int64    `json:"unproved,omitempty"` // from here on nobody has proved the checksum yet
}

// upload is one upload. Its offset and digest belong to who holds it, or to who has locked the store while nobody does.
type upload struct {
	id     string
	info   info
	offset int64     // bytes that are synced and proved
	used   time.Time // when the last byte came
	writer *writer   // who writes now, if anybody
	taken  bool      // by the application
	gone   bool
	digest digest
}

// whole tells whether all has come.
func (u *upload) whole() bool { return u.info.Length != nil && u.offset == *u.info.Length }

func (s *Store) expires(u *upload) time.Time { return u.used.Add(s.o.Keep) }

// add puts a new upload on the disk. It is there when this returns nil, and not at all otherwise.
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

// write puts ID.json into its place, whole or not at all, and syncs it.
func (s *Store) write(u *upload) error {
	text, err := json.Marshal(u.info)
	if err != nil {
		return err
	}
	return durable.File{Root: s.root, Name: u.id + infoEnding, Temporary: u.id + infoEnding + newEnding}.Write(durable.Text(text))
}

// sync makes the names in the directory durable.
func (s *Store) sync() error {
	return durable.SyncIn(s.root, ".")
}

// cut shortens the data of an upload to what counts.
func (s *Store) cut(u *upload, size int64) error {
	f, err := s.root.OpenFile(u.id+dataEnding, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// touch notes that a byte has come.
func (s *Store) touch(u *upload) error {
	now := s.o.Clock()
	s.mu.Lock()
	u.used = now
	s.mu.Unlock()
	return s.root.Chtimes(u.id+dataEnding, now, now)
}

// erase removes the files of an upload, the one that says it exists first.
func (s *Store) erase(id string) error {
	var all error
	for _, name := range []string{id + infoEnding, id + infoEnding + newEnding, id + dataEnding} {
		if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return errors.Join(all, s.sync())
}

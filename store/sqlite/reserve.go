package sqlite

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// The log has space that was allocated before, and a disk that is full has none for the rows of the database. The
// reserve is a file beside the segments that is removed then: the rows that are in the log when the disk fills up can
// still be written, at the end of a process or at its next start. Until the reserve exists again, the store refuses
// writes, so that the log gets no more of them.

const (
	reserveName = "reserve"
	reserveSize = 2 << 20
)

// makeReserve makes the reserve in a directory unless it exists. Its bytes are random, because a file system may
// compress others. It is not synced: after a power failure it is made again.
func makeReserve(dir string) error {
	file := filepath.Join(dir, reserveName)
	if info, err := os.Lstat(file); err == nil && info.Size() == reserveSize {
		return nil
	}
	content := make([]byte, reserveSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // it has no errors
	err := os.WriteFile(file, content, 0o600)
	if err != nil {
		if removed := os.Remove(file); removed != nil && !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// dropReserve removes the reserve, and reports whether it existed.
func (s *Store) dropReserve() bool {
	return os.Remove(filepath.Join(s.dir, logName, reserveName)) == nil
}

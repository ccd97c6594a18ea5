// Package headfile keeps the number of entries of a database in a file beside it, so that a database that is missing,
// or was replaced by an older one, is noticed when it is opened.
//
// The number is written after each commit and never synced. It may be behind the database, but not ahead of it, since
// a commit is on disk before it is noted.
package headfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/internal/durable"
)

// Errors about a database that is not the one that was written last.
var (
	// ErrMissing: there was a database, and its file is missing.
	ErrMissing = errors.New("the file is missing, although there was one")
	// ErrEmpty: there was a database, and its file is empty.
	ErrEmpty = errors.New("the file is empty, although it had entries")
	// ErrOlder: the database lacks what was entered since.
	ErrOlder = errors.New("the file is older than the last one")
	// ErrForeign: the database belongs to another installation.
	ErrForeign = errors.New("the file belongs to another installation")
)

const form = "%s %020d\n"

// Path is the name of the file beside a database.
func Path(db string) string { return strings.TrimSuffix(db, filepath.Ext(db)) + ".head" }

// Read gives the installation that the database belongs to, and the number of entries that was noted last. exists is
// false without the file. An incomplete line, as after a loss of power, counts as none.
func Read(db string) (installation string, sequence int64, exists bool, err error) {
	f, err := os.Open(Path(db))
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, false, nil
	}
	if err != nil {
		return "", 0, false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", 0, false, err
	}
	if _, err := fmt.Sscanf(string(text), form, &installation, &sequence); err != nil {
		return "", 0, true, nil
	}
	return installation, sequence, true, nil
}

// Present refuses a database that is missing or empty although there was one. It is called before the database is
// opened, which would create it.
func Present(db string) error {
	_, _, exists, err := Read(db)
	if err != nil || !exists {
		return err
	}
	switch info, err := os.Stat(db); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: see %s", ErrMissing, Path(db))
	case err != nil:
		return err
	case info.Size() == 0:
		return fmt.Errorf("%w: see %s", ErrEmpty, Path(db))
	}
	return nil
}

// File is the open file beside a database.
type File struct {
	file         *os.File
	installation string

	mu       sync.Mutex // guards sequence
	sequence int64
}

// Open refuses a database with fewer entries than were noted, or of another installation, and opens the file for what
// follows.
func Open(db, installation string, sequence int64) (*File, error) {
	owner, noted, exists, err := Read(db)
	switch {
	case err != nil:
		return nil, err
	case owner != "" && owner != installation:
		return nil, fmt.Errorf("%w: its id is %s, and %s names %s", ErrForeign, installation, Path(db), owner)
	case sequence < noted:
		return nil, fmt.Errorf("%w: it has %d entries, and %s names %d", ErrOlder, sequence, Path(db), noted)
	}
	if !exists {
		if err := Write(db, installation, sequence); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(Path(db), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	h := &File{file: f, installation: installation, sequence: noted}
	h.Note(sequence)
	return h, nil
}

// Write writes the file anew, whole and synced: a restored database gets its own.
func Write(db, installation string, sequence int64) error {
	return durable.Replace(Path(db), fmt.Appendf(nil, form, installation, sequence))
}

// Note writes how many entries the database has. The line always has the same length. A disk that refuses it leaves
// the file behind, which it may be.
func (f *File) Note(sequence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sequence <= f.sequence {
		return
	}
	if _, err := f.file.WriteAt(fmt.Appendf(nil, form, f.installation, sequence), 0); err == nil {
		f.sequence = sequence
	}
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

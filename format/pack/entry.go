package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"
)

// Format is a format of archives.
type Format string

// The formats.
const (
	ZIP Format = "zip" // content as is (method stored), names in UTF-8, zip64 if needed (APPNOTE 6.3.10)
	TAR Format = "tar" // ustar, with PAX records if needed (POSIX.1-2001)
)

// Entry is a file of an archive.
type Entry struct {
	Name  string // path with slashes, relative; unique in the archive
	Size  int64
	CRC32 uint32 // of the content, IEEE
	// of the content, of any strong algorithm, always the same one; only the archive's digest uses it
	Digest   string
	Mode     fs.FileMode // the permissions
	Modified time.Time   // to the second
	Source   string      // the argument of the [Opener] for the content; unused if Size is 0
}

// ErrEntry is the error for an entry that an archive cannot have.
var ErrEntry = errors.New("invalid entry")

func (e *Entry) check() error {
	switch {
	case !fs.ValidPath(e.Name) || e.Name == "." || strings.ContainsAny(e.Name, "\\\x00"):
		return fmt.Errorf("%w: %.200q is not a path within an archive", ErrEntry, e.Name)
	case !utf8.ValidString(e.Name), len(e.Name) > 1<<16-1:
		return fmt.Errorf("%w: the name %.200q", ErrEntry, e.Name)
	case e.Size < 0:
		return fmt.Errorf("%w: %.200q has %d bytes", ErrEntry, e.Name, e.Size)
	}
	return nil
}

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
	ZIP Format = "zip" // content as it is (method stored), names in UTF-8, zip64 where it is needed (APPNOTE 6.3.10)
	TAR Format = "tar" // ustar, with PAX records where it is needed (POSIX.1-2001)
)

// Entry is a file of an archive.
type Entry struct {
	Name     string // path with slashes, relative; each name is to be given once
	Size     int64
	CRC32    uint32      // of the content, IEEE
	Digest   string      // of the content, of any strong algorithm, the same at all times; it goes into the archive's digest and nowhere else
	Mode     fs.FileMode // the permissions
	Modified time.Time   // to the second
	Source   string      // what the [Opener] finds the content by; not asked for when Size is 0
}

// ErrEntry is an entry that no archive can have.
var ErrEntry = errors.New("invalid entry")

func (e *Entry) check() error {
	switch {
	case !fs.ValidPath(e.Name) || e.Name == "." || strings.ContainsAny(e.Name, "\\\x00"):
		return fmt.Errorf("%w: %.200q is no path within an archive", ErrEntry, e.Name)
	case !utf8.ValidString(e.Name), len(e.Name) > 1<<16-1:
		return fmt.Errorf("%w: the name %.200q", ErrEntry, e.Name)
	case e.Size < 0:
		return fmt.Errorf("%w: %.200q has %d bytes", ErrEntry, e.Name, e.Size)
	}
	return nil
}

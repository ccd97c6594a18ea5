package collect

import (
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
)

// Digest is a SHA-256.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes lower-case hexadecimal digits, for JSON.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != 2*len(d) {
		return fmt.Errorf("a SHA-256 has 64 digits, got %d", len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// Options say what goes into a ZIP. The zero Options take everything, up to 1,000,000 files.
type Options struct {
	// Leave lists inputs by their name relative to the directory, with slashes. Those with this content are left out; those
	// that the script has changed are taken. An input is read to find out.
	Leave map[string]Digest

	// Modes are stored for files in place of their own, by their name relative to the directory, with slashes.
	Modes map[string]fs.FileMode

	// Extra files come first. Their names are theirs: what has the same name in the directory is stored as name~1.
	Extra []Extra

	// Skip is asked for each file and directory, by its name relative to the directory as it is there; what it wants
	// skipped is not mentioned in the manifest. Nil skips nothing.
	Skip func(name string) bool

	// Last are files that are made when everything else is in the ZIP, and come last: by then Tell was told all. Their names are theirs from the start.
	Last []Extra

	// Tell is told of everything of the directory that is not in the ZIP, or not as it was, however much that is; the name is printable and short. Nil: only the manifest tells.
	Tell func(why Reason, name, sentence string)

	MaxFiles int   // entries of the directory, directories counted too. Defaults to 1,000,000
	MaxBytes int64 // unpacked bytes of files of the directory. Defaults to no limit
}

// Reason is a word for why something is not in a ZIP, or not as it was.
type Reason string

// The reasons.
const (
	LinkOut    Reason = "link"       // a symbolic link that leads out, or whose target cannot be stored
	FIFO       Reason = "fifo"       // a named pipe
	Socket     Reason = "socket"     // of the file system
	Device     Reason = "device"     // or another special file
	LongName   Reason = "name"       // a path that is too long
	TooLarge   Reason = "size"       // more than MaxBytes
	TooMany    Reason = "count"      // more than MaxFiles
	TooDeep    Reason = "depth"      // more directories in each other than can be gone into
	Mounted    Reason = "mount"      // another file system
	Unreadable Reason = "unreadable" // by its mode, or its disk
	Changed    Reason = "changed"    // vanished, or became something else meanwhile
	InPart     Reason = "part"       // it could not be read to its end: the rest is missing
	NewName    Reason = "renamed"    // all of it is there, under another name than it had
)

// Extra is a file that does not come from the directory: stdout, stderr, exit.json. Open may give fs.ErrNotExist: then it is
// told as vanished; any other error fails the whole. It is read to its end, so the caller bounds one that grows.
type Extra struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Skipped is something that was not taken, or not as it was.
type Skipped struct {
	Name string `json:"name"` // printable: as it is or, if need be, with the escapes of Go's strings; long ones are cut
	Why  string `json:"why"`
}

// Manifest tells what a ZIP holds, and what it does not.
type Manifest struct {
	Files       int       `json:"files"` // extra files and links counted, directories not
	Bytes       int64     `json:"bytes"` // unpacked
	Skipped     []Skipped `json:"skipped,omitempty"`
	SkippedMore int       `json:"skipped_more,omitempty"` // beyond the first 1000
	Renamed     []Renamed `json:"renamed,omitempty"`      // the first 1000
	RenamedMore int       `json:"renamed_more,omitempty"`
}

// Renamed is a file that is stored under another name than it had: because that name is one of Extra, cannot be stored, or
// could do harm where the ZIP is unpacked.
type Renamed struct {
	Name string `json:"name"` // printable, as in Skipped
	As   string `json:"as"`
}

// Result is a file that is safely on the disk.
type Result struct {
	Bytes    int64    `json:"bytes"`
	SHA256   Digest   `json:"sha256"`
	Manifest Manifest `json:"manifest"` // of ZipFile
}

const mostTold = 1000

// leave tells that something is not taken, or not as it is.
func (c *collector) leave(r Reason, name, why string, args ...any) {
	c.skip(name, why, args...)
	if c.Tell != nil {
		c.Tell(r, short(name), fmt.Sprintf(why, args...))
	}
}

// leaveFor is leave for a file that an error keeps from being taken.
func (c *collector) leaveFor(err error, name string) { c.leave(reasonOf(err), name, "%s", gone(err)) }

// callIt tells that something is stored under another name.
func (c *collector) callIt(name, as string) {
	c.rename(name, as)
	if c.Tell != nil {
		c.Tell(NewName, short(name), "stored as "+short(as))
	}
}

func (m *Manifest) skip(name, why string, args ...any) {
	if len(m.Skipped) >= mostTold {
		m.SkippedMore++
		return
	}
	m.Skipped = append(m.Skipped, Skipped{short(name), fmt.Sprintf(why, args...)})
}

func (m *Manifest) rename(name, as string) {
	if len(m.Renamed) >= mostTold {
		m.RenamedMore++
		return
	}
	m.Renamed = append(m.Renamed, Renamed{short(name), short(as)})
}

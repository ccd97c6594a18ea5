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

// Options define the content of a ZIP. The zero Options include everything, up to 1,000,000 files.
type Options struct {
	// Leave lists inputs by their name relative to the directory, with slashes. An unchanged input is omitted; one
	// that the script has changed is included. Each input is read for the comparison.
	Leave map[string]Digest

	// Modes replace the modes of files, by their name relative to the directory, with slashes.
	Modes map[string]fs.FileMode

	// Extra files come first. Their names take precedence: a file of the same name in the directory is stored as
	// name~1.
	Extra []Extra

	// Skip is called for each file and directory, with its name relative to the directory. The manifest does not list
	// what it skips. Nil skips nothing.
	Skip func(name string) bool

	// Last are files that are created when everything else is in the ZIP, and come last: by then all calls of Report
	// were made. Their names are reserved from the start.
	Last []Extra

	// Report is called for everything of the directory that the ZIP lacks or has in another form, without a limit;
	// the name is printable and short. Nil: only the manifest lists it.
	Report func(why Reason, name, sentence string)

	MaxFiles int   // entries of the directory, directories counted too. Defaults to 1,000,000
	MaxBytes int64 // unpacked bytes of files of the directory. Defaults to no limit
}

// Reason is a word for why a file is not in a ZIP, or is in it in another form.
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
	TooDeep    Reason = "depth"      // directories nested too deeply
	Mounted    Reason = "mount"      // another file system
	Unreadable Reason = "unreadable" // by its mode, or its disk
	Changed    Reason = "changed"    // deleted or replaced during the walk
	InPart     Reason = "part"       // it could not be read to its end: the rest is missing
	NewName    Reason = "renamed"    // complete, but under another name
)

// Extra is a file from outside the directory: stdout, stderr, exit.json. If Open returns fs.ErrNotExist, the manifest
// lists the file as vanished; any other error fails the whole. It is read to its end, so the caller bounds one that
// grows.
type Extra struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Skipped is a file that is omitted or stored in another form.
type Skipped struct {
	// printable: unchanged or, if necessary, with the escapes of Go's strings; long ones are cut
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Manifest describes the content of a ZIP, and what it lacks.
type Manifest struct {
	Files       int       `json:"files"` // extra files and links counted, directories not
	Bytes       int64     `json:"bytes"` // unpacked
	Skipped     []Skipped `json:"skipped,omitempty"`
	SkippedMore int       `json:"skipped_more,omitempty"` // beyond the first 1000
	Renamed     []Renamed `json:"renamed,omitempty"`      // the first 1000
	RenamedMore int       `json:"renamed_more,omitempty"`
}

// Renamed is a file that is stored under another name: because Extra has that name, the name cannot be stored, or it
// could cause harm where the ZIP is unpacked.
type Renamed struct {
	Name string `json:"name"` // printable, as in Skipped
	As   string `json:"as"`
}

// Result is a file that is synced.
type Result struct {
	Bytes    int64    `json:"bytes"`
	SHA256   Digest   `json:"sha256"`
	Manifest Manifest `json:"manifest"` // of ZipFile
}

const mostListed = 1000

// leave reports that an entry is omitted, or stored in another form.
func (c *collector) leave(r Reason, name, why string, args ...any) {
	c.skip(name, why, args...)
	if c.Report != nil {
		c.Report(r, short(name), fmt.Sprintf(why, args...))
	}
}

// leaveFor is leave for a file that an error excludes.
func (c *collector) leaveFor(err error, name string) { c.leave(reasonOf(err), name, "%s", gone(err)) }

// callIt reports that an entry is stored under another name.
func (c *collector) callIt(name, as string) {
	c.rename(name, as)
	if c.Report != nil {
		c.Report(NewName, short(name), "stored as "+short(as))
	}
}

func (m *Manifest) skip(name, why string, args ...any) {
	if len(m.Skipped) >= mostListed {
		m.SkippedMore++
		return
	}
	m.Skipped = append(m.Skipped, Skipped{short(name), fmt.Sprintf(why, args...)})
}

func (m *Manifest) rename(name, as string) {
	if len(m.Renamed) >= mostListed {
		m.RenamedMore++
		return
	}
	m.Renamed = append(m.Renamed, Renamed{short(name), short(as)})
}

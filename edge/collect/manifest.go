package collect

import (
	"encoding/hex"
	"fmt"
	"io"
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

	// Extra files come first. Their names are theirs: what has the same name in the directory is stored as name~1.
	Extra []Extra

	// Skip is asked for each file and directory, by its name relative to the directory as it is there; what it wants
	// skipped is not mentioned in the manifest. Nil skips nothing.
	Skip func(name string) bool

	MaxFiles int   // entries of the directory, directories counted too. Defaults to 1,000,000
	MaxBytes int64 // unpacked bytes of files of the directory. Defaults to no limit
}

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

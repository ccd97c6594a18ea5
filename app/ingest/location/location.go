// Package location names and opens storage locations. A location is a directory with an OCFL storage root. One file
// in it identifies the location and to which installation it belongs, so that a directory whose file system is not
// mounted, and the location of another installation, are not written to. OCFL allows plain files beside the declaration
// of the root (OCFL 1.1, section 4).
package location

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
)

// Name is the name of the file.
const Name = "stagepost-location.json"

// Identity is the content of that file.
type Identity struct {
	Location     string     `json:"location"`     // id of the location: random, and never changed
	Installation string     `json:"installation"` // id of the installation that owns it: the only one that writes to it
	Since        time.Time  `json:"since"`        // when the installation got it
	Before       []Previous `json:"before,omitempty"`
}

// Previous is an earlier owner of a location.
type Previous struct {
	Installation string    `json:"installation"` // empty: the location had no file
	Until        time.Time `json:"until"`
	By           string    `json:"by"`   // who gave the location to the next owner
	Note         string    `json:"note"` // why
}

// New makes the identity of a new location.
func New(installation string, at time.Time) Identity {
	return Identity{Location: strings.ToLower(rand.Text()), Installation: installation,
		Since: at.UTC().Truncate(time.Second)}
}

// ErrDamaged: the file cannot be read as an identity.
var ErrDamaged = errors.New("damaged identity file")

const maxSize = 1 << 20

// Read reads the identity of the location in a directory; fs.ErrNotExist if the directory or the file does not exist.
func Read(dir string) (Identity, error) {
	var id Identity
	file := filepath.Join(dir, Name)
	info, err := os.Lstat(file)
	if err != nil {
		return id, err
	}
	if !info.Mode().IsRegular() {
		return id, fmt.Errorf("%w: %s is not a regular file", ErrDamaged, file)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|durable.Plain, 0)
	if err != nil {
		return id, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return id, fmt.Errorf("%w: %s: %w", ErrDamaged, file, err)
	}
	if id.Location == "" || id.Installation == "" {
		return id, fmt.Errorf("%w: %s names no location or no installation", ErrDamaged, file)
	}
	return id, nil
}

// Create writes the identity of a location that has none. When another process was faster, it changes nothing and the
// error is fs.ErrExist. The file is complete and on disk, or it is not there.
func Create(dir string, id Identity) error { return write(dir, id, true) }

// Replace writes the identity of a location in place of the one that it has. A crash leaves the one or the other.
func Replace(dir string, id Identity) error { return write(dir, id, false) }

// write syncs the text under a name that only this installation uses, and then renames it.
func write(dir string, id Identity, create bool) error {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.File{Root: root,
		Name: Name, Temporary: Name + "." + id.Installation + ".part",
		New: create}.Write(durable.Text(append(text, '\n')))
}

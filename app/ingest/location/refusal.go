package location

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/stagepost/stagepost/format/ocfl"
)

// Refusal is the reason why a storage location may not be used, with the remedy.
type Refusal struct {
	Dir      string // as the profile names it
	Sentence string
	Remedy   string
}

func (e *Refusal) Error() string { return e.Sentence + "; " + e.Remedy }

// Usable reads the identity of a storage location and refuses one that an installation may not use; known is its id in
// the inventory. A location without a file that was never used is fs.ErrNotExist.
func Usable(dir, path, known, installation string) (Identity, error) {
	id, err := Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && known == "":
		return id, fmt.Errorf("storage location %s: %w", dir, fs.ErrNotExist)
	case errors.Is(err, fs.ErrNotExist):
		return id, &Refusal{dir,
			fmt.Sprintf("the storage location %s is not mounted: %s is missing in %s", dir, Name, path),
			"mount its file system; if another directory replaces it, run: " + adoptCommand(dir)}
	case errors.Is(err, ErrDamaged):
		return id, &Refusal{dir, err.Error(), "restore the file from a backup, or run: " + adoptCommand(dir)}
	case err != nil:
		return id, err
	}
	return id, checkOwner(dir, known, id, installation)
}

// checkOwner refuses a location that belongs to another installation, or has another id than in the inventory.
func checkOwner(dir, known string, id Identity, installation string) error {
	switch {
	case id.Installation != installation:
		return &Refusal{dir,
			fmt.Sprintf("the storage location %s belongs to another installation (%s; this one is %s)",
				dir, id.Installation, installation),
			"name another directory in the profile; if the other installation must not write there any more, run: " +
				adoptCommand(dir)}
	case known != "" && known != id.Location:
		return &Refusal{dir,
			fmt.Sprintf("the storage location %s has another id (%s) than in the inventory (%s)",
				dir, id.Location, known),
			"mount the right file system; if this one replaces it, run: " + adoptCommand(dir)}
	}
	return nil
}

// adoptCommand is the command by which an operator gives a directory to the installation.
func adoptCommand(dir string) string {
	return fmt.Sprintf("stagepost ingest storage adopt %q --note REASON", dir)
}

// Unnamed refuses a location that was used and has no identity.
func Unnamed(dir string) error {
	return &Refusal{dir,
		fmt.Sprintf("the owner of the storage location %s is unknown: it has been used and has no %s", dir, Name),
		"mount the right file system; if its objects are of this installation, run: " + adoptCommand(dir)}
}

// Adopt makes a directory the storage location of an installation. One that has an id keeps it.
func Adopt(path, installation, actor, note string, at time.Time) error {
	root, err := ocfl.InitRoot(path, ocfl.DefaultLayout())
	if err != nil {
		return err
	}
	if err := root.Close(); err != nil {
		return err
	}
	old, err := Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrDamaged) {
		return err
	}
	if old.Installation == installation {
		return nil
	}
	id := New(installation, at)
	if old.Location != "" {
		id.Location = old.Location
	}
	id.Before = append(old.Before, Previous{Installation: old.Installation, Until: id.Since, By: actor, Note: note})
	return Replace(path, id)
}

package inventory

import (
	"context"
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

// Errors of Open about a file that is not the one that was written last. Each needs another inventory: that of the
// backup which the store is from, or a new one made of what is stored.
var (
	// ErrMissing: there was an inventory, and its file is missing.
	ErrMissing = errors.New("the file is missing, although there was an inventory")
	// ErrEmpty: there was an inventory, and its file is empty.
	ErrEmpty = errors.New("the file is empty, although there was an inventory")
	// ErrOlder: the file lacks what was entered since.
	ErrOlder = errors.New("the file is older than the last one")
	// ErrDamaged: the file cannot be read as an inventory.
	ErrDamaged = errors.New("the file is damaged")
)

// head is the file beside the inventory with the number of its entries. It is written after each commit and never
// synced: it may be behind the inventory, but not ahead of it, since a commit is on disk before it is noted.
type head struct {
	file *os.File

	mu       sync.Mutex // guards the rest
	sequence int64
}

// HeadPath is the name of the file beside an inventory with the number of its entries.
func HeadPath(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".head" }

const headForm = "%s %020d\n"

// readHead reads the file; an incomplete line, as after a loss of power, counts as none.
func readHead(name string) (installation string, sequence int64, there bool, err error) {
	f, err := os.Open(name)
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
	if _, err := fmt.Sscanf(string(text), headForm, &installation, &sequence); err != nil {
		return "", 0, true, nil
	}
	return installation, sequence, true, nil
}

// ReadHead reads the number of entries of the inventory in a file; there is false without that file.
func ReadHead(path string) (installation string, sequence int64, there bool, err error) {
	return readHead(HeadPath(path))
}

// present refuses a file that is missing or empty although there was an inventory.
func present(path string) error {
	_, _, there, err := readHead(HeadPath(path))
	if err != nil || !there {
		return err
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: see %s", ErrMissing, HeadPath(path))
	case err != nil:
		return err
	case info.Size() == 0:
		return fmt.Errorf("%w: see %s", ErrEmpty, HeadPath(path))
	}
	return nil
}

// compareHead refuses an inventory that is behind what was noted, and takes the file over to note what follows.
func (i *Inventory) compareHead(ctx context.Context, path string) error {
	installation, noted, there, err := readHead(HeadPath(path))
	if err != nil {
		return err
	}
	sequence, err := i.sequence(ctx)
	switch {
	case err != nil:
		return err
	case installation != "" && installation != i.installation:
		return fmt.Errorf("it %w (%s; %s names %s)", ErrForeign, i.installation, HeadPath(path), installation)
	case sequence < noted:
		return fmt.Errorf("%w: it has %d entries, and %s names %d", ErrOlder, sequence, HeadPath(path), noted)
	}
	if !there {
		if err := WriteHead(path, i.installation, sequence); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(HeadPath(path), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	i.head = &head{file: f, sequence: noted}
	i.head.note(i.installation, sequence)
	return nil
}

// WriteHead writes the file anew, whole and synced.
func WriteHead(path, installation string, sequence int64) error {
	return durable.Replace(HeadPath(path), fmt.Appendf(nil, headForm, installation, sequence))
}

// note writes how far the inventory came. The line has always the same length. A disk that refuses it leaves the file
// behind, which it may be: what was committed is committed.
func (h *head) note(installation string, sequence int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sequence <= h.sequence {
		return
	}
	if _, err := h.file.WriteAt(fmt.Appendf(nil, headForm, installation, sequence), 0); err == nil {
		h.sequence = sequence
	}
}

// sequence gives how many names and versions were entered.
func (i *Inventory) sequence(ctx context.Context) (n int64, err error) {
	err = i.write.QueryRowContext(ctx, "SELECT sequence FROM meta").Scan(&n)
	return n, err
}

package ocfl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/durable"
)

const (
	rootDeclaration   = "0=ocfl_"
	objectDeclaration = "0=ocfl_object_"
	layoutFile        = "ocfl_layout.json"
	extensionsDir     = "extensions"
	maxSmallFile      = 1 << 20
)

var knownSpecs = []string{"1.0", "1.1"}

// Root is an open storage root. It is safe for concurrent use.
type Root struct {
	dir     *os.Root
	layout  Layout
	spec    string // OCFL version that the root declares
	ops     fileOps
	reorder func([]step) []step // for a test that proves that the order of a promotion matters
}

// OpenRoot opens the storage root in dir. It reads roots of OCFL 1.0 and 1.1; only roots of 1.1 accept new versions.
func OpenRoot(dir string) (*Root, error) {
	d, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open storage root: %w", err)
	}
	r := &Root{dir: d, ops: diskOps{d}}
	if err := r.readDeclaration(); err != nil {
		return nil, errors.Join(fmt.Errorf("open storage root %s: %w", dir, err), d.Close())
	}
	return r, nil
}

func (r *Root) readDeclaration() error {
	for _, spec := range knownSpecs {
		data, err := readLimited(r.dir, rootDeclaration+spec, maxSmallFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if string(data) != "ocfl_"+spec+"\n" {
			return fmt.Errorf("%w: E080 content of %s%s", ErrCorrupt, rootDeclaration, spec)
		}
		r.spec = spec
	}
	if r.spec == "" {
		return fmt.Errorf("%w: no file 0=ocfl_1.1 (E069)", ErrNotFound)
	}
	layout, err := readLayout(r.dir)
	r.layout = layout
	return err
}

// readLayout returns an error for an unsupported layout, in which objects cannot be found.
func readLayout(dir *os.Root) (Layout, error) {
	data, err := readLimited(dir, layoutFile, maxSmallFile)
	if err != nil {
		return Layout{}, fmt.Errorf("layout: %w", err)
	}
	var described struct {
		Extension string `json:"extension"`
	}
	if err := json.Unmarshal(data, &described); err != nil {
		return Layout{}, fmt.Errorf("%w layout: %w", ErrInvalid, err)
	}
	if described.Extension != LayoutExtension {
		return Layout{}, fmt.Errorf("%w layout: extension %q (known: %s)", ErrInvalid, described.Extension,
			LayoutExtension)
	}
	config, err := readLimited(dir, path.Join(extensionsDir, LayoutExtension, "config.json"), maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return DefaultLayout(), nil
	}
	if err != nil {
		return Layout{}, fmt.Errorf("layout: %w", err)
	}
	return parseLayout(config)
}

// InitRoot creates a storage root in dir, or opens one with the same layout. It completes an earlier call that
// crashed, and refuses a directory with other entries. A directory that it creates is accessible to its user only.
func InitRoot(dir string, layout Layout) (*Root, error) {
	if layout == (Layout{}) {
		layout = DefaultLayout()
	}
	layout.ExtensionName = LayoutExtension
	if err := layout.validate(); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("init storage root: %w", err)
	}
	if r, err := OpenRoot(dir); err == nil {
		if r.layout != layout {
			return nil, errors.Join(fmt.Errorf("%w: %s is a storage root with another layout", ErrConflict, dir),
				r.Close())
		}
		return r, nil
	} else if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err := initRoot(dir, layout); err != nil {
		return nil, fmt.Errorf("init storage root %s: %w", dir, err)
	}
	return OpenRoot(dir)
}

// initRoot writes the declaration last: without it the directory is not a storage root yet.
func initRoot(dir string, layout Layout) error {
	d, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	const part = "ocfl_1.1.part"
	entries, err := readDir(d, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains([]string{layoutFile, extensionsDir, part}, e.Name()) {
			return fmt.Errorf("%w: the directory is not empty (%s)", ErrConflict, e.Name())
		}
	}
	ops := diskOps{d}
	config := path.Join(extensionsDir, LayoutExtension)
	if err := mkdirSynced(ops, config); err != nil {
		return err
	}
	described := map[string]string{"extension": LayoutExtension, "description": layoutDescription}
	if err := replaceJSON(ops, path.Join(config, "config.json"), layout); err != nil {
		return err
	}
	if err := replaceJSON(ops, layoutFile, described); err != nil {
		return err
	}
	if err := ops.SyncDir(config); err != nil {
		return err
	}
	if err := ops.RemoveAll(part); err != nil {
		return err
	}
	if err := writeSynced(ops, part, []byte("ocfl_"+specVersion+"\n")); err != nil {
		return err
	}
	if err := ops.Rename(part, rootDeclaration+specVersion); err != nil {
		return err
	}
	return ops.SyncDir(".")
}

func replaceJSON[T Layout | map[string]string](ops fileOps, name string, v T) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := ops.RemoveAll(name); err != nil {
		return err
	}
	return writeSynced(ops, name, append(data, '\n'))
}

// Close closes the directory. Objects that were opened become unreadable.
func (r *Root) Close() error { return r.dir.Close() }

// Ready reads the declaration of the storage root again: an error means that its file system cannot be read now.
func (r *Root) Ready() error {
	again := &Root{dir: r.dir}
	if err := again.readDeclaration(); err != nil {
		return fmt.Errorf("storage root %s: %w", r.dir.Name(), err)
	}
	return nil
}

// Path returns the directory of an object, relative to the root, whether or not the object exists.
func (r *Root) Path(id string) string { return r.layout.Path(id) }

// Layout returns the parameters of Path.
func (r *Root) Layout() Layout { return r.layout }

func validID(id string) error {
	if id == "" || len(id) > 4096 || strings.ContainsAny(id, "\x00\n\r") || strings.ToValidUTF8(id, "") != id {
		return fmt.Errorf("%w object id %q: must be one line of UTF-8", ErrInvalid, id)
	}
	return nil
}

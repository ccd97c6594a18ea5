package ocfl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// Object is a stored object as of the call of Root.Object; it does not show later versions.
type Object struct {
	root *Root
	dir  string
	inv  *Inventory
	home homeState

	mu    sync.Mutex
	index map[*VersionBlock]map[string]string // guarded by mu; logical path -> digest, built on first use
}

// homeState is the state of an object's root directory.
type homeState struct {
	digest       string // of inventory.json, by the object's algorithm
	staleSidecar bool   // the sidecar is that of another version, and the head's own inventory proves inventory.json
}

// StoredFile is one file of a version.
type StoredFile struct {
	Path    string // logical
	Digest  string // as the inventory writes it
	Content string // content path, relative to the object
}

// Object opens the object id, or returns ErrNotFound. It checks the inventory against its sidecar and the rules of
// section 3.5. It does not read content files.
func (r *Root) Object(id string) (*Object, error) {
	if err := validID(id); err != nil {
		return nil, err
	}
	o, err := r.load(r.Path(id))
	if err != nil {
		return nil, fmt.Errorf("object %q: %w", id, err)
	}
	if err := o.checkID(id); err != nil {
		return nil, fmt.Errorf("object %q: %w", id, err)
	}
	return o, nil
}

// Has reports whether the path of the object id exists, complete or not.
func (r *Root) Has(id string) (bool, error) {
	if err := validID(id); err != nil {
		return false, err
	}
	_, err := r.dir.Lstat(r.Path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (o *Object) checkID(id string) error {
	if o.inv.ID != id {
		return fmt.Errorf("%w: directory %s holds the object %q", ErrCorrupt, o.dir, o.inv.ID)
	}
	return nil
}

// load reads and verifies the inventory in dir.
func (r *Root) load(dir string) (*Object, error) {
	raw, err := readLimited(r.dir, path.Join(dir, inventoryFile), maxInventory)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := r.dir.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNotFound
		}
		return nil, fmt.Errorf("%w: E063 no inventory in %s", ErrCorrupt, dir)
	}
	if err != nil {
		return nil, err
	}
	inv, problems := parseInventory(raw)
	for _, p := range problems {
		if strings.HasPrefix(p.Code, "E") {
			return nil, fmt.Errorf("%w: %s", ErrCorrupt, p)
		}
	}
	o := &Object{root: r, dir: dir, inv: inv, home: homeState{digest: digestOf(inv.DigestAlgorithm, raw)}}
	if sidecarProves(r.dir, dir, inv.DigestAlgorithm, o.home.digest) {
		return o, nil
	}
	o.home.staleSidecar = true
	head := path.Join(dir, inv.Head)
	kept, err := readLimited(r.dir, path.Join(head, inventoryFile), maxInventory)
	if err != nil || !bytes.Equal(kept, raw) || !sidecarProves(r.dir, head, inv.DigestAlgorithm, o.home.digest) {
		return nil, fmt.Errorf("%w: E060 the sidecar of %s/%s does not match, and %s has no proof", ErrCorrupt,
			dir, inventoryFile, inv.Head)
	}
	return o, nil
}

// sidecarProves reports whether the sidecar in dir states digest.
func sidecarProves(root *os.Root, dir, algorithm, digest string) bool {
	data, err := readLimited(root, path.Join(dir, sidecarName(algorithm)), maxSmallFile)
	if err != nil {
		return false
	}
	stated, ok := parseSidecar(data)
	return ok && sameDigest(stated, digest)
}

// Inventory returns the object's inventory. The caller must not change it.
func (o *Object) Inventory() *Inventory { return o.inv }

// Head returns the name of the newest version.
func (o *Object) Head() string { return o.inv.Head }

// Versions returns the names of all versions, oldest first.
func (o *Object) Versions() []string { return o.inv.VersionNames() }

// Dir returns the object's directory relative to the storage root.
func (o *Object) Dir() string { return o.dir }

// Files lists the files of a version, sorted by logical path; "" means the head.
func (o *Object) Files(version string) ([]StoredFile, error) {
	block, err := o.block(version)
	if err != nil {
		return nil, err
	}
	files := make([]StoredFile, 0, len(block.State))
	for digest, logical := range block.State {
		content := o.inv.Manifest[digest]
		if len(content) == 0 {
			return nil, fmt.Errorf("object %q: %w: E050 no content for %s", o.inv.ID, ErrCorrupt, digest)
		}
		for _, p := range logical {
			files = append(files, StoredFile{Path: p, Digest: digest, Content: content[0]})
		}
	}
	slices.SortFunc(files, func(a, b StoredFile) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

func (o *Object) block(version string) (*VersionBlock, error) {
	if version == "" {
		version = o.inv.Head
	}
	block, ok := o.inv.Versions[version]
	if !ok {
		return nil, fmt.Errorf("object %q: version %q: %w (head is %s)", o.inv.ID, version, ErrNotFound, o.inv.Head)
	}
	return block, nil
}

// Open streams the file with the given logical path of a version; "" means the head. It does not check the digest;
// VerifyVersion does.
func (o *Object) Open(version, logical string) (io.ReadCloser, error) {
	block, err := o.block(version)
	if err != nil {
		return nil, err
	}
	digest, ok := o.lookup(block, logical)
	if !ok {
		return nil, fmt.Errorf("object %q: file %q: %w", o.inv.ID, logical, ErrNotFound)
	}
	return o.openContent(digest)
}

func (o *Object) lookup(block *VersionBlock, logical string) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	paths, ok := o.index[block]
	if !ok {
		paths = make(map[string]string, len(block.State))
		for digest, names := range block.State {
			for _, name := range names {
				paths[name] = digest
			}
		}
		if o.index == nil {
			o.index = map[*VersionBlock]map[string]string{}
		}
		o.index[block] = paths
	}
	digest, ok := paths[logical]
	return digest, ok
}

func (o *Object) openContent(digest string) (*os.File, error) {
	content := o.inv.Manifest[digest]
	if len(content) == 0 {
		return nil, fmt.Errorf("object %q: %w: E050 no content for %s", o.inv.ID, ErrCorrupt, digest)
	}
	return openRegular(o.root.dir, path.Join(o.dir, content[0]))
}

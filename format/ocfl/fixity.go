package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// FaultKind is the kind of fault of a stored file.
type FaultKind string

// Kinds of faults.
const (
	FaultChanged    FaultKind = "changed"    // its bytes differ
	FaultMissing    FaultKind = "missing"    // the inventory lists it, but it does not exist
	FaultExtra      FaultKind = "extra"      // it exists, but the inventory does not list it
	FaultUnreadable FaultKind = "unreadable" // reading it fails
)

// FileFault is a stored file that differs from its object's inventory.
type FileFault struct {
	Kind      FaultKind
	Path      string // relative to the object
	Algorithm string // of the digests
	Expected  string // digest; empty for an extra file
	Found     string // digest; empty if the file is missing or unreadable
	Detail    string // of an unreadable file: the error
}

// Checked counts the files and bytes that CheckVersion read.
type Checked struct {
	Files int
	Bytes int64
}

// Pace is called after n bytes were read. It may wait. Its error ends the check.
type Pace func(ctx context.Context, n int) error

// CheckVersion reads every file that was stored with a version, once, and compares it with the digests of the
// inventory. Unlike VerifyVersion it does not read content that the version shares with an earlier one. It also finds
// files that the inventory does not list: in the version's directory and, for the head, in the object's. found is
// called for each fault. The error is the context's or that of pace.
func (o *Object) CheckVersion(ctx context.Context, version string, pace Pace, found func(FileFault)) (Checked, error) {
	if _, err := o.block(version); err != nil {
		return Checked{}, err
	}
	c := &fixityCheck{object: o, pace: pace, found: found, buf: make([]byte, copyBuffer)}
	err := c.version(ctx, version)
	return c.done, err
}

type fixityCheck struct {
	object *Object
	pace   Pace
	found  func(FileFault)
	buf    []byte
	done   Checked
}

func (c *fixityCheck) version(ctx context.Context, version string) error {
	o := c.object
	onDisk := c.walk(version)
	fixity := fixityByPath(o.inv)
	want := map[string][]stated{}
	for digest, paths := range o.inv.Manifest {
		for _, p := range paths {
			if strings.HasPrefix(p, version+"/") {
				want[p] = append([]stated{{o.inv.DigestAlgorithm, digest}}, fixity[p]...)
			}
		}
	}
	c.versionInventory(version, onDisk, want)
	names := make([]string, 0, len(want))
	for p := range want {
		names = append(names, p)
	}
	slices.Sort(names)
	for _, p := range names {
		delete(onDisk, p)
		if err := c.file(ctx, p, want[p]); err != nil {
			return err
		}
	}
	extra := make([]string, 0, len(onDisk))
	for p := range onDisk {
		extra = append(extra, p)
	}
	if version == o.inv.Head {
		extra = append(extra, c.strangers()...)
	}
	slices.Sort(extra)
	for _, p := range extra {
		c.found(FileFault{Kind: FaultExtra, Path: p})
	}
	return nil
}

// walk lists all entries below a version's directory that are not directories. An entry that cannot be listed is
// unreadable; a missing directory has no entries.
func (c *fixityCheck) walk(dir string) map[string]bool {
	all := map[string]bool{}
	entries, err := readDir(c.object.root.dir, path.Join(c.object.dir, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.found(FileFault{Kind: FaultUnreadable, Path: dir, Detail: err.Error()})
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if !e.IsDir() {
			all[name] = true
			continue
		}
		for below := range c.walk(name) {
			all[below] = true
		}
	}
	return all
}

// versionInventory adds the version's copy of the inventory to the expected files; its sidecar has the digest. A
// version may omit the copy (section 3.1), but has both files or neither.
func (c *fixityCheck) versionInventory(version string, onDisk map[string]bool, want map[string][]stated) {
	o := c.object
	inventory := path.Join(version, inventoryFile)
	algorithm := o.inv.DigestAlgorithm
	for name := range onDisk { // an earlier version may have used another algorithm
		if a, ok := strings.CutPrefix(name, inventory+"."); ok && newHash(a) != nil {
			algorithm = a
		}
	}
	sidecar := path.Join(version, sidecarName(algorithm))
	if !onDisk[inventory] && !onDisk[sidecar] {
		return
	}
	delete(onDisk, sidecar)
	data, err := readLimited(o.root.dir, path.Join(o.dir, sidecar), maxSmallFile)
	digest, ok := parseSidecar(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.found(FileFault{Kind: FaultMissing, Path: sidecar})
	case err != nil:
		c.found(FileFault{Kind: FaultUnreadable, Path: sidecar, Detail: err.Error()})
	case !ok:
		c.found(FileFault{Kind: FaultChanged, Path: sidecar})
	default:
		want[inventory] = []stated{{algorithm, digest}}
		return
	}
	delete(onDisk, inventory)
}

// strangers lists the unexpected entries of an object's directory. It skips directories of versions: a new one
// appears before the inventory that lists it.
func (c *fixityCheck) strangers() (all []string) {
	o := c.object
	entries, err := readDir(o.root.dir, o.dir)
	if err != nil {
		c.found(FileFault{Kind: FaultUnreadable, Path: ".", Detail: err.Error()})
	}
	for _, e := range entries {
		name := e.Name()
		_, version := parseVersionName(name)
		switch {
		case e.IsDir() && (version || name == extensionsDir || name == "logs"):
		case e.Type().IsRegular() &&
			(name == inventoryFile || name == sidecarName(o.inv.DigestAlgorithm) ||
				strings.HasPrefix(name, objectDeclaration)):
		default:
			all = append(all, name)
		}
	}
	return all
}

// file reads a file and compares it with all its stated digests.
func (c *fixityCheck) file(ctx context.Context, name string, want []stated) error {
	fault := FileFault{Kind: FaultChanged, Path: name, Algorithm: want[0].algorithm,
		Expected: strings.ToLower(want[0].digest)}
	f, err := openRegular(c.object.root.dir, path.Join(c.object.dir, name))
	if err != nil {
		if fault.Kind, fault.Detail = FaultUnreadable, err.Error(); errors.Is(err, fs.ErrNotExist) {
			fault.Kind, fault.Detail = FaultMissing, ""
		}
		c.found(fault)
		return ctx.Err()
	}
	defer f.Close()
	algorithms := make([]string, len(want))
	for i, w := range want {
		algorithms[i] = w.algorithm
	}
	sums := newSums(algorithms...)
	var paced error
	n, err := copyContext(ctx, sums, pacedReader{f, func(n int) error {
		paced = c.pace(ctx, n)
		return paced
	}}, c.buf)
	c.done.Bytes += n
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case paced != nil:
		return paced
	case err != nil:
		fault.Kind, fault.Detail = FaultUnreadable, err.Error()
		c.found(fault)
		return nil
	}
	c.done.Files++
	for _, w := range want {
		if sum := sums.hex(w.algorithm); !sameDigest(sum, w.digest) {
			fault.Algorithm, fault.Expected, fault.Found = w.algorithm, strings.ToLower(w.digest), sum
			c.found(fault)
			break
		}
	}
	return nil
}

// pacedReader calls a Pace after each read.
type pacedReader struct {
	file io.Reader
	pace func(n int) error
}

func (r pacedReader) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	if n > 0 && (err == nil || errors.Is(err, io.EOF)) {
		if err := r.pace(n); err != nil {
			return n, err
		}
	}
	return n, err
}

// String describes the fault in one line.
func (f FileFault) String() string {
	switch f.Kind {
	case FaultChanged:
		return fmt.Sprintf("changed: %s is %s, not %s", f.Algorithm, f.Found, f.Expected)
	case FaultUnreadable:
		return "unreadable: " + f.Detail
	}
	return string(f.Kind)
}

package ocfl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// objectCheck validates one object: its root directory here, its versions in validate_version.go.
type objectCheck struct {
	root     *os.Root
	dir      string
	rootSpec string // the version of OCFL that the storage root declares
	spec     string // the version that the object declares
	report   *Report
	buf      []byte

	raw   []byte // root inventory
	inv   *Inventory
	names []string // version directories on disk
	want  map[string][]expected
	seen  map[string]bool // content files on disk
	last  string          // type of the inventory in the previous version directory
}

// expected is the statement of an inventory about a content file, and the code to report for a violation.
type expected struct {
	stated
	code string
	from string // inventory
}

// checkObject returns the object's id, or "" if it has none. The error is the context's.
func checkObject(ctx context.Context, root *os.Root, dir, rootSpec string, report *Report, buf []byte) (string, error) {
	c := &objectCheck{root: root, dir: dir, rootSpec: rootSpec, report: report, buf: buf,
		want: map[string][]expected{}, seen: map[string]bool{}}
	report.Objects++
	entries, err := readDir(root, dir)
	if err != nil {
		c.found("E001", "", "cannot be read: %v", err)
		return "", nil
	}
	c.declaration(entries)
	if c.readInventory() {
		c.entries(entries)
		c.content()
		for _, version := range c.inv.VersionNames() {
			c.version(version)
		}
		if err := c.digests(ctx); err != nil {
			return c.inv.ID, err
		}
	}
	if c.inv == nil {
		return "", nil
	}
	return c.inv.ID, nil
}

func (c *objectCheck) found(code, name, format string, args ...any) {
	c.report.add(Problem{Code: code, Object: c.dir, Path: name, Detail: detail(format, args...)})
}

func (c *objectCheck) path(elements ...string) string {
	return path.Join(append([]string{c.dir}, elements...)...)
}

func (c *objectCheck) declaration(entries []fs.DirEntry) {
	names := objectDeclarations.names(entries)
	if len(names) != 1 {
		c.found("E003", "", "%d declarations, not one", len(names))
	}
	read := func(name string) ([]byte, error) { return readLimited(c.root, c.path(name), maxSmallFile) }
	c.spec = cmp.Or(objectDeclarations.check(names, read, c.found), specVersion)
	if c.spec > c.rootSpec {
		c.found("E081", "", "object of OCFL %s in a storage root of %s", c.spec, c.rootSpec)
	}
}

// readInventory reports whether the object has an inventory that the other checks can use.
func (c *objectCheck) readInventory() bool {
	raw, err := readLimited(c.root, c.path(inventoryFile), maxInventory)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.found("E033", inventoryFile, "cannot be read: %v", err)
		} else {
			c.found("E063", inventoryFile, "no inventory")
			c.found("E034", inventoryFile, "no file of that name")
		}
		return false
	}
	inv, problems := parseInventory(raw)
	c.addAll("", problems)
	if inv == nil {
		return false
	}
	c.raw, c.inv = raw, inv
	if inv.Type != "" && inv.Type != inventoryType(c.spec) {
		c.found("E038", inventoryFile, "type %q in an object of OCFL %s", inv.Type, c.spec)
	}
	c.sidecar("", inv, raw)
	c.expect(inventoryFile, inv)
	return true
}

func (c *objectCheck) addAll(version string, problems []Problem) {
	for _, p := range problems {
		p.Object, p.Path = c.dir, path.Join(version, p.Path)
		c.report.add(p)
	}
}

// sidecar checks the digest file of the inventory in the object root ("") or in a version directory.
func (c *objectCheck) sidecar(version string, inv *Inventory, raw []byte) {
	if inv.DigestAlgorithm == "" {
		return // the name of the sidecar is unknown; E025 or E036 was reported
	}
	name := path.Join(version, sidecarName(inv.DigestAlgorithm))
	data, err := readLimited(c.root, c.path(name), maxSmallFile)
	if err != nil {
		c.found("E058", name, "no sidecar: %v", err)
		return
	}
	digest, ok := parseSidecar(data)
	switch {
	case !ok || !validDigest(inv.DigestAlgorithm, digest):
		c.found("E061", name, "form is not DIGEST inventory.json")
	case !sameDigest(digest, digestOf(inv.DigestAlgorithm, raw)):
		c.found("E060", name, "is not the digest of the inventory")
	}
}

// entries checks the names in the object's root directory.
func (c *objectCheck) entries(entries []fs.DirEntry) {
	onDisk := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		_, isVersion := parseVersionName(name)
		switch {
		case !e.IsDir() && !e.Type().IsRegular():
			c.found("E090", name, "is neither a file nor a directory")
		case e.IsDir() && name == extensionsDir:
			c.extensions()
		case e.IsDir() && name == "logs":
		case e.IsDir() && isVersion:
			onDisk[name] = true
			if _, ok := c.inv.Versions[name]; !ok {
				c.found("E046", name, "version directory that the inventory does not list")
				c.found("E001", name, "version directory that the inventory does not list")
			}
		case e.IsDir():
			c.found("E001", name, "unexpected directory")
		case name == inventoryFile || strings.Contains(name, "=ocfl_object") || strings.HasPrefix(name, "0="):
		case name == sidecarName(c.inv.DigestAlgorithm):
		default:
			c.found("E001", name, "unexpected file")
		}
	}
	for _, version := range c.inv.VersionNames() {
		if onDisk[version] {
			c.names = append(c.names, version)
		} else {
			c.found("E010", version, "version directory is missing")
			c.found("E046", version, "version directory is missing")
		}
	}
}

func (c *objectCheck) extensions() {
	entries, err := readDir(c.root, c.path(extensionsDir))
	if err != nil {
		c.found("E067", extensionsDir, "cannot be read: %v", err)
	}
	for _, e := range entries {
		name := path.Join(extensionsDir, e.Name())
		if !e.IsDir() {
			c.found("E067", name, "is not a directory")
		} else if !slices.Contains(registeredExtensions, e.Name()) {
			c.found("W013", name, "is not the name of a registered extension")
		}
	}
}

// expect records what an inventory states about content files; digests checks it.
func (c *objectCheck) expect(from string, inv *Inventory) {
	add := func(code, algorithm, digest string, paths []string) {
		for _, p := range paths {
			if checkPath(p) != pathFine {
				continue
			}
			e := expected{stated{algorithm, strings.ToLower(digest)}, code, from}
			if !slices.ContainsFunc(c.want[p], func(o expected) bool { return o.stated == e.stated }) {
				c.want[p] = append(c.want[p], e)
			}
		}
	}
	if inv.DigestAlgorithm != "" {
		for digest, paths := range inv.Manifest {
			add("E092", inv.DigestAlgorithm, digest, paths)
		}
	}
	for algorithm, block := range inv.Fixity {
		if newHash(algorithm) == nil {
			continue // section 3.4: algorithms that a client does not support are ignored
		}
		for digest, paths := range block {
			add("E093", algorithm, digest, paths)
		}
	}
}

// digests reads every content file once and compares it with all its stated digests.
func (c *objectCheck) digests(ctx context.Context) error {
	paths := make([]string, 0, len(c.want))
	for p := range c.want {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !c.seen[p] {
			c.found("E092", p, "content file is missing")
			c.found("E023", p, "content file is missing")
			continue
		}
		if err := c.compare(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *objectCheck) compare(ctx context.Context, p string) error {
	f, err := openRegular(c.root, c.path(p))
	if err != nil {
		c.found("E092", p, "cannot be read: %v", err)
		return nil
	}
	defer f.Close()
	algorithms := make([]string, 0, 2)
	for _, e := range c.want[p] {
		algorithms = append(algorithms, e.algorithm)
	}
	got := newSums(algorithms...)
	n, err := copyContext(ctx, got, f, c.buf)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.found("E092", p, "cannot be read: %v", err)
		return nil
	}
	c.report.Files++
	c.report.Bytes += n
	for _, e := range c.want[p] {
		if sum := got.hex(e.algorithm); sum != e.digest {
			c.found(e.code, p, "%s is %s, but %s states %s", e.algorithm, sum, e.from, e.digest)
		}
	}
	return nil
}

// sameInventory reports whether a version's inventory equals that of the object root, byte by byte (E064).
func (c *objectCheck) sameInventory(raw []byte) bool { return bytes.Equal(raw, c.raw) }

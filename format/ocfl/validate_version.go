package ocfl

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// version checks one version directory except its content.
func (c *objectCheck) version(name string) {
	if !slices.Contains(c.names, name) {
		return
	}
	entries, err := readDir(c.root, c.path(name))
	if err != nil {
		c.found("E046", name, "cannot be read: %v", err)
		return
	}
	inv := c.versionInventory(name)
	sidecar := sidecarName(c.inv.DigestAlgorithm)
	if inv != nil && inv.DigestAlgorithm != "" {
		sidecar = sidecarName(inv.DigestAlgorithm)
	}
	hasContent := false
	for _, e := range entries {
		at := path.Join(name, e.Name())
		switch {
		case e.IsDir() && e.Name() == c.inv.contentDir():
			hasContent = true
		case e.IsDir():
			c.found("W002", at, "directory that is not the content directory")
		case !e.Type().IsRegular():
			c.found("E090", at, "is neither a file nor a directory")
		case e.Name() == inventoryFile:
		case e.Name() == sidecar && inv != nil:
		default:
			c.found("E015", at, "unexpected file")
		}
	}
	if !hasContent && c.manifestHas(name) {
		c.found("E016", name, "no content directory, but the manifest lists files in it")
	}
}

func (c *objectCheck) manifestHas(version string) bool {
	for p := range c.want {
		if strings.HasPrefix(p, version+"/") {
			return true
		}
	}
	return false
}

// versionInventory checks the inventory in a version directory; nil if there is no readable one.
func (c *objectCheck) versionInventory(name string) *Inventory {
	at := path.Join(name, inventoryFile)
	raw, err := readLimited(c.root, c.path(at), maxInventory)
	if errors.Is(err, fs.ErrNotExist) {
		c.found("W010", at, "no inventory in the version directory")
		return nil
	}
	if err != nil {
		c.found("E033", at, "cannot be read: %v", err)
		return nil
	}
	if name == c.inv.Head && c.sameInventory(raw) {
		c.sidecar(name, c.inv, raw) // its content was checked with the root's
		c.specAt(name, c.inv)
		return c.inv
	}
	inv, problems := parseInventory(raw)
	c.addAll(name, problems)
	if inv == nil {
		return nil
	}
	if name == c.inv.Head {
		c.found("E064", at, "is not the same as the inventory of the object root")
	}
	c.sidecar(name, inv, raw)
	c.specAt(name, inv)
	c.prior(name, inv)
	c.priorManifest(name, inv)
	c.expect(at, inv)
	return inv
}

// specAt checks that the version of OCFL never decreases from one version directory to the next, and never exceeds
// the object's.
func (c *objectCheck) specAt(name string, inv *Inventory) {
	if inv.Type == "" {
		return
	}
	if inv.Type > inventoryType(c.spec) {
		c.found("E103", path.Join(name, inventoryFile), "type %q is newer than the object's OCFL %s", inv.Type, c.spec)
	}
	if inv.Type < c.last {
		c.found("E103", path.Join(name, inventoryFile), "type %q after %q in the version before", inv.Type, c.last)
	}
	c.last = inv.Type
}

// prior checks the inventory of a version directory against that of the object root.
func (c *objectCheck) prior(name string, inv *Inventory) {
	at := path.Join(name, inventoryFile)
	if inv.ID != c.inv.ID {
		c.found("E110", at, "id %q, but the object root states %q", inv.ID, c.inv.ID)
		c.found("E037", at, "id %q, but the object root states %q", inv.ID, c.inv.ID)
	}
	if inv.Head != name {
		c.found("E040", at, "head %q in version directory %s", inv.Head, name)
	}
	n, _ := parseVersionName(name)
	switch {
	case n == 1 && inv.ContentDirectory == "" && c.inv.ContentDirectory != "":
		c.found("E019", at, "no contentDirectory, but the object root states %q", c.inv.ContentDirectory)
	case inv.contentDir() != c.inv.contentDir():
		c.found("E020", at, "contentDirectory %q, but the object root states %q", inv.contentDir(),
			c.inv.contentDir())
	}
	for version, block := range inv.Versions {
		current, ok := c.inv.Versions[version]
		if !ok {
			c.found("E066", at, "%s is not in the inventory of the object root", version)
			continue
		}
		if !c.sameState(inv, block, current) {
			c.found("E066", at, "state of %s differs from that in the object root", version)
		}
		if !sameNote(block, current) {
			c.found("W011", at, "created, message or user of %s differs from that in the object root", version)
		}
	}
}

func sameNote(a, b *VersionBlock) bool {
	return a.Created == b.Created && a.Message == b.Message && (a.User == nil) == (b.User == nil) &&
		(a.User == nil || *a.User == *b.User)
}

// sameState compares logical paths and, since the algorithms may differ, the content paths of their digests.
func (c *objectCheck) sameState(inv *Inventory, block, current *VersionBlock) bool {
	now := map[string]string{}
	for digest, paths := range current.State {
		for _, p := range paths {
			now[p] = digest
		}
	}
	count := 0
	for digest, paths := range block.State {
		for _, p := range paths {
			count++
			other, ok := now[p]
			if !ok {
				return false
			}
			if inv.DigestAlgorithm == c.inv.DigestAlgorithm {
				if !sameDigest(other, digest) {
					return false
				}
				continue
			}
			if !slices.ContainsFunc(inv.Manifest[digest], func(content string) bool {
				return slices.Contains(c.inv.Manifest[other], content)
			}) {
				return false
			}
		}
	}
	return count == len(now)
}

// content walks the content directories and checks their files against the manifests.
func (c *objectCheck) content() {
	inRoot := map[string]bool{}
	for _, paths := range c.inv.Manifest {
		for _, p := range paths {
			inRoot[p] = true
		}
	}
	for _, version := range c.names {
		dir := path.Join(version, c.inv.contentDir())
		if info, err := c.root.Lstat(c.path(dir)); err != nil || !info.IsDir() {
			continue
		}
		if entries, err := readDir(c.root, c.path(dir)); err == nil && len(entries) == 0 {
			c.found("W003", dir, "empty content directory")
			continue
		}
		c.contentDir(dir, inRoot)
	}
}

func (c *objectCheck) contentDir(dir string, inRoot map[string]bool) {
	entries, err := readDir(c.root, c.path(dir))
	if err != nil {
		c.found("E023", dir, "cannot be read: %v", err)
		return
	}
	if len(entries) == 0 {
		c.found("E024", dir, "empty directory")
	}
	for _, e := range entries {
		at := dir + "/" + e.Name()
		switch {
		case e.IsDir():
			c.contentDir(at, inRoot)
		case !e.Type().IsRegular():
			c.found("E090", at, "is neither a file nor a directory")
		default:
			c.seen[at] = true
			if !inRoot[at] {
				c.found("E023", at, "file that the manifest does not list")
			}
		}
	}
}

// priorManifest checks that the inventory of a version lists all files that existed at its time.
func (c *objectCheck) priorManifest(name string, inv *Inventory) {
	known := map[string]bool{}
	for _, paths := range inv.Manifest {
		for _, p := range paths {
			known[p] = true
		}
	}
	for p := range c.seen {
		of, _, _ := strings.Cut(p, "/")
		if _, ok := inv.Versions[of]; ok && !known[p] {
			c.found("E023", path.Join(name, inventoryFile), "manifest does not list %s", p)
		}
	}
}

package ocfl

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

// inventoryCheck parses one inventory and checks it by section 3.5 of OCFL 1.1. It reads no other file.
type inventoryCheck struct {
	doc      document
	inv      *Inventory
	problems []Problem
}

// parseInventory returns the inventory and its problems. The inventory is nil if the bytes are not a JSON object;
// with problems of kind E it may be incomplete.
func parseInventory(data []byte) (*Inventory, []Problem) {
	c := &inventoryCheck{}
	doc, err := parseDocument(data)
	if err != nil {
		c.found("E033", "inventory is not JSON: %v", err)
		return nil, c.problems
	}
	if doc.kind != jsonObject {
		c.found("E033", "inventory is not a JSON object")
		return nil, c.problems
	}
	c.doc, c.inv = doc, newInventory("")
	c.keys(doc, "inventory", "id", "type", "digestAlgorithm", "head", "contentDirectory", "manifest", "versions",
		"fixity")
	c.header()
	c.contentDirectory()
	c.manifest()
	c.versions()
	c.head()
	c.contentPaths()
	c.usedDigests()
	c.fixity()
	return c.inv, c.problems
}

func (c *inventoryCheck) found(code, format string, args ...any) {
	c.problems = append(c.problems, Problem{Code: code, Path: inventoryFile, Detail: detail(format, args...)})
}

func (c *inventoryCheck) keys(d document, where string, allowed ...string) {
	seen := map[string]bool{}
	for _, m := range d.members {
		if !slices.Contains(allowed, m.key) {
			c.found("E102", "%s has the key %q, which is not specified", where, m.key)
		} else if seen[m.key] {
			c.found("E033", "%s has the key %q twice", where, m.key)
		}
		seen[m.key] = true
	}
}

func (c *inventoryCheck) header() {
	if v, ok := c.doc.get("id"); !ok {
		c.found("E036", "no id")
	} else if v.kind != jsonString || v.text == "" {
		c.found("E037", "id is not a string with content")
	} else {
		c.inv.ID = v.text
		if u, err := url.Parse(v.text); err != nil || u.Scheme == "" {
			c.found("W005", "id %q is not a URI", v.text)
		}
	}
	c.inv.Type = ""
	if v, ok := c.doc.get("type"); !ok {
		c.found("E036", "no type")
	} else if c.inv.Type = v.text; !slices.ContainsFunc(knownSpecs,
		func(s string) bool { return inventoryType(s) == v.text }) {
		c.found("E038", "type %q", v.text)
	}
	c.inv.DigestAlgorithm = ""
	v, ok := c.doc.get("digestAlgorithm")
	switch {
	case !ok:
		c.found("E036", "no digestAlgorithm")
	case v.text != SHA512 && v.text != SHA256:
		c.found("E025", "digestAlgorithm %q", v.text)
	default:
		c.inv.DigestAlgorithm = v.text
		if v.text == SHA256 {
			c.found("W004", "digestAlgorithm is sha256")
		}
	}
}

func (c *inventoryCheck) contentDirectory() {
	v, ok := c.doc.get("contentDirectory")
	switch {
	case !ok:
	case v.kind != jsonString || v.text == "":
		c.found("E021", "contentDirectory is not a string with content")
	case strings.Contains(v.text, "/"):
		c.found("E017", "contentDirectory %q has a slash", v.text)
		c.found("E108", "contentDirectory %q is not a direct child of the version directory", v.text)
	case v.text == "." || v.text == "..":
		c.found("E018", "contentDirectory %q", v.text)
	default:
		c.inv.ContentDirectory = v.text
	}
}

func (c *inventoryCheck) manifest() {
	v, ok := c.doc.get("manifest")
	if !ok {
		c.found("E041", "no manifest")
		return
	}
	if v.kind != jsonObject {
		c.found("E106", "manifest is not a JSON object")
		return
	}
	seen := make(map[string]bool, len(v.members))
	for _, m := range v.members {
		if c.inv.DigestAlgorithm != "" && !validDigest(c.inv.DigestAlgorithm, m.key) {
			c.found("E025", "manifest key %q is not a %s digest", m.key, c.inv.DigestAlgorithm)
		}
		if lower := strings.ToLower(m.key); seen[lower] {
			c.found("E096", "manifest has the digest %s more than once", m.key)
		} else {
			seen[lower] = true
		}
		paths, ok := m.value.strings()
		if !ok {
			c.found("E092", "manifest value of %s is not an array of strings", m.key)
			continue
		}
		c.inv.Manifest[m.key] = append(c.inv.Manifest[m.key], paths...)
	}
}

func (c *inventoryCheck) contentPaths() {
	set := newPathSet(len(c.inv.Manifest))
	for _, paths := range c.inv.Manifest {
		for _, p := range paths {
			if !c.contentPath(p) {
				continue
			}
			c.contentPosition(p)
			if conflict := set.add(p); conflict != "" {
				c.found("E101", "content path %s", conflict)
			}
		}
	}
}

// contentPath checks the form of a content path, in the manifest or in the fixity block, and reports whether it is
// valid.
func (c *inventoryCheck) contentPath(p string) bool {
	faults := pathFaults(p)
	for _, fault := range faults {
		switch fault {
		case pathEdge:
			c.found("E100", "content path %q begins or ends with a slash", p)
		case pathDots:
			c.found("E099", "content path %q has an element that is empty, \".\" or \"..\"", p)
		case pathLong:
			c.found("E098", "content path of %d bytes", len(p))
		}
	}
	return len(faults) == 0
}

// contentPosition checks that a content path is in the content directory of a version of this inventory.
func (c *inventoryCheck) contentPosition(p string) {
	version, rest, _ := strings.Cut(p, "/")
	dir, name, _ := strings.Cut(rest, "/")
	if _, ok := c.inv.Versions[version]; !ok || dir != c.inv.contentDir() || name == "" {
		c.found("E042", "content path %q is not in the content directory of a version", p)
	}
}

func (c *inventoryCheck) versions() {
	v, ok := c.doc.get("versions")
	if !ok {
		c.found("E043", "no versions")
		c.found("E041", "no versions")
		return
	}
	if v.kind != jsonObject {
		c.found("E044", "versions is not a JSON object")
		return
	}
	if len(v.members) == 0 {
		c.found("E008", "no version")
		return
	}
	for _, m := range v.members {
		if _, twice := c.inv.Versions[m.key]; twice {
			c.found("E033", "versions has the key %q twice", m.key)
		}
		if _, ok := parseVersionName(m.key); !ok {
			c.versionName(m.key)
			continue
		}
		c.inv.Versions[m.key] = c.version(m.key, m.value)
	}
	c.sequence()
}

func (c *inventoryCheck) versionName(name string) {
	code := "E105"
	if !strings.HasPrefix(name, "v") {
		code = "E104"
	}
	c.found(code, "version name %q", name)
	c.found("E046", "version name %q cannot be the name of a version directory", name)
}

// sequence checks that the versions are 1, 2, 3 ... in one style of numbering.
func (c *inventoryCheck) sequence() {
	names := c.inv.VersionNames()
	if len(names) == 0 {
		return
	}
	first := names[0]
	padded := first[1] == '0'
	if padded {
		c.found("W001", "version names are zero-padded")
	}
	for i, name := range names {
		n, _ := parseVersionName(name)
		switch {
		case padded && len(name) == len(first) && name[1] != '0':
			c.found("E011", "version name %s has no leading zero as %s has", name, first)
			c.found("E013", "version name %s does not follow the convention of %s", name, first)
		case padded != (name[1] == '0') || (padded && len(name) != len(first)):
			c.found("E012", "version name %s is not of the style of %s", name, first)
			c.found("E013", "version name %s does not follow the convention of %s", name, first)
		case n != i+1 && i == 0:
			c.found("E009", "the first version is %s", name)
		case n != i+1:
			c.found("E010", "version %d is missing or occurs twice", i+1)
		default:
			continue
		}
		return
	}
}

func (c *inventoryCheck) head() {
	v, ok := c.doc.get("head")
	if !ok {
		c.found("E036", "no head")
		return
	}
	c.inv.Head = v.text
	names := c.inv.VersionNames()
	if v.kind != jsonString || len(names) == 0 || names[len(names)-1] != v.text {
		c.found("E040", "head %q is not the highest version", v.text)
	}
}

func (c *inventoryCheck) version(name string, v document) *VersionBlock {
	block := &VersionBlock{State: map[string][]string{}}
	if v.kind != jsonObject {
		c.found("E047", "%s is not a JSON object", name)
		return block
	}
	c.keys(v, name, "created", "state", "message", "user")
	if created, ok := v.get("created"); !ok {
		c.found("E048", "%s has no created", name)
	} else if block.Created = created.text; created.kind != jsonString || !validCreated(created.text) {
		c.found("E049", "%s: created %q is not an RFC 3339 time", name, created.text)
	}
	if message, ok := v.get("message"); !ok {
		c.found("W007", "%s has no message", name)
	} else if block.Message = message.text; message.kind != jsonString {
		c.found("E094", "%s: message is not a string", name)
	}
	if user, ok := v.get("user"); !ok {
		c.found("W007", "%s has no user", name)
	} else {
		block.User = c.user(name, user)
	}
	if state, ok := v.get("state"); !ok {
		c.found("E048", "%s has no state", name)
	} else {
		block.State = c.state(name, state)
	}
	return block
}

// validCreated is stricter than time.Parse, which accepts a comma before the fraction and one digit for the hour.
func validCreated(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil && len(s) >= len("2006-01-02T15:04:05Z") && s[13] == ':' && !strings.Contains(s, ",")
}

func (c *inventoryCheck) user(version string, v document) *User {
	name, ok := v.get("name")
	if v.kind != jsonObject || !ok || name.kind != jsonString || name.text == "" {
		c.found("E054", "%s: user has no name", version)
		return nil
	}
	c.keys(v, version+" user", "name", "address")
	u := &User{Name: name.text}
	address, ok := v.get("address")
	switch {
	case !ok:
		c.found("W008", "%s: user has no address", version)
	case address.kind != jsonString:
		c.found("E054", "%s: address is not a string", version)
	default:
		u.Address = address.text
		if p, err := url.Parse(address.text); err != nil || p.Scheme == "" {
			c.found("W009", "%s: address %q is not a URI", version, address.text)
		}
	}
	return u
}

func (c *inventoryCheck) state(version string, v document) map[string][]string {
	state := make(map[string][]string, len(v.members))
	if v.kind != jsonObject {
		c.found("E050", "%s: state is not a JSON object", version)
		return state
	}
	set, seen := newPathSet(len(v.members)), make(map[string]bool, len(v.members))
	for _, m := range v.members {
		if _, ok := c.inv.Manifest[m.key]; !ok {
			c.found("E050", "%s: digest %s is not in the manifest", version, m.key)
		}
		if lower := strings.ToLower(m.key); seen[lower] {
			c.found("E050", "%s: state has the digest %s more than once", version, m.key)
		} else {
			seen[lower] = true
		}
		paths, ok := m.value.strings()
		if !ok {
			c.found("E051", "%s: state value of %s is not an array of strings", version, m.key)
			continue
		}
		for _, p := range paths {
			c.logicalPath(version, p, set)
		}
		state[m.key] = append(state[m.key], paths...)
	}
	return state
}

func (c *inventoryCheck) logicalPath(version, p string, set *pathSet) {
	faults := pathFaults(p)
	for _, fault := range faults {
		switch fault {
		case pathEdge:
			c.found("E053", "%s: logical path %q begins or ends with a slash", version, p)
		case pathDots:
			c.found("E052", "%s: logical path %q has an element that is empty, \".\" or \"..\"", version, p)
		case pathLong:
			c.found("E051", "%s: logical path of %d bytes", version, len(p))
		}
	}
	if len(faults) > 0 {
		return
	}
	if conflict := set.add(p); conflict != "" {
		c.found("E095", "%s: logical path %s", version, conflict)
	}
}

// usedDigests checks that each digest of the manifest occurs in a state (section 3.5.2; E107 since 1.1).
func (c *inventoryCheck) usedDigests() {
	used := make(map[string]bool, len(c.inv.Manifest))
	for _, block := range c.inv.Versions {
		for digest := range block.State {
			used[digest] = true
		}
	}
	for digest := range c.inv.Manifest {
		if !used[digest] {
			c.found("E107", "manifest digest %s is in no state", digest)
		}
	}
}

func (c *inventoryCheck) fixity() {
	v, ok := c.doc.get("fixity")
	if !ok {
		return
	}
	if v.kind != jsonObject {
		c.found("E111", "fixity is not a JSON object")
		return
	}
	stored := make(map[string]bool, len(c.inv.Manifest))
	for _, paths := range c.inv.Manifest {
		for _, p := range paths {
			stored[p] = true
		}
	}
	for _, m := range v.members {
		if !knownFixity(m.key) {
			c.found("E056", "fixity algorithm %q", m.key)
		}
		if m.value.kind != jsonObject {
			c.found("E057", "fixity block of %s is not a JSON object", m.key)
			continue
		}
		c.inv.Fixity[m.key] = c.fixityBlock(m.key, m.value, stored)
	}
}

func (c *inventoryCheck) fixityBlock(algorithm string, v document, stored map[string]bool) map[string][]string {
	block, seen := make(map[string][]string, len(v.members)), make(map[string]bool, len(v.members))
	for _, m := range v.members {
		if newHash(algorithm) != nil && !validDigest(algorithm, m.key) {
			c.found("E057", "fixity key %q is not a %s digest", m.key, algorithm)
		}
		if lower := strings.ToLower(m.key); seen[lower] {
			c.found("E097", "fixity block of %s has the digest %s more than once", algorithm, m.key)
		} else {
			seen[lower] = true
		}
		paths, ok := m.value.strings()
		if !ok {
			c.found("E057", "fixity value of %s is not an array of strings", m.key)
			continue
		}
		for _, p := range paths {
			if c.contentPath(p) && !stored[p] {
				c.found("E093", "fixity path %q is not in the manifest", p)
			}
		}
		block[m.key] = append(block[m.key], paths...)
	}
	return block
}

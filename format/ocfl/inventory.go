package ocfl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	inventoryFile  = "inventory.json"
	defaultContent = "content"
	specVersion    = "1.1"

	// maxInventory bounds the size of an inventory, which is enough for about a million files.
	maxInventory = 512 << 20
)

func inventoryType(spec string) string { return "https://ocfl.io/" + spec + "/spec/#inventory" }

// Inventory is the content of an inventory.json (OCFL 1.1 section 3.5).
type Inventory struct {
	ID               string                         `json:"id"`
	Type             string                         `json:"type"`
	DigestAlgorithm  string                         `json:"digestAlgorithm"`
	Head             string                         `json:"head"`
	ContentDirectory string                         `json:"contentDirectory,omitempty"`
	Manifest         map[string][]string            `json:"manifest"` // digest -> content paths, relative to the object
	Versions         map[string]*VersionBlock       `json:"versions"` // version name -> block
	Fixity           map[string]map[string][]string `json:"fixity,omitempty"`
}

// VersionBlock describes one version.
type VersionBlock struct {
	Created string              `json:"created"` // RFC 3339
	Message string              `json:"message,omitempty"`
	User    *User               `json:"user,omitempty"`
	State   map[string][]string `json:"state"` // digest -> logical paths
}

// User is the author of a version. Address should be a URI (mailto: or an ORCID).
type User struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
}

// keyTrailer begins the last line of a version's message and carries Options.Key. An inventory allows no further keys
// (E102), but the message is free text and is committed together with the version.
const keyTrailer = "Stagepost-Key: "

func messageWithKey(message, key string) string {
	if key == "" {
		return message
	}
	if message == "" {
		return keyTrailer + key
	}
	return strings.TrimRight(message, "\n") + "\n\n" + keyTrailer + key
}

// Key returns the idempotency key of the version, or "".
func (v *VersionBlock) Key() string {
	last := v.Message[strings.LastIndexByte(v.Message, '\n')+1:]
	key, found := strings.CutPrefix(last, keyTrailer)
	if !found {
		return ""
	}
	return key
}

// Text returns the message without the line of the key.
func (v *VersionBlock) Text() string {
	if v.Key() == "" {
		return v.Message
	}
	return strings.TrimRight(v.Message[:strings.LastIndexByte(v.Message, '\n')+1], "\n")
}

// contentDir returns the name of the content directory of each version directory.
func (inv *Inventory) contentDir() string {
	if inv.ContentDirectory == "" {
		return defaultContent
	}
	return inv.ContentDirectory
}

// VersionNames returns the names of all versions, oldest first.
func (inv *Inventory) VersionNames() []string {
	names := make([]string, 0, len(inv.Versions))
	for name := range inv.Versions {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, _ := parseVersionName(a)
		y, _ := parseVersionName(b)
		return x - y
	})
	return names
}

// nextVersion returns the name of the version after head, in the numbering style of the object (E013).
func (inv *Inventory) nextVersion() (string, error) {
	n, ok := parseVersionName(inv.Head)
	if !ok {
		return "", fmt.Errorf("%w: head %q", ErrCorrupt, inv.Head)
	}
	if inv.Head[1] != '0' {
		return fmt.Sprintf("v%d", n+1), nil
	}
	name := fmt.Sprintf("v%0*d", len(inv.Head)-1, n+1)
	if len(name) != len(inv.Head) || name[1] != '0' {
		return "", fmt.Errorf("%w: the zero-padded numbering ends with %s", ErrInvalid, inv.Head)
	}
	return name, nil
}

// parseVersionName parses v1, v2 ... and the zero-padded v0001.
func parseVersionName(s string) (int, bool) {
	if len(s) < 2 || len(s) > 10 || s[0] != 'v' {
		return 0, false
	}
	n := 0
	for _, c := range s[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n > 0
}

// findKey returns the newest version with key, or "".
func (inv *Inventory) findKey(key string) string {
	if key == "" {
		return ""
	}
	names := inv.VersionNames()
	for _, name := range slices.Backward(names) {
		if inv.Versions[name].Key() == key {
			return name
		}
	}
	return ""
}

// next returns a copy to which a version can be added. Adding digests does not change the digest lists that it shares
// with inv.
func (inv *Inventory) next() *Inventory {
	c := *inv
	c.Manifest = make(map[string][]string, len(inv.Manifest))
	for digest, paths := range inv.Manifest {
		c.Manifest[digest] = paths
	}
	c.Versions = make(map[string]*VersionBlock, len(inv.Versions)+1)
	for name, block := range inv.Versions {
		c.Versions[name] = block
	}
	c.Fixity = make(map[string]map[string][]string, len(inv.Fixity))
	for algorithm, block := range inv.Fixity {
		c.Fixity[algorithm] = make(map[string][]string, len(block))
		for digest, paths := range block {
			c.Fixity[algorithm][digest] = slices.Clone(paths)
		}
	}
	return &c
}

func newInventory(id string) *Inventory {
	return &Inventory{
		ID: id, Type: inventoryType(specVersion), DigestAlgorithm: SHA512,
		Manifest: map[string][]string{}, Versions: map[string]*VersionBlock{}, Fixity: map[string]map[string][]string{},
	}
}

// encode returns the bytes of inventory.json. Equal inventories have equal bytes, since the paths are sorted.
func (inv *Inventory) encode() ([]byte, error) {
	for _, block := range inv.Versions {
		for _, paths := range block.State {
			slices.Sort(paths)
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(inv); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func sidecarName(algorithm string) string { return inventoryFile + "." + algorithm }

func sidecarText(digest string) []byte { return []byte(digest + " " + inventoryFile + "\n") }

// parseSidecar returns the digest of "DIGEST inventory.json", or false for another form (E061).
func parseSidecar(data []byte) (string, bool) {
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	at := strings.IndexAny(text, " \t")
	if at <= 0 || strings.TrimLeft(text[at:], " \t") != inventoryFile {
		return "", false
	}
	return text[:at], true
}

func formatCreated(t time.Time) string { return t.Format(time.RFC3339Nano) }

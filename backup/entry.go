package backup

import (
	"path"
	"strings"
)

// How is how a backup takes an entry of a data directory.
type How string

// The kinds of entries.
const (
	Database How = "database" // by SQLite's backup interface, at the moment of the backup
	// hard links at that moment, copied afterwards; files are replaced by renames, or only grow
	Linked How = "linked"
	Noted  How = "noted"    // small files that are changed in place: read at that moment
	Late   How = "late"     // copied afterwards; what is removed by then is left out
	Stored How = "stored"   // OCFL storage roots: copied afterwards, without versions that the databases do not know
	Left   How = "left out" // disposable
)

// Entry is one entry of a data directory.
type Entry struct {
	Name   string // of the file or directory; "*" at the end matches any ending
	How    How
	Part   string // by which [Options].Without leaves it out; empty: it always belongs to a backup
	What   string // it holds, for people
	Reason string // why it may be left out, or what to know about it
}

// fits reports whether an entry covers a name.
func (e *Entry) fits(name string) bool {
	if prefix, open := strings.CutSuffix(e.Name, "*"); open {
		return strings.HasPrefix(name, prefix)
	}
	return name == e.Name
}

// Find returns the first entry that matches a name in the data directory, or nil.
func Find(entries []Entry, name string) *Entry {
	for i := range entries {
		if entries[i].fits(name) {
			return &entries[i]
		}
	}
	return nil
}

// Location is a storage location outside the data directory that its content refers to.
type Location struct {
	Path string `json:"path"`
	What string `json:"what"`
}

// names of a set and of the data directory.
const (
	manifestName = "manifest.json"
	digestName   = manifestName + ".sha256"
	listName     = "files.jsonl"
	dataName     = "data"
	outsideName  = "outside"

	// SnapshotName is the directory in the data directory that has the hard links while a backup is made.
	SnapshotName = "snapshot"
	// OutsideName is the directory in a restored data directory that has the configuration that lay elsewhere.
	OutsideName = outsideName
)

// inData returns the name of a file of the data directory in a set.
func inData(name string) string { return path.Join(dataName, name) }

package ingest

import (
	"path/filepath"
	"slices"
)

// The ways of bytes that Options.Moved is told of.
const (
	Fetched  = "fetched"   // from a source to the working disk; what an earlier attempt had kept is not counted again
	Stored   = "stored"    // into a storage location; files that were there already are not counted
	ReadBack = "read-back" // from a storage location, to be sure of it
)

// moved tells whoever counts of n bytes that went a way.
func (a *App) moved(way string, n int64) {
	if a.options.Moved != nil && n > 0 {
		a.options.Moved(way, n)
	}
}

// Places lists the directories of all storage locations that profiles name, each once. One that nothing was stored in yet may not exist.
func (a *App) Places() []string {
	var dirs []string
	for _, id := range a.options.Profiles.IDs() {
		if p, ok := a.options.Profiles.Get(id); ok {
			for _, dir := range p.Storage {
				dirs = append(dirs, filepath.Clean(a.locations.Path(dir)))
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

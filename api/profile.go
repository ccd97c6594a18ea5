package api

import (
	"strings"
	"time"
)

// Profile is an ingest profile in short.
type Profile struct {
	ID          string   `json:"id"`
	Description string   `json:"description,omitempty"`
	Owner       string   `json:"owner"`
	Collection  string   `json:"collection"`
	Storage     []string `json:"storage"`
	Webhooks    []string `json:"webhooks"`       // names
	File        string   `json:"file,omitempty"` // on the server's machine; empty for the built-in one
}

// ProfileStatus is the state of the profile directory.
type ProfileStatus struct {
	Dir    string    `json:"dir"`
	Loaded time.Time `json:"loaded"` // since when the profiles are as they are
	// why the directory, as it is now, was not taken: one mistake on each line
	Fault string    `json:"fault,omitempty"`
	Since time.Time `json:"since,omitzero"` // of Fault
}

// Profiles is the answer about profiles.
type Profiles struct {
	Profiles []Profile      `json:"profiles"`
	Status   *ProfileStatus `json:"status,omitempty"` // where they are read from a directory
}

// ProfileValue is one value of a profile as it counts.
type ProfileValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // queries of URLs are ***
	Origin string `json:"origin"` // "maps.yaml:3", "default", or "built in"
	Doc    string `json:"doc"`
}

// ProfileValues is the answer about one profile.
type ProfileValues struct {
	ID     string         `json:"id"`
	File   string         `json:"file,omitempty"`
	Values []ProfileValue `json:"values"`
}

// ReloadProfiles is the body that asks for the profile directory to be read again.
type ReloadProfiles struct {
	Actor string `json:"actor,omitempty"`
	Note  string `json:"note,omitempty"` // why
}

// ProfileChange is what that changed, by id.
type ProfileChange struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`
}

// None reports whether nothing changed.
func (c *ProfileChange) None() bool { return len(c.Added)+len(c.Changed)+len(c.Removed) == 0 }

// String returns "added a, changed b".
func (c *ProfileChange) String() string {
	var parts []string
	for _, one := range []struct {
		word string
		ids  []string
	}{{"added", c.Added}, {"changed", c.Changed}, {"removed", c.Removed}} {
		if len(one.ids) > 0 {
			parts = append(parts, one.word+" "+strings.Join(one.ids, ", "))
		}
	}
	if len(parts) == 0 {
		return "nothing changed"
	}
	return strings.Join(parts, "; ")
}

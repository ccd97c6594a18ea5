package main

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
)

// profileDir is where the profiles of a data directory are.
func (s *hostSettings) profileDir(data string) string {
	return cmp.Or(s.Profiles, filepath.Join(data, "profiles"))
}

// openProfiles reads the profiles of a server, which must be valid.
func openProfiles(s *hostSettings, data string) (*profile.Live, error) {
	return profile.Open(s.profileDir(data), time.Now)
}

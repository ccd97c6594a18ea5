package host

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
)

// ProfileDir is where the profiles of a data directory are.
func (s *Settings) ProfileDir(data string) string {
	return cmp.Or(s.Profiles, filepath.Join(data, "profiles"))
}

// OpenProfiles reads the profiles of a server, which must be valid.
func OpenProfiles(s *Settings, data string) (*profile.Live, error) {
	return profile.Open(s.ProfileDir(data), time.Now)
}

package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// SharedFile is the file of a directory with the files of jobs whose records are in a store that servers share.
const SharedFile = "shared-id"

// OwnStore refuses what works on the SQLite database in the data directory alone, with kind Refused, if the jobs are in
// another store: the directory has none and the setting store names it, or the directory has the files of one. remedy
// is what to do instead.
func (s *Common) OwnStore(remedy string) error {
	if _, err := os.Stat(filepath.Join(s.Data, "stagepost.db")); err != nil && s.Set != nil {
		for _, one := range s.All() {
			if one.Name == "store" && strings.Contains(one.String(), "://") {
				return job.Errorf(job.Refused, "open", "", "this works on the database in the data directory, and the "+
					"setting store names %s: %s", one.Shown(), remedy)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(s.Data, SharedFile)); err == nil {
		return job.Errorf(job.Refused, "open", "", "this works on the database in the data directory, and %s has the "+
			"files of jobs in another store (%s): %s", s.Data, SharedFile, remedy)
	}
	return nil
}

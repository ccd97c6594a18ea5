package access

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// owes checks that a completed job has a package: the plan is on disk, and it is the one that the record names.
func (a *App) owes(_ context.Context, j *job.Job, c *job.Change) error {
	if j.State != record.Processing {
		return nil
	}
	var d data
	if text := c.Set.Data; len(text) > 0 {
		if err := json.Unmarshal(text, &d); err != nil {
			return job.Errorf(job.Internal, "access", j.ID, "data: %w", err)
		}
	}
	home, err := a.root.OpenRoot(string(j.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return engine.Fail(ingest.CauseStorage, errors.New("no package was made"))
	}
	if err != nil {
		return err
	}
	defer func() { _ = home.Close() }()
	plan, err := readAbout(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return engine.Fail(ingest.CauseStorage, errors.New("no package was made"))
	case err != nil:
		return err
	case d.Digest == "" || plan.Digest != d.Digest:
		return engine.Fail(ingest.CauseStorage, errors.New("the package is not the one that was reported"))
	}
	return nil
}

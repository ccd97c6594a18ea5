package compute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/stagepost/stagepost/job"
)

// owes checks that a job becomes Completed only with what that state stands for: it ended well, and its results are
// here as they are recorded. The steps see to it; this holds for every other caller that reports on a job.
func (a *App) owes(_ context.Context, j *job.Job, c *job.Change) error {
	if c.To.State != Completed {
		return nil
	}
	after := *j
	if len(c.Set.Data) > 0 {
		after.Data = c.Set.Data
	}
	spec, err := SpecOf(j)
	if err != nil {
		return err
	}
	d, err := DataOf(&after)
	if err != nil {
		return err
	}
	if spec.Imported == nil && (d.Notice == nil || d.Notice.Ending == nil || d.Notice.Ending.Cause != "") {
		return job.Errorf(job.Refused, "finish", j.ID, "it is not known that it ended well")
	}
	why, err := lacking(a.root, j.ID, d.Results)
	if err == nil && why != "" {
		err = job.Errorf(job.Refused, "finish", j.ID, "%s", why)
	}
	return err
}

// lacking reports how the results of a job are not here as they are recorded; "" if they are. It reads no content. root
// is the application's directory.
func lacking(root *os.Root, id job.ID, r *Results) (why string, err error) {
	if r == nil || r.SHA256 == "" {
		return "no results of it are recorded", nil
	}
	info, err := root.Stat(path.Join(dirOf(id), resultsName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "its results are not where they were put", nil
	case err != nil:
		return "", err
	case info.Size() != r.Bytes:
		return fmt.Sprintf("its results have %d bytes, and %d are recorded", info.Size(), r.Bytes), nil
	}
	return "", nil
}

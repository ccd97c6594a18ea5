package compute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Comparison is what a comparison of records and results found.
type Comparison struct {
	Jobs   int // that were compared
	Faults []string
	More   int // faults that are not listed
}

// mostDifferences is how many faults are listed.
const mostDifferences = 1000

// Records give the records of jobs; a store does.
type Records interface {
	Get(ctx context.Context, id job.ID) (job.Job, error)
	List(ctx context.Context, q job.Query) (job.Page, error)
}

// Compare checks of each ended job whose files were not cleaned that its results are in the data directory as they are
// recorded. It reads no content, changes nothing, and work may go on meanwhile.
func Compare(ctx context.Context, records Records, data string) (c Comparison, err error) {
	root, err := os.OpenRoot(filepath.Join(data, "compute"))
	if errors.Is(err, fs.ErrNotExist) {
		root, err = nil, nil // nothing was computed here, or its files are not here
	}
	if err != nil {
		return c, err
	}
	if root != nil {
		defer func() { err = errors.Join(err, root.Close()) }()
	}
	states := []lifecycle.State{Completed, Failed, Killed}
	for q := (job.Query{Kinds: []job.Kind{JobKind}, States: states, Oldest: true, Limit: 1000}); ; {
		page, err := records.List(ctx, q)
		if err != nil {
			return c, err
		}
		for i := range page.Jobs {
			if err := c.job(ctx, records, root, &page.Jobs[i]); err != nil {
				return c, err
			}
		}
		if q.After = page.Next; q.After == "" {
			return c, nil
		}
	}
}

// job compares one record.
func (c *Comparison) job(ctx context.Context, records Records, root *os.Root, j *job.Job) error {
	c.Jobs++
	d, err := DataOf(j)
	if err != nil {
		return err
	}
	if d.Results == nil && j.State != Completed {
		return nil
	}
	why := "its files are not in this data directory"
	if root != nil {
		if why, err = lacking(root, j.ID, d.Results); err != nil {
			return err
		}
	}
	if why == "" {
		return nil
	}
	now, err := records.Get(ctx, j.ID)
	if job.KindOf(err) == job.NotFound || job.KindOf(err) == job.Gone || err == nil && now.State == Cleaned {
		return nil // its files were removed meanwhile
	}
	if err != nil {
		return err
	}
	if len(c.Faults) >= mostDifferences {
		c.More++
		return nil
	}
	c.Faults = append(c.Faults, fmt.Sprintf("compute: %s is %s: %s", j.ID, j.State, why))
	return nil
}

// Package newest finds the histories that grew, by the numbers of their entries.
package newest

import (
	"context"

	"github.com/stagepost/stagepost/job"
)

// Page is the number of entries that one read covers.
const Page = 10_000

// Entry is the newest history entry of a job. Its hash covers the whole history.
type Entry struct {
	Job    job.ID
	Seq    int64
	Hash   job.Hash
	Number int64 // among the entries of all histories
}

// Each calls yield with the newest entry of each job that has an entry after number after and up to number through,
// once for each job. read returns those of the jobs that have an entry after one number and up to another one.
func Each(ctx context.Context, page, after, through int64, read func(after, end int64) ([]Entry, error),
	yield func(id job.ID, seq int64, hash job.Hash) error) error {
	later := map[job.ID]bool{} // jobs with entries after through, which several pages may have
	for ; after < through; after += page {
		if err := ctx.Err(); err != nil {
			return &job.Error{Op: "history", Kind: job.Unavailable, Err: err}
		}
		end := min(after+page, through)
		list, err := read(after, end)
		if err != nil {
			return err
		}
		for _, e := range list {
			switch {
			case e.Number > end && e.Number <= through, later[e.Job]:
				continue // a later page has it, or an earlier one had it
			case e.Number > through:
				later[e.Job] = true
			}
			if err := yield(e.Job, e.Seq, e.Hash); err != nil {
				return err
			}
		}
	}
	return nil
}

package host

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/store/sqlite"
)

// Keeper looks after the data of a store, whether a server works on it or not.
type Keeper struct {
	Store *sqlite.Store
	Lives func(job.Kind) *lifecycle.Table
	Dir   string // the data directory

	Settings *Settings // say what is backed up, and where to
	backups  backups

	Compare func(context.Context) (ingest.Comparison, error) // records, inventory and storage locations; nil: there is nothing of ingest
}

var _ server.Keeper = (*Keeper)(nil)

// mostFaults is how many are told one by one.
const mostFaults = 1000

// Verify checks histories against records.
func (k *Keeper) Verify(ctx context.Context, id job.ID) (client.Checkup, error) {
	c := client.Checkup{Faults: []string{}}
	n, err := k.Store.Verify(ctx, id, k.Lives, func(id job.ID, err error) {
		if len(c.Faults) < mostFaults {
			text := err.Error()
			if id != "" { // else it is about the audit list, and says so
				text = string(id) + ": " + text
			}
			c.Faults = append(c.Faults, text)
		}
	})
	c.Jobs, c.Sound = int(n), len(c.Faults) == 0
	return c, err
}

// Fsck checks what the store derives from records, and compares these with the inventory and the storage locations of ingest. Only the first can be
// made anew here, which is entered in the audit list.
func (k *Keeper) Fsck(ctx context.Context, f client.Fsck) (client.Checkup, error) {
	if f.Repair {
		if err := k.enter(ctx, lifecycle.Operator, "fsck-repair", f.Actor, f.Note, ""); err != nil {
			return client.Checkup{Faults: []string{}}, err
		}
	}
	r, err := k.Store.Fsck(ctx, k.Lives, f.Repair)
	c := client.Checkup{Jobs: int(r.Jobs), Entries: int(r.Events), Faults: []string{}, Sound: r.Clean()}
	for _, f := range r.Faults {
		c.Faults = append(c.Faults, f.String())
		if f.Repaired {
			c.Repaired++
		}
	}
	if r.More > 0 {
		c.Faults = append(c.Faults, fmt.Sprintf("and %d more", r.More))
	}
	if err == nil {
		err = k.results(ctx, &c)
	}
	if err != nil || k.Compare == nil {
		return c, err
	}
	stored, err := k.Compare(ctx)
	c.Objects, c.Versions = stored.Objects, stored.Versions
	c.Faults = append(c.Faults, stored.Faults...)
	if stored.More > 0 {
		c.Faults = append(c.Faults, fmt.Sprintf("and %d more about what is stored", stored.More))
	}
	c.Sound = c.Sound && len(stored.Faults) == 0
	return c, err
}

// results compares the records of compute jobs with the results in the data directory.
func (k *Keeper) results(ctx context.Context, c *client.Checkup) error {
	found, err := compute.Compare(ctx, k.Store, k.Dir)
	c.Faults = append(c.Faults, found.Faults...)
	if found.More > 0 {
		c.Faults = append(c.Faults, fmt.Sprintf("and %d more about results of compute jobs", found.More))
	}
	c.Sound = c.Sound && len(found.Faults) == 0
	return err
}

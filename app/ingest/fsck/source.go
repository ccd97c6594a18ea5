package fsck

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Records reads the records of jobs; every job.Store does.
type Records interface {
	List(ctx context.Context, q job.Query) (job.Page, error)
	Get(ctx context.Context, id job.ID) (job.Job, error)
}

// Source is where an inventory lies, and what it is compared with.
type Source struct {
	Dir          string         // the data directory
	Postgres     string         // URL of the database with the inventory. Defaults to a file of the data directory
	Installation string         // id of the installation. Defaults to that of the inventory
	Records      Records        // of the jobs. Defaults to none
	Profiles     profile.Source // defaults to the built-in profile
}

// path is the file of the inventory.
func (o *Source) path() string { return filepath.Join(o.Dir, InventoryName) }

// complete checks the source and sets defaults.
func (o *Source) complete() error {
	if o.Dir == "" {
		return errors.New("ingest needs a data directory")
	}
	if o.Profiles == nil {
		o.Profiles = (*profile.Set)(nil)
	}
	return nil
}

// InventoryName is the name of the inventory in the data directory.
const InventoryName = "inventory.db"

// newestRecords is how many ended jobs, and how many open ones, are compared with the inventory when the application
// starts.
const newestRecords = 1000

// OpenInventory opens the inventory of a data directory. One that is not what was written last is refused: a new
// identifier could be that of a stored object, and a new version could begin another object.
func (o *Source) OpenInventory(ctx context.Context) (*inventory.Inventory, error) {
	inv, err := o.open(ctx)
	if err == nil && o.Records != nil {
		if err = compareNewest(ctx, inv, o.Records); err != nil {
			err = errors.Join(fmt.Errorf("inventory %s: %w", o.name(), err), inv.Close())
		}
	}
	if o.Postgres != "" {
		if errors.Is(err, headfile.ErrOlder) {
			return nil, job.Errorf(job.Internal, "open", "", "%w; restore jobs and inventory from one backup of the "+
				"PostgreSQL database", err)
		}
		return inv, err
	}
	for _, lost := range []error{headfile.ErrMissing, headfile.ErrEmpty, headfile.ErrOlder, headfile.ErrForeign,
		inventory.ErrDamaged} {
		if errors.Is(err, lost) {
			return nil, job.Errorf(job.Internal, "open", "", "%w; put the inventory back from the backup that "+
				"stagepost.db is from, or make it anew of what is stored: "+
				"stagepost ingest inventory rebuild --data %q", err, o.Dir)
		}
	}
	return inv, err
}

// open opens the inventory in a file or in PostgreSQL.
func (o *Source) open(ctx context.Context) (*inventory.Inventory, error) {
	if o.Postgres != "" {
		return inventory.OpenPostgres(ctx, o.Postgres, o.Installation)
	}
	return inventory.Open(ctx, o.path(), o.Installation)
}

// name names the inventory for people.
func (o *Source) name() string {
	if o.Postgres != "" {
		return "in PostgreSQL"
	}
	return o.path()
}

// compareNewest requires what the newest jobs entered. It finds an inventory that was copied without its log, or is
// from another time than the records; fsck compares all.
func compareNewest(ctx context.Context, inv *inventory.Inventory, records Records) error {
	open := false
	for _, q := range []job.Query{
		{Kinds: []job.Kind{record.JobKind}, States: []lifecycle.State{record.Completed}, Limit: newestRecords},
		{Kinds: []job.Kind{record.JobKind}, Ended: &open, Limit: newestRecords},
	} {
		page, err := records.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			lacks, err := recordLacks(ctx, inv, &page.Jobs[i])
			if err != nil {
				return err
			}
			if lacks != "" {
				return fmt.Errorf("%w: it lacks %s, which the store has a record of", headfile.ErrOlder, lacks)
			}
		}
	}
	return nil
}

// recordLacks names what the inventory lacks of what a job entered by its record; "" if nothing.
func recordLacks(ctx context.Context, inv *inventory.Inventory, j *job.Job) (string, error) {
	data, err := record.DataOf(j)
	if err != nil || data.Identity == nil {
		return "", err
	}
	ark := data.Identity.ARK
	switch named, err := inv.NameOf(ctx, string(j.ID)); {
	case err != nil:
		return "", err
	case named == "":
		return fmt.Sprintf("the identifier %s of job %s", ark, j.ID), nil
	case named != ark:
		return fmt.Sprintf("the identifier %s of job %s (it has %s)", ark, j.ID, named), nil
	}
	if !record.IsRecorded(j) {
		return "", nil
	}
	has, version, err := inv.VersionOf(ctx, string(j.ID))
	if errors.Is(err, inventory.ErrNotFound) {
		known, err := inv.Lost(ctx, string(j.ID))
		if known || err != nil {
			return "", err
		}
		return fmt.Sprintf("version %d of %s, which job %s stored", data.Version, ark, j.ID), nil
	}
	if err == nil && (has != ark || version != data.Version) {
		return fmt.Sprintf("version %d of %s, which job %s stored (it has version %d of %s)", data.Version, ark, j.ID,
			version, has), nil
	}
	return "", err
}

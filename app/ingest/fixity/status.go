package fixity

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
)

// Status is the status of the stored files.
type Status = api.Fixity

// Location is a storage location with versions.
type Location = api.FixityLocation

// Summary is what alarms need.
type Summary struct {
	Faults     int
	Unreadable []string  // locations, each with the reason
	Oldest     time.Time // check of a version that is the longest ago; zero: nothing is stored
}

// Summary sums up the state of all storage locations.
func (c *Checker) Summary(ctx context.Context) (s Summary, err error) {
	all, err := c.locations(ctx)
	if err != nil {
		return s, err
	}
	for _, l := range all {
		if l.Reason != "" {
			s.Unreadable = append(s.Unreadable, l.Dir+": "+l.Reason)
		}
		if s.Oldest.IsZero() || l.Oldest.Before(s.Oldest) {
			s.Oldest = l.Oldest
		}
	}
	s.Faults, err = c.Inventory.FaultCount(ctx)
	return s, err
}

// Status reads the state of all storage locations that have versions.
func (c *Checker) Status(ctx context.Context) (s Status, err error) {
	if s.Locations, err = c.locations(ctx); err != nil {
		return s, err
	}
	known, err := c.Inventory.Faults(ctx, "", "", 0)
	if err != nil {
		return s, err
	}
	s.Faults = append([]inventory.Fault{}, known...)
	s.Count, err = c.Inventory.FaultCount(ctx)
	return s, err
}

func (c *Checker) locations(ctx context.Context) ([]Location, error) {
	dirs, err := c.Locations(ctx)
	if err != nil {
		return nil, err
	}
	all := []Location{}
	for _, dir := range dirs {
		l := Location{Dir: dir}
		if l.Oldest, err = c.Inventory.OldestCheck(ctx, dir); err != nil {
			return nil, err
		}
		if l.Oldest.IsZero() {
			continue
		}
		if _, err := c.Open(ctx, dir); err != nil {
			l.Reason = err.Error()
		}
		check, err := c.Inventory.LastCheck(ctx, dir)
		switch {
		case err == nil:
			l.Check = &check
		case !errors.Is(err, inventory.ErrNotFound):
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

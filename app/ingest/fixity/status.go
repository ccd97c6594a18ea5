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
			s.Unreadable = append(s.Unreadable, l.Location+": "+l.Reason)
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
		l, err := c.Inventory.Checks(ctx, dir, c.until())
		if err != nil {
			return nil, err
		}
		if l.Copies == 0 {
			continue
		}
		if c.Every > 0 {
			l.Next = l.Oldest.Add(c.Every)
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

// until is the time of a check that is due now; zero: none is by its age.
func (c *Checker) until() time.Time {
	if c.Every <= 0 {
		return time.Time{}
	}
	return c.Now().Add(-c.Every)
}

// Objects sums up the checks of objects (see [inventory.Inventory.FixityObjects]).
func (c *Checker) Objects(ctx context.Context, q api.FixityQuery) ([]api.FixityObject, error) {
	return c.Inventory.FixityObjects(ctx, q, c.until())
}

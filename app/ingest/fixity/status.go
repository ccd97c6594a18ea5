package fixity

import (
	"context"
	"errors"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
)

// Status says what is known about the stored files.
type Status struct {
	Locations []Location        `json:"locations"`
	Faults    []inventory.Fault `json:"faults"` // at most 10,000
	Count     int               `json:"count"`  // of all faults
}

// Location is a storage location with versions.
type Location struct {
	Dir    string           `json:"dir"`
	Reason string           `json:"reason,omitempty"` // why it cannot be read; empty: it can
	Oldest time.Time        `json:"oldest"`           // the check of a version that is the longest ago
	Check  *inventory.Check `json:"check,omitempty"`  // that was asked for last
}

// Status reads the state of all storage locations that have versions.
func (c *Checker) Status(ctx context.Context) (Status, error) {
	s := Status{Locations: []Location{}, Faults: []inventory.Fault{}}
	dirs, err := c.Locations(ctx)
	if err != nil {
		return s, err
	}
	for _, dir := range dirs {
		l := Location{Dir: dir}
		if l.Oldest, err = c.Inventory.OldestCheck(ctx, dir); err != nil {
			return s, err
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
			return s, err
		}
		s.Locations = append(s.Locations, l)
	}
	known, err := c.Inventory.Faults(ctx, "", "", 0)
	if err != nil {
		return s, err
	}
	s.Faults = append(s.Faults, known...)
	s.Count, err = c.Inventory.FaultCount(ctx)
	return s, err
}

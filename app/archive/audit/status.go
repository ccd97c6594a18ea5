package audit

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
)

// mostFaults is the number of faults that a status lists.
const mostFaults = 10_000

// Status reads the state of all storage locations that have copies, and the known faults. It asks each location
// whether it can be read. No copy is read.
func (c *Checker) Status(ctx context.Context) (s api.Fixity, err error) {
	states, err := c.o.Catalog.LocationStates(ctx)
	if err != nil {
		return s, err
	}
	for i := range states {
		l, err := c.status(ctx, &states[i])
		if err != nil {
			return s, err
		}
		if l.Copies > 0 {
			s.Locations = append(s.Locations, l)
		}
	}
	faults, err := c.o.Catalog.Faults(ctx, mostFaults)
	if err != nil {
		return s, err
	}
	for i := range faults {
		s.Faults = append(s.Faults, fault(&faults[i]))
	}
	if err := c.versionFaults(ctx, &s); err != nil {
		return s, err
	}
	s.Count, err = c.o.Catalog.FaultCount(ctx)
	return s, err
}

// versionFaults adds the faults in storage roots.
func (c *Checker) versionFaults(ctx context.Context, s *api.Fixity) error {
	versions, err := c.o.Catalog.FaultyVersions(ctx, mostFaults)
	if err != nil {
		return err
	}
	for i := range versions {
		v := &versions[i]
		files, err := c.o.Catalog.FaultsOf(ctx, v)
		if err != nil {
			return err
		}
		number, _ := strconv.Atoi(strings.TrimLeft(v.Name, "v0"))
		for _, f := range files[:min(len(files), max(0, mostFaults-len(s.Faults)))] {
			s.Faults = append(s.Faults, api.FixityFault{
				Location: v.Location, Object: v.Object, Version: number, Job: v.Job, Path: f.Path, Kind: f.Kind,
				Algorithm: f.Algorithm, Expected: f.Expected, Found: f.Found, Detail: f.Detail, Since: f.Since,
			})
		}
	}
	return nil
}

func (c *Checker) status(ctx context.Context, state *catalog.LocationState) (l api.FixityLocation, err error) {
	l = api.FixityLocation{
		Location: state.Location, Copies: state.Copies, Oldest: state.Oldest, Next: state.Next, Damaged: state.Faults,
		Healed: state.Healed,
	}
	if l.Overdue, err = c.o.Catalog.DueCount(ctx, state.Location, c.o.Now()); err != nil {
		return l, err
	}
	if err := c.ready(ctx, state.Location); err != nil {
		l.Reason = err.Error()
	}
	switch k, err := c.o.Catalog.LastCheck(ctx, state.Location); {
	case err == nil:
		l.Check = &api.FixityCheck{
			Began: k.Began, Ended: k.Ended, Failure: k.Failure, Copies: k.Copies, Files: k.Copies, Bytes: k.Bytes,
		}
	case !errors.Is(err, catalog.ErrNotFound):
		return l, err
	}
	return l, nil
}

func fault(x *catalog.Copy) api.FixityFault {
	kind := "changed"
	if x.Fixity == catalog.Absent {
		kind = "missing"
	}
	return api.FixityFault{
		Location: x.Location, Object: x.Of.Job, Job: x.Of.Job, Path: x.Of.Path, Kind: kind, Algorithm: "sha256",
		Expected: x.Of.SHA256, Found: x.Found, Detail: x.Detail, Since: x.LastFixity,
	}
}

// Objects sums up the copies of archives (see [catalog.Catalog.FixityObjects]).
func (c *Checker) Objects(ctx context.Context, q api.FixityQuery) ([]api.FixityObject, error) {
	return c.o.Catalog.FixityObjects(ctx, q, c.o.Now())
}

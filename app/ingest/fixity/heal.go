package fixity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/ocfl"
)

// againFaulty is the time after which a copy with a fault is checked again.
const againFaulty = 24 * time.Hour

// stageName is the stage of repairs in a storage root: one checker works on it.
const stageName = "fixity"

// heal repairs the faults of a copy from the copies in other locations: single files, else the whole object if a
// location has exactly the same versions and no fault. It gives what it repaired, which must be read again. The reason
// is why something was not repaired; nil if no other location has the object. Unexpected files stay for a person to
// decide about.
func (c *Checker) heal(
	ctx context.Context, root *ocfl.Root, next inventory.Copy, faults []inventory.Fault,
) (healed []inventory.Heal, reason, err error) {
	left := slices.DeleteFunc(slices.Clone(faults), func(f inventory.Fault) bool {
		return f.Kind == string(ocfl.FaultExtra)
	})
	if len(left) == 0 {
		return nil, nil, nil
	}
	all, err := c.Inventory.CopiesOf(ctx, next.ARK)
	if err != nil {
		return nil, nil, err
	}
	var reasons []error
	places := byPlace(all)
	sources := map[string]*ocfl.Root{}
	for place := range places {
		if place == next.Place {
			continue
		}
		from, err := c.Open(ctx, place)
		if err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", place, err))
			continue
		}
		sources[place] = from
		left = slices.DeleteFunc(left, func(f inventory.Fault) bool {
			if f.Path == "." || ctx.Err() != nil {
				return false
			}
			err := root.RestoreFile(ctx, next.ARK, f.Path, stageName, from, c.Pace)
			if err != nil {
				reasons = append(reasons, fmt.Errorf("%s: %w", place, err))
				return false
			}
			healed = append(healed, inventory.Heal{Path: f.Path, Source: place})
			return true
		})
	}
	for place, from := range sources {
		if len(left) == 0 || ctx.Err() != nil {
			break
		}
		err := c.sound(ctx, from, places[place], places[next.Place])
		if err == nil {
			err = root.RestoreObject(ctx, next.ARK, stageName, from, c.Pace)
		}
		if err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", place, err))
			continue
		}
		left, healed = nil, append(healed, inventory.Heal{Path: ".", Source: place})
	}
	if err := ctx.Err(); err != nil || len(left) == 0 {
		return healed, nil, err
	}
	return healed, errors.Join(reasons...), nil
}

func byPlace(all []inventory.Copy) map[string][]inventory.Copy {
	places := map[string][]inventory.Copy{}
	for _, one := range all {
		places[one.Place] = append(places[one.Place], one)
	}
	return places
}

// sound reports why an object in a location cannot replace that in another one: the versions or their names differ, or
// it has a fault itself.
func (c *Checker) sound(ctx context.Context, from *ocfl.Root, has, want []inventory.Copy) error {
	same := func(a, b inventory.Copy) bool { return a.Version == b.Version && a.Name == b.Name }
	if !slices.EqualFunc(has, want, same) {
		return errors.New("the object has other versions there")
	}
	for _, one := range has {
		var all found
		if _, err := c.read(ctx, from, one, &all); err != nil {
			return err
		}
		if len(all.faults) > 0 {
			return fmt.Errorf("the object is damaged there: %s: %s", all.faults[0].Path, faultText(&all.faults[0]))
		}
	}
	return nil
}

// checkKnown checks the copies with faults again, at most once a day each: what had the good copy may be back, or
// a user restored it.
func (c *Checker) checkKnown(ctx context.Context) error {
	known, err := c.Inventory.Faults(ctx, "", "", 0)
	if err != nil {
		return err
	}
	var errs []error
	done := map[string]bool{}
	for _, f := range known {
		if done[f.Object] {
			continue
		}
		done[f.Object] = true
		all, err := c.Inventory.CopiesOf(ctx, f.Object)
		if err != nil {
			return err
		}
		for _, one := range all {
			age := c.Now().Sub(one.Checked)
			bad := slices.ContainsFunc(known, func(f inventory.Fault) bool {
				return f.Object == one.ARK && f.Location == one.Place && f.Version == one.Version
			})
			if bad && (age >= againFaulty || age < -againFaulty) && ctx.Err() == nil {
				errs = append(errs, c.copy(ctx, one, c.Now()))
			}
		}
	}
	return errors.Join(errs...)
}

// verify reads a copy that was repaired again, reports that, and enters the result.
func (c *Checker) verify(
	ctx context.Context, root *ocfl.Root, next inventory.Copy, known []inventory.Fault, healed []inventory.Heal,
	at time.Time,
) error {
	var all found
	done, err := c.read(ctx, root, next, &all)
	if err != nil {
		return err
	}
	faults := all.settle(at, known)
	healed = slices.DeleteFunc(healed, func(h inventory.Heal) bool {
		return slices.ContainsFunc(faults, func(f inventory.Fault) bool { return h.Path == f.Path || h.Path == "." })
	})
	for _, h := range healed {
		object := fmt.Sprintf("%s %s v%d %s", next.Place, next.ARK, next.Version, h.Path)
		c.Log.Info("fixity fault healed", "location", next.Place, "object", next.ARK, "version", next.Version, "file",
			h.Path, "source", h.Source)
		if err := c.Audit(ctx, "fixity-healed", object, "repaired from "+h.Source); err != nil {
			return err
		}
	}
	return c.Inventory.EnterCheck(ctx, next, inventory.Result{
		At: at, Faults: faults, Healed: healed, Files: done.Files, Bytes: done.Bytes,
	})
}

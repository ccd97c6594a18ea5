package copies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stagepost/stagepost/app/archive/catalog"
)

// holdPage is the number of copies that are listed together.
const holdPage = 100

// PassHolds gives each location that has legal holds of its own ([Target].Hold) those of the catalog, and releases
// there what applies no more. A location that fails does not keep the others; a repetition continues. In a location
// without legal holds only the catalog enforces them: it refuses every deletion.
func (s *Store) PassHolds(ctx context.Context) error {
	var errs []error
	for _, name := range s.set.Load().order {
		if t := s.target(name); t != nil && t.Hold != nil && ctx.Err() == nil {
			errs = append(errs, s.passHolds(ctx, t, true), s.passHolds(ctx, t, false))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// HasHolds reports whether a location has legal holds of its own.
func (s *Store) HasHolds(location string) bool {
	t := s.target(location)
	return t != nil && t.Hold != nil
}

func (s *Store) passHolds(ctx context.Context, t *Target, on bool) error {
	list := s.o.Catalog.ToRelease
	if on {
		list = s.o.Catalog.ToHold
	}
	var missing error // of copies that the location does not have: a fixity check finds them
	for after := int64(0); ; {
		page, err := list(ctx, t.Name, after, holdPage)
		if err != nil || len(page) == 0 {
			return errors.Join(missing, err)
		}
		for i := range page {
			err := s.hold(ctx, t, &page[i], on)
			if errors.Is(err, fs.ErrNotExist) && on {
				missing = err
			} else if err != nil {
				return fmt.Errorf("legal hold in %s: %w", t.Name, err)
			}
		}
		after = page[len(page)-1].Artifact
	}
}

// hold sets or releases the legal hold of a copy in its location, and enters that. A crash between the two repeats the
// first.
func (s *Store) hold(ctx context.Context, t *Target, c *catalog.Copy, on bool) error {
	if err := t.Hold(ctx, c.Key, on); err != nil && (on || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	now, what := s.o.Now(), "released"
	if on {
		what = "set"
	}
	return s.o.Catalog.PutHeld(ctx, c.CopyKey, on, now, catalog.Event{
		Key: fmt.Sprintf("hold/%d/%s/%d/%s/%d", c.Artifact, c.Location, c.Generation, what, now.UnixNano()),
		Job: c.Of.Job, Path: c.Of.Path, Type: "legal hold", Outcome: "success", Agent: s.o.Agent, At: now,
		Detail: "copy in " + c.Location + ": " + what + " by the storage service",
	})
}

// unhold releases the legal hold of a copy that is deleted.
func (s *Store) unhold(ctx context.Context, t *Target, c *catalog.Copy) error {
	if t.Hold == nil {
		return nil
	}
	is, err := s.o.Catalog.IsHeld(ctx, c.CopyKey)
	if err != nil || !is {
		return err
	}
	return s.hold(ctx, t, c, false)
}

package catalog

import (
	"context"
	"database/sql"
	"time"
)

// active is the condition that a legal hold applies to the archive of an artifact.
const active = "a.job IN (SELECT job FROM holds WHERE released = '')"

// held is the condition that the storage location has the legal hold of a copy.
const held = `EXISTS (SELECT 1 FROM held AS h
	WHERE h.artifact = c.artifact AND h.location = c.location AND h.generation = c.generation)`

// ToHold lists verified copies in a location that are under a legal hold which the location does not have yet, from the
// one after an artifact on.
func (c *Catalog) ToHold(ctx context.Context, location string, after int64, limit int) ([]Copy, error) {
	return each(ctx, c.read, scanCopy, "SELECT "+copyColumns+copiesFrom+`WHERE c.location = ? AND c.artifact > ?
		AND c.verified <> '' AND c.deleted = '' AND c.replaced = 0 AND `+active+" AND NOT "+held+
		" ORDER BY c.artifact LIMIT ?", location, after, page(limit))
}

// ToRelease lists copies in a location that has a legal hold of them which applies no more.
func (c *Catalog) ToRelease(ctx context.Context, location string, after int64, limit int) ([]Copy, error) {
	return each(ctx, c.read, scanCopy, "SELECT "+copyColumns+copiesFrom+`WHERE c.location = ? AND c.artifact > ?
		AND c.deleted = '' AND NOT `+active+" AND "+held+" ORDER BY c.artifact LIMIT ?", location, after, page(limit))
}

// PutHeld enters that a location has the legal hold of a copy, or that it released it. A repetition changes nothing,
// and has no further event.
func (c *Catalog) PutHeld(ctx context.Context, k CopyKey, on bool, at time.Time, e Event) error {
	statement := "DELETE FROM held WHERE artifact = ?1 AND location = ?2 AND generation = ?3 AND ?4 <> ''"
	if on {
		statement = "INSERT INTO held VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING"
	}
	return c.enter(ctx, "put held", func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, statement, k.Artifact, k.Location, k.Generation, sorted(at))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); n == 0 || err != nil {
			return err
		}
		return putEvent(ctx, tx, e)
	})
}

// IsHeld reports whether the location has a legal hold of a copy.
func (c *Catalog) IsHeld(ctx context.Context, k CopyKey) (is bool, err error) {
	err = c.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM held
		WHERE artifact = ? AND location = ? AND generation = ?)`, k.Artifact, k.Location, k.Generation).Scan(&is)
	return is, err
}

// Held counts the copies of an archive of which their location has a legal hold, by location.
func (c *Catalog) Held(ctx context.Context, job string) (map[string]int, error) {
	type count struct {
		location string
		n        int
	}
	all, err := each(ctx, c.read, func(r row) (x count, err error) {
		err = r.Scan(&x.location, &x.n)
		return x, err
	}, "SELECT c.location, count(*)"+copiesFrom+"WHERE a.job = ? AND c.deleted = '' AND c.replaced = 0 AND "+held+
		" GROUP BY c.location", job)
	counts := map[string]int{}
	for _, x := range all {
		counts[x.location] = x.n
	}
	return counts, err
}

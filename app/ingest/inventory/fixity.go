package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/api"
)

// Copy is a version in one storage location: what a fixity check reads at a time.
type Copy struct {
	Place   string
	ARK     string
	Version int
	Name    string // of the version in that storage location: "v3"
	Job     string // that made it
}

// Fault is a stored file that was not as it should be when it was last read.
type Fault = api.FixityFault

// Check is the fixity check of a storage location that was asked for last.
type Check = api.FixityCheck

// fixityAhead is how far the moment of a check may lie in the future: one beyond it was written under a wrong clock,
// and does not count.
const fixityAhead = 24 * time.Hour

// sorted writes a moment so that moments sort as text.
func sorted(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// Due returns the copy in a storage location whose check is the oldest and not after the given time; ErrNotFound if
// there is none.
func (i *Inventory) Due(ctx context.Context, place string, until, now time.Time) (Copy, error) {
	ahead := now
	if until.After(now) {
		ahead = until
	}
	const columns = `SELECT p.place, p.ark, p.version, p.name, v.job FROM places p JOIN versions v USING (ark, version)
		WHERE p.place = ? AND p.checked `
	for _, q := range []struct{ condition, at string }{{"<=", sorted(until)}, {">", sorted(ahead.Add(fixityAhead))}} {
		var c Copy
		err := i.read.QueryRowContext(ctx, columns+q.condition+" ? ORDER BY p.checked LIMIT 1", place,
			q.at).Scan(&c.Place, &c.ARK, &c.Version, &c.Name, &c.Job)
		if !errors.Is(err, sql.ErrNoRows) {
			return c, err
		}
	}
	return Copy{}, fmt.Errorf("due copy in %s: %w", place, ErrNotFound)
}

// OldestCheck returns the time of the oldest check in a storage location; zero if it has no copy.
func (i *Inventory) OldestCheck(ctx context.Context, place string) (time.Time, error) {
	var at sql.NullString
	err := i.read.QueryRowContext(ctx, "SELECT min(checked) FROM places WHERE place = ?", place).Scan(&at)
	return moment(at.String), err
}

// Faults returns the known faults of a copy, of a storage location, or of all locations ("").
func (i *Inventory) Faults(ctx context.Context, place, ark string, version int) ([]Fault, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (f Fault, err error) {
		var since string
		err = r.Scan(&f.Location, &f.ARK, &f.Version, &f.Path, &f.Kind, &f.Algorithm, &f.Expected, &f.Found, &f.Detail,
			&since, &f.Job)
		f.Since = moment(since)
		return f, err
	}, `SELECT f.*, coalesce((SELECT job FROM versions v WHERE v.ark = f.ark AND v.version = f.version), '') FROM faults f
		WHERE ?1 IN ('', f.place) AND ?2 IN ('', f.ark) AND ?3 IN (0, f.version) ORDER BY place, ark, version, path LIMIT 10000`, place, ark, version)
}

// FaultCount gives how many faults are known.
func (i *Inventory) FaultCount(ctx context.Context) (n int, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT count(*) FROM faults").Scan(&n)
	return n, err
}

// EnterCheck notes that a copy was checked, with its faults, which replace those that were known.
func (i *Inventory) EnterCheck(ctx context.Context, c Copy, at time.Time, faults []Fault, files int,
	bytes int64) error {
	err := i.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE places SET checked = ? WHERE ark = ? AND version = ? AND place = ?",
			sorted(at), c.ARK, c.Version, c.Place); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM faults WHERE place = ? AND ark = ? AND version = ?", c.Place,
			c.ARK, c.Version); err != nil {
			return err
		}
		for _, f := range faults {
			if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO faults VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				c.Place, c.ARK, c.Version, f.Path, f.Kind, f.Algorithm, f.Expected, f.Found, f.Detail,
				sorted(f.Since)); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE checks SET versions = versions + 1, files = files + ?,
			bytes = bytes + ? WHERE place = ? AND ended = ''`, files, bytes, c.Place)
		return err
	})
	if err != nil {
		return fmt.Errorf("check of %s v%d in %s: %w", c.ARK, c.Version, c.Place, err)
	}
	return nil
}

// BeginCheck begins a check of a storage location; one that is in progress continues.
func (i *Inventory) BeginCheck(ctx context.Context, place string, at time.Time) error {
	return i.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO checks VALUES (?1, ?2, '', '', 0, 0, 0) ON CONFLICT DO UPDATE
			SET began = ?2, ended = '', failure = '', versions = 0, files = 0, bytes = 0 WHERE ended <> ''`, place, sorted(at))
		return err
	})
}

// EndCheck ends the check of a storage location; failure is why it did not read everything, or empty.
func (i *Inventory) EndCheck(ctx context.Context, place string, at time.Time, failure string) error {
	return i.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE checks SET ended = ?, failure = ? WHERE place = ? AND ended = ''",
			sorted(at), failure, place)
		return err
	})
}

// LastCheck returns the last requested check of a storage location; ErrNotFound if there was none.
func (i *Inventory) LastCheck(ctx context.Context, place string) (c Check, err error) {
	var began, ended string
	err = i.read.QueryRowContext(ctx,
		"SELECT began, ended, failure, versions, files, bytes FROM checks WHERE place = ?", place).
		Scan(&began, &ended, &c.Failure, &c.Versions, &c.Files, &c.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("check of %s: %w", place, ErrNotFound)
	}
	c.Began, c.Ended = moment(began), moment(ended)
	return c, err
}

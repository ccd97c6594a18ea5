package inventory

import (
	"context"
	"database/sql"
	"encoding/json"
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
	Checked time.Time
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

// CopiesOf gives the copies of an object in all storage locations, by location and version.
func (i *Inventory) CopiesOf(ctx context.Context, ark string) ([]Copy, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (c Copy, err error) {
		var checked string
		err = r.Scan(&c.Place, &c.ARK, &c.Version, &c.Name, &c.Job, &checked)
		c.Checked = moment(checked)
		return c, err
	}, `SELECT p.place, p.ark, p.version, p.name, v.job, p.checked FROM places p JOIN versions v USING (ark, version)
		WHERE p.ark = ? ORDER BY p.place, p.version`, ark)
}

// Checks sums up the checks in a storage location. A copy is overdue whose check is not after until.
func (i *Inventory) Checks(ctx context.Context, place string, until time.Time) (l api.FixityLocation, err error) {
	var oldest sql.NullString
	l.Location = place
	err = i.read.QueryRowContext(ctx, `SELECT count(*), min(checked), count(*) FILTER (WHERE checked <= ?2),
			(SELECT count(DISTINCT ark || ' ' || version) FROM faults WHERE place = ?1),
			(SELECT count(*) FROM healed WHERE place = ?1)
		FROM places WHERE place = ?1`, place, sorted(until)).
		Scan(&l.Copies, &oldest, &l.Overdue, &l.Damaged, &l.Healed)
	l.Oldest = moment(oldest.String)
	return l, err
}

// FixityObjects sums up the checks of objects by ARK, those after q.After. A copy is overdue whose check is not after
// until.
func (i *Inventory) FixityObjects(
	ctx context.Context, q api.FixityQuery, until time.Time,
) ([]api.FixityObject, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (o api.FixityObject, err error) {
		var places, checked string
		err = r.Scan(&o.Object, &o.Copies, &places, &checked, &o.Overdue, &o.Damaged, &o.Healed)
		if err == nil {
			err = json.Unmarshal([]byte(places), &o.Locations)
		}
		o.Checked = moment(checked)
		return o, err
	}, `SELECT p.ark, count(*), json_group_array(DISTINCT p.place), min(p.checked),
			count(*) FILTER (WHERE p.checked <= ?3),
			(SELECT count(DISTINCT f.place || ' ' || f.version) FROM faults f
				WHERE f.ark = p.ark AND ?2 IN ('', f.place)),
			(SELECT count(*) FROM healed h WHERE h.ark = p.ark AND ?2 IN ('', h.place))
		FROM places p
		WHERE p.ark > ?1 AND ?2 IN ('', p.place)
			AND (NOT ?4 OR p.ark IN (SELECT ark FROM faults WHERE ?2 IN ('', place)))
		GROUP BY p.ark HAVING NOT ?5 OR count(*) FILTER (WHERE p.checked <= ?3) > 0 ORDER BY p.ark LIMIT ?6`,
		q.After, q.Location, sorted(until), q.Damaged, q.Overdue, q.Limit)
}

// Faults returns the known faults of a copy, of a storage location, or of all locations ("").
func (i *Inventory) Faults(ctx context.Context, place, ark string, version int) ([]Fault, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (f Fault, err error) {
		var since string
		err = r.Scan(&f.Location, &f.Object, &f.Version, &f.Path, &f.Kind, &f.Algorithm, &f.Expected, &f.Found,
			&f.Detail, &since, &f.Job)
		f.Since = moment(since)
		return f, err
	}, `SELECT f.*, coalesce((SELECT job FROM versions v WHERE v.ark = f.ark AND v.version = f.version), '') FROM faults f
		WHERE ?1 IN ('', f.place) AND ?2 IN ('', f.ark) AND CAST(?3 AS bigint) IN (0, f.version)
		ORDER BY place, ark, version, path LIMIT 10000`, place, ark, version)
}

// FaultCount gives how many faults are known.
func (i *Inventory) FaultCount(ctx context.Context) (n int, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT count(*) FROM faults").Scan(&n)
	return n, err
}

// Heal is a stored file that was repaired.
type Heal struct {
	Path   string // in the object; "." is the whole object
	Source string // storage location of the good copy
}

// Result is what a check of a copy found.
type Result struct {
	At     time.Time
	Faults []Fault
	Healed []Heal
	Files  int // that were read
	Bytes  int64
}

// EnterCheck notes that a copy was checked, with its faults, which replace those that were known.
func (i *Inventory) EnterCheck(ctx context.Context, c Copy, r Result) error {
	err := i.tx(ctx, func(tx *change) error {
		at := r.At
		for _, h := range r.Healed {
			if _, err := tx.ExecContext(ctx, `INSERT INTO healed VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (ark, version, place, path, at) DO UPDATE SET source = excluded.source`, c.Place, c.ARK,
				c.Version, h.Path, h.Source, sorted(at)); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "UPDATE places SET checked = ? WHERE ark = ? AND version = ? AND place = ?",
			sorted(at), c.ARK, c.Version, c.Place); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM faults WHERE place = ? AND ark = ? AND version = ?", c.Place,
			c.ARK, c.Version); err != nil {
			return err
		}
		for _, f := range r.Faults {
			if _, err := tx.ExecContext(ctx, `INSERT INTO faults VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (place, ark, version, path) DO UPDATE SET kind = excluded.kind,
				algorithm = excluded.algorithm, expected = excluded.expected, found = excluded.found,
				detail = excluded.detail, since = excluded.since`,
				c.Place, c.ARK, c.Version, f.Path, f.Kind, f.Algorithm, f.Expected, f.Found, f.Detail,
				sorted(f.Since)); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE checks SET versions = versions + 1, files = files + ?,
			bytes = bytes + ? WHERE place = ? AND ended = ''`, r.Files, r.Bytes, c.Place)
		return err
	})
	if err != nil {
		return fmt.Errorf("check of %s v%d in %s: %w", c.ARK, c.Version, c.Place, err)
	}
	return nil
}

// BeginCheck begins a check of a storage location; one that is in progress continues.
func (i *Inventory) BeginCheck(ctx context.Context, place string, at time.Time) error {
	return i.tx(ctx, func(tx *change) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO checks VALUES (?1, ?2, '', '', 0, 0, 0) ON CONFLICT (place)
			DO UPDATE SET began = ?2, ended = '', failure = '', versions = 0, files = 0, bytes = 0
			WHERE checks.ended <> ''`, place, sorted(at))
		return err
	})
}

// EndCheck ends the check of a storage location; failure is why it did not read everything, or empty.
func (i *Inventory) EndCheck(ctx context.Context, place string, at time.Time, failure string) error {
	return i.tx(ctx, func(tx *change) error {
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
		Scan(&began, &ended, &c.Failure, &c.Copies, &c.Files, &c.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("check of %s: %w", place, ErrNotFound)
	}
	c.Began, c.Ended = moment(began), moment(ended)
	return c, err
}

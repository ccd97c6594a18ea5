package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/api"
)

// Check is the last check of all copies in a storage location that was requested.
type Check struct {
	Began   time.Time
	Ended   time.Time // zero: it is in progress
	Failure string    // why it ended early
	Copies  int64     // that were read
	Bytes   int64
}

// RequestCheck begins a check of a location, and makes the check of each copy due whose last one was before a time. A
// check that is in progress continues. A repetition with the same time does not repeat what was checked since.
func (c *Catalog) RequestCheck(ctx context.Context, location string, at time.Time) error {
	return c.enter(ctx, "request fixity", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO checks VALUES (?1, ?2, '', '', 0, 0)
			ON CONFLICT (location) DO UPDATE SET began = ?2, ended = '', failure = '', copies = 0, bytes = 0
			WHERE checks.ended <> ''`, location, sorted(at))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE copies SET next_fixity = ?2
			WHERE location = ?1 AND next_fixity > ?2 AND last_fixity < ?2 AND verified <> '' AND deleted = ''
				AND replaced = 0`, location, sorted(at))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE versions SET next_fixity = ?2
			WHERE location = ?1 AND next_fixity > ?2 AND last_fixity < ?2`, location, sorted(at))
		return err
	})
}

// LastCheck gives the check of a location that was requested last; [ErrNotFound]: none was.
func (c *Catalog) LastCheck(ctx context.Context, location string) (Check, error) {
	return one("check of "+location, c.read.QueryRowContext(ctx,
		"SELECT began, ended, failure, copies, bytes FROM checks WHERE location = ?", location),
		func(r row) (k Check, err error) {
			err = r.Scan(instant{&k.Began}, instant{&k.Ended}, &k.Failure, &k.Copies, &k.Bytes)
			return k, err
		})
}

// EndCheck ends the requested check of a location that began before a time, unless copies remain that it did not read:
// those that a slow location recalls first. With a failure it ends in any case.
func (c *Catalog) EndCheck(ctx context.Context, location, failure string, before, at time.Time) error {
	k, err := c.LastCheck(ctx, location)
	if errors.Is(err, ErrNotFound) || err == nil && (!k.Ended.IsZero() || k.Began.After(before)) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.enter(ctx, "end check", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE checks SET ended = ?2, failure = ?3
			WHERE location = ?1 AND ended = '' AND began <= ?4
			AND (?3 <> '' OR NOT EXISTS (SELECT 1 FROM copies WHERE location = ?1 AND last_fixity < checks.began
				AND planned < checks.began AND verified <> '' AND deleted = '' AND replaced = 0))
			AND (?3 <> '' OR NOT EXISTS (SELECT 1 FROM versions
				WHERE location = ?1 AND last_fixity < checks.began AND stored < checks.began AND `+unremoved+`))`,
			location, sorted(at), failure, sorted(before))
		return err
	})
}

// LocationState sums up the copies in a location. In a storage root of OCFL a copy is a version of an object.
type LocationState struct {
	Location string
	Copies   int64 // verified
	Bytes    int64
	Behind   int64 // planned, and not verified
	Faults   int64
	Healed   int64     // copies that were replaced, ever
	Oldest   time.Time // last check of the copy whose check is the longest ago; zero without copies
	Next     time.Time // first due check
}

// LocationStates sums up the copies in each location, and the versions in each storage root.
func (c *Catalog) LocationStates(ctx context.Context) ([]LocationState, error) {
	return each(ctx, c.read, func(r row) (s LocationState, err error) {
		err = r.Scan(&s.Location, &s.Copies, &s.Bytes, &s.Behind, &s.Faults, &s.Healed, instant{&s.Oldest},
			instant{&s.Next})
		return s, err
	}, `SELECT location, count(*) FILTER (WHERE verified <> ''), coalesce(sum(size) FILTER (WHERE verified <> ''), 0),
			count(*) FILTER (WHERE verified = ''), count(*) FILTER (WHERE fixity IN ('corrupt', 'missing')),
			(SELECT count(*) FROM copies AS h WHERE h.location = c.location AND h.replaced > 0),
			coalesce(min(`+lastRead+`) FILTER (WHERE verified <> ''), ''),
			coalesce(min(next_fixity) FILTER (WHERE verified <> ''), '')
		FROM copies AS c WHERE deleted = '' AND replaced = 0 GROUP BY location
		UNION ALL SELECT location, count(*), sum(bytes), 0, count(*) FILTER (WHERE faults > 0), sum(healed),
			min(last_fixity), min(next_fixity) FROM versions GROUP BY location
		ORDER BY location`)
}

// lastRead is when a copy was read last: by its last check, or as it was verified.
const lastRead = "CASE WHEN last_fixity > verified THEN last_fixity ELSE verified END"

// DueCount gives the number of copies in a location whose fixity check is due.
func (c *Catalog) DueCount(ctx context.Context, location string, now time.Time) (n int64, err error) {
	err = c.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM copies WHERE location = ?1 AND next_fixity <= ?2
			AND verified <> '' AND deleted = '' AND replaced = 0)
		+ (SELECT count(*) FROM versions WHERE location = ?1 AND next_fixity <= ?2 AND `+unremoved+`)`,
		location, sorted(now)).Scan(&n)
	return n, err
}

// FaultCount gives the number of copies whose last check found a fault and which were not replaced, and of damaged
// files of versions.
func (c *Catalog) FaultCount(ctx context.Context) (n int, err error) {
	err = c.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM copies
			WHERE fixity IN ('corrupt', 'missing') AND deleted = '' AND replaced = 0)
		+ (SELECT count(*) FROM version_faults)`).Scan(&n)
	return n, err
}

// FixityObjects sums up the copies and versions of archives by job, those after q.After.
func (c *Catalog) FixityObjects(ctx context.Context, q api.FixityQuery, now time.Time) ([]api.FixityObject, error) {
	return each(ctx, c.read, func(r row) (o api.FixityObject, err error) {
		var locations, roots string
		err = r.Scan(&o.Object, &o.Copies, &locations, &roots, instant{&o.Checked}, &o.Overdue, &o.Damaged, &o.Healed)
		var more []string
		if err == nil {
			err = errors.Join(json.Unmarshal([]byte(locations), &o.Locations), json.Unmarshal([]byte(roots), &more))
		}
		if err != nil {
			return o, fmt.Errorf("copies of %s: %w", o.Object, err)
		}
		o.Locations = append(o.Locations, more...)
		return o, nil
	}, `WITH stored AS (
			SELECT job, count(*) AS versions, json_group_array(DISTINCT location) AS roots, min(last_fixity) AS oldest,
				count(*) FILTER (WHERE next_fixity <= ?3) AS due, count(*) FILTER (WHERE faults > 0) AS faulty,
				sum(healed) AS healed
			FROM versions WHERE job > ?1 AND ?2 IN ('', location) GROUP BY job)
		SELECT j.job, `+fixityCopies+`,
			json_group_array(DISTINCT c.location) FILTER (WHERE c.location IS NOT NULL), coalesce(max(v.roots), '[]'),
			coalesce(CASE WHEN max(v.oldest) < `+fixityOldest+` THEN max(v.oldest) ELSE `+fixityOldest+` END,
				max(v.oldest), ''),
			`+fixityDue+`, `+fixityFaulty+`, count(*) FILTER (WHERE c.replaced > 0) + coalesce(max(v.healed), 0)
		FROM archives AS j LEFT JOIN stored AS v ON v.job = j.job LEFT JOIN artifacts AS a ON a.job = j.job
		LEFT JOIN copies AS c ON c.artifact = a.id AND ?2 IN ('', c.location) AND c.verified <> ''
			AND (c.deleted = '' OR c.replaced > 0)
		WHERE j.job > ?1 GROUP BY j.job HAVING `+fixityCopies+` > 0 AND (NOT ?4 OR `+fixityFaulty+` > 0)
			AND (NOT ?5 OR `+fixityDue+` > 0)
		ORDER BY j.job LIMIT ?6`, q.After, q.Location, sorted(now), q.Damaged, q.Overdue, q.Limit)
}

// Sums over the copies c and the versions v of an archive; there is one row of v.
const (
	fixityCopies = "count(*) FILTER (WHERE c.replaced = 0) + coalesce(max(v.versions), 0)"
	fixityOldest = "min(" + lastRead + ") FILTER (WHERE c.replaced = 0)"
	fixityDue    = "count(*) FILTER (WHERE c.replaced = 0 AND c.next_fixity <= ?3) + coalesce(max(v.due), 0)"
	fixityFaulty = "count(*) FILTER (WHERE c.replaced = 0 AND c.fixity IN ('corrupt', 'missing')) + " +
		"coalesce(max(v.faulty), 0)"
)

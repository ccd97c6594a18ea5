package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Fixity is the result of the last fixity check of a copy.
type Fixity string

// The results.
const (
	Unknown Fixity = "unknown" // not checked since it was verified
	Intact  Fixity = "ok"
	Absent  Fixity = "missing"
	Corrupt Fixity = "corrupt"
)

// CopyKey identifies a copy: an artifact in a storage location. A copy that replaces a damaged one has the next
// generation; the first is 1.
type CopyKey struct {
	Artifact   int64
	Location   string
	Generation int
}

// Copy is an artifact in a storage location. It is planned, then stored, then verified by reading it back; a damaged
// one is replaced; at the end it is deleted, and the row remains.
type Copy struct {
	CopyKey
	Key      string // in the location
	Size     int64
	Progress json.RawMessage // of an unfinished upload
	Attempts int
	Error    string // of the last attempt
	Planned  time.Time
	Stored   time.Time
	Verified time.Time

	LastFixity time.Time
	NextFixity time.Time
	Fixity     Fixity
	Detail     string // of a fault
	Found      string // SHA-256 of a corrupt copy that could be read to its end

	Retain    time.Time // not to be deleted before; zero: it is kept indefinitely
	Replaced  int       // generation of the copy that replaces it; zero: none
	Deleted   time.Time
	DeletedBy string
	Reason    string

	Of Artifact // set by lists
}

const copyColumns = `c.artifact, c.location, c.generation, c.key, c.size, c.progress, c.attempts, c.error, c.planned,
	c.stored, c.verified, c.last_fixity, c.next_fixity, c.fixity, c.detail, c.found, c.retain, c.replaced, c.deleted,
	c.deleted_by, c.reason, a.id, a.job, a.activity, a.path, a.key, a.size, a.sha256, a.sha512, a.mime, a.role,
	a.origin_sha1, a.origin_url, a.origin_modified, a.created`

const copiesFrom = " FROM copies AS c JOIN artifacts AS a ON a.id = c.artifact "

func scanCopy(r row) (c Copy, err error) {
	var progress string
	a := &c.Of
	err = r.Scan(&c.Artifact, &c.Location, &c.Generation, &c.Key, &c.Size, &progress, &c.Attempts, &c.Error,
		instant{&c.Planned}, instant{&c.Stored}, instant{&c.Verified}, instant{&c.LastFixity}, instant{&c.NextFixity},
		&c.Fixity, &c.Detail, &c.Found, instant{&c.Retain}, &c.Replaced, instant{&c.Deleted}, &c.DeletedBy, &c.Reason,
		&a.ID, &a.Job, &a.Activity, &a.Path, &a.Key, &a.Size, &a.SHA256, &a.SHA512, &a.MIME, &a.Role,
		&a.OriginSHA1, &a.OriginURL, instant{&a.OriginModified}, instant{&a.Created})
	if progress != "" {
		c.Progress = json.RawMessage(progress)
	}
	return c, err
}

// Good reports whether the copy can be read as far as is known: it was verified, and no fault was found since.
func (c *Copy) Good() bool {
	return !c.Verified.IsZero() && c.Replaced == 0 && c.Deleted.IsZero() && (c.Fixity == Unknown || c.Fixity == Intact)
}

// Plan enters the copies that an archive needs: each artifact of the job in each of the locations, unless one is
// planned there already. retain is the time before which they must not be deleted; a later one replaces an earlier one.
func (c *Catalog) Plan(ctx context.Context, job string, locations []string, retain, at time.Time) error {
	return c.enter(ctx, "plan copies", func(tx *sql.Tx) error {
		for _, location := range locations {
			_, err := tx.ExecContext(ctx, `INSERT INTO copies
				SELECT id, ?2, 1, key, size, '', 0, '', ?3, '', '', '', '', 'unknown', '', ?4, 0, '', '', '', ''
				FROM artifacts WHERE job = ?1 AND job NOT IN (SELECT job FROM archives WHERE outcome = 'deleted')
				ON CONFLICT (artifact, location, generation) DO NOTHING`,
				job, location, sorted(at), sorted(retain))
			if err != nil {
				return err
			}
		}
		return extend(ctx, tx, job, retain)
	})
}

func extend(ctx context.Context, tx *sql.Tx, job string, retain time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE copies SET retain = ?2 WHERE retain < ?2 AND deleted = ''
		AND artifact IN (SELECT id FROM artifacts WHERE job = ?1)`, job, sorted(retain))
	return err
}

// Extend sets the retention time of all copies of an archive. An earlier time than they have changes nothing.
func (c *Catalog) Extend(ctx context.Context, job string, retain time.Time) error {
	return c.enter(ctx, "extend retention", func(tx *sql.Tx) error { return extend(ctx, tx, job, retain) })
}

// SaveProgress enters the state of an unfinished upload.
func (c *Catalog) SaveProgress(ctx context.Context, k CopyKey, state json.RawMessage) error {
	return c.enter(ctx, "save progress", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE copies SET progress = ?
			WHERE artifact = ? AND location = ? AND generation = ? AND stored = ''`,
			string(state), k.Artifact, k.Location, k.Generation)
		return err
	})
}

// Attempt is the result of an attempt to store a copy.
type Attempt struct {
	CopyKey
	Err  error     // nil: it was stored and verified
	At   time.Time // end
	Next time.Time // first fixity check; of a good attempt
}

// PutAttempts enters results of attempts. The first good result of a copy holds.
func (c *Catalog) PutAttempts(ctx context.Context, all []Attempt) error {
	if len(all) == 0 {
		return nil
	}
	return c.enter(ctx, "put attempts", func(tx *sql.Tx) error {
		for _, a := range all {
			if err := putAttempt(ctx, tx, a); err != nil {
				return err
			}
		}
		return nil
	})
}

func putAttempt(ctx context.Context, tx *sql.Tx, a Attempt) error {
	const key = " WHERE artifact = ?1 AND location = ?2 AND generation = ?3 AND verified = '' AND deleted = ''"
	if a.Err != nil {
		_, err := tx.ExecContext(ctx, "UPDATE copies SET attempts = attempts + 1, error = ?4"+key,
			a.Artifact, a.Location, a.Generation, a.Err.Error())
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE copies SET attempts = attempts + 1, error = '', progress = '', stored = ?4,
		verified = ?4, last_fixity = ?4, next_fixity = ?5`+key,
		a.Artifact, a.Location, a.Generation, sorted(a.At), sorted(a.Next))
	return err
}

// Copies lists the copies of an archive, or of one of its artifacts (path), in order of path, location and generation.
func (c *Catalog) Copies(ctx context.Context, job, path string) ([]Copy, error) {
	return c.copies(ctx, "?2 IN ('', a.path)", job, path)
}

// CopiesBetween lists the copies of the artifacts of an archive from one path to another, both included, in the same
// order.
func (c *Catalog) CopiesBetween(ctx context.Context, job, first, last string) ([]Copy, error) {
	return c.copies(ctx, "a.path BETWEEN ?2 AND ?3", job, first, last)
}

func (c *Catalog) copies(ctx context.Context, which, job string, paths ...any) ([]Copy, error) {
	var last Artifact // its texts are shared by its copies: an archive can have many
	return each(ctx, c.read, func(r row) (Copy, error) {
		x, err := scanCopy(r)
		if x.Of.ID == last.ID {
			x.Of = last
		}
		last = x.Of
		return x, err
	}, "SELECT "+copyColumns+copiesFrom+
		"WHERE a.job = ?1 AND "+which+" ORDER BY a.path, c.location, c.generation", append([]any{job}, paths...)...)
}

// Standing is a good copy (see [Copy.Good]), in few bytes.
type Standing struct {
	Artifact int64
	Location string
	Size     int64
}

// Standing lists the good copies of an archive, and gives the number of its artifacts.
func (c *Catalog) Standing(ctx context.Context, job string) (good []Standing, artifacts int, err error) {
	err = c.read.QueryRowContext(ctx, "SELECT count(*) FROM artifacts WHERE job = ?", job).Scan(&artifacts)
	if err != nil {
		return nil, 0, err
	}
	good, err = each(ctx, c.read, func(r row) (s Standing, err error) {
		err = r.Scan(&s.Artifact, &s.Location, &s.Size)
		return s, err
	}, `SELECT artifact, location, size FROM copies WHERE artifact IN (SELECT id FROM artifacts WHERE job = ?)
		AND verified <> '' AND replaced = 0 AND deleted = '' AND fixity IN ('unknown', 'ok')`, job)
	return good, artifacts, err
}

// Copy gives a copy.
func (c *Catalog) Copy(ctx context.Context, k CopyKey) (Copy, error) {
	return one(fmt.Sprintf("copy %d of artifact %d in %s", k.Generation, k.Artifact, k.Location),
		c.read.QueryRowContext(ctx, "SELECT "+copyColumns+copiesFrom+
			"WHERE c.artifact = ? AND c.location = ? AND c.generation = ?", k.Artifact, k.Location, k.Generation),
		scanCopy)
}

// Behind lists copies in a location that were planned before a time and are not verified, oldest first: what a location
// that was not reachable lacks.
func (c *Catalog) Behind(ctx context.Context, location string, before time.Time, limit int) ([]Copy, error) {
	return each(ctx, c.read, scanCopy, "SELECT "+copyColumns+copiesFrom+`
		WHERE c.location = ? AND c.planned < ? AND c.verified = '' AND c.deleted = '' AND c.replaced = 0
			AND a.job IN (SELECT job FROM archives WHERE outcome = ?)
		ORDER BY c.planned LIMIT ?`, location, sorted(before), Complete, page(limit))
}

// Due lists the copies in a location whose fixity check is due, those first for which it is due for the longest time.
func (c *Catalog) Due(ctx context.Context, location string, now time.Time, limit int) ([]Copy, error) {
	return each(ctx, c.read, scanCopy, "SELECT "+copyColumns+copiesFrom+`
		WHERE c.location = ? AND c.next_fixity <= ? AND c.verified <> '' AND c.deleted = '' AND c.replaced = 0
		ORDER BY c.next_fixity LIMIT ?`, location, sorted(now), page(limit))
}

// Postpone moves the next check of a copy, because its location recalls it first.
func (c *Catalog) Postpone(ctx context.Context, k CopyKey, next time.Time) error {
	return c.enter(ctx, "postpone fixity", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE copies SET next_fixity = ?4
			WHERE artifact = ?1 AND location = ?2 AND generation = ?3`,
			k.Artifact, k.Location, k.Generation, sorted(next))
		return err
	})
}

// Checked is the result of a fixity check.
type Checked struct {
	CopyKey
	Fixity Fixity
	Detail string // of a fault
	Found  string // SHA-256 of a corrupt copy that could be read to its end
	At     time.Time
	Next   time.Time
}

// PutChecked enters the results of fixity checks, with events for results that are others than before. A result of an
// earlier time than the last one of its copy changes nothing.
func (c *Catalog) PutChecked(ctx context.Context, results []Checked, events ...Event) error {
	if len(results) == 0 {
		return nil
	}
	return c.enter(ctx, "put fixity", func(tx *sql.Tx) error {
		for _, r := range results {
			_, err := tx.ExecContext(ctx, `UPDATE checks SET copies = copies + 1,
				bytes = bytes + (SELECT size FROM copies WHERE artifact = ?1 AND location = ?2 AND generation = ?3)
				WHERE location = ?2 AND ended = '' AND began <= ?4`,
				r.Artifact, r.Location, r.Generation, sorted(r.At))
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `UPDATE copies SET fixity = ?4, detail = ?5, last_fixity = ?6,
				next_fixity = ?7, found = ?8
				WHERE artifact = ?1 AND location = ?2 AND generation = ?3 AND last_fixity <= ?6 AND replaced = 0`,
				r.Artifact, r.Location, r.Generation, r.Fixity, r.Detail, sorted(r.At), sorted(r.Next), r.Found)
			if err != nil {
				return err
			}
		}
		for _, e := range events {
			if err := putEvent(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// Faults lists copies whose last check found a fault and which were not replaced.
func (c *Catalog) Faults(ctx context.Context, limit int) ([]Copy, error) {
	return each(ctx, c.read, scanCopy, "SELECT "+copyColumns+copiesFrom+`
		WHERE c.fixity IN ('corrupt', 'missing') AND c.deleted = '' AND c.replaced = 0
		ORDER BY c.location, c.artifact LIMIT ?`, page(limit))
}

// PlanReplacement plans a copy that replaces a damaged one, in the same location under another key. A repetition gives
// the copy that is planned.
func (c *Catalog) PlanReplacement(ctx context.Context, k CopyKey, at time.Time) (Copy, error) {
	next := CopyKey{Artifact: k.Artifact, Location: k.Location, Generation: k.Generation + 1}
	err := c.enter(ctx, "plan replacement", func(tx *sql.Tx) error {
		old, err := scanCopy(tx.QueryRowContext(ctx, "SELECT "+copyColumns+copiesFrom+
			"WHERE c.artifact = ? AND c.location = ? AND c.generation = ?", k.Artifact, k.Location, k.Generation))
		if err != nil {
			return err
		}
		var planned bool
		err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM copies
			WHERE artifact = ? AND location = ? AND generation = ?)`, next.Artifact, next.Location, next.Generation).
			Scan(&planned)
		if err != nil || planned {
			return err
		}
		if !old.Deleted.IsZero() {
			return fmt.Errorf("%w: the copy was deleted", ErrConflict)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO copies
			VALUES (?, ?, ?, ?, ?, '', 0, '', ?, '', '', '', '', 'unknown', '', ?, 0, '', '', '', '')`,
			next.Artifact, next.Location, next.Generation, replacementKey(old.Of.Key, next.Generation), old.Size,
			sorted(at), sorted(old.Retain))
		return err
	})
	if err != nil {
		return Copy{}, err
	}
	return c.Copy(ctx, next)
}

// replacementKey is the key of a later generation.
func replacementKey(key string, generation int) string {
	return fmt.Sprintf("replacement-%d/%s", generation, key)
}

// Replace marks a damaged copy as replaced by a later generation, which must be verified.
func (c *Catalog) Replace(ctx context.Context, k CopyKey, by int, e Event) error {
	return c.enter(ctx, "replace copy", func(tx *sql.Tx) error {
		var verified string
		err := tx.QueryRowContext(ctx, `SELECT n.verified FROM copies AS o JOIN copies AS n
			ON n.artifact = o.artifact AND n.location = o.location AND n.generation = ?4
			WHERE o.artifact = ?1 AND o.location = ?2 AND o.generation = ?3 AND o.generation < ?4
				AND (n.deleted = '' OR o.replaced > 0)`,
			k.Artifact, k.Location, k.Generation, by).Scan(&verified)
		if errors.Is(err, sql.ErrNoRows) || err == nil && verified == "" {
			return fmt.Errorf("%w: the replacement is not verified", ErrConflict)
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE copies SET replaced = ?4
			WHERE artifact = ?1 AND location = ?2 AND generation = ?3`,
			k.Artifact, k.Location, k.Generation, by); err != nil {
			return err
		}
		return putEvent(ctx, tx, e)
	})
}

// Leftover lists copies in a location whose files are to be deleted and are not: damaged ones that were replaced, and
// those of failed archives that no legal hold covers.
func (c *Catalog) Leftover(ctx context.Context, location string, limit int) ([]Copy, error) {
	replaced, err := each(ctx, c.read, scanCopy, "SELECT "+copyColumns+copiesFrom+
		"WHERE c.location = ? AND c.replaced > 0 AND c.deleted = '' ORDER BY c.artifact LIMIT ?", location, page(limit))
	if err != nil {
		return nil, err
	}
	failed, err := each(ctx, c.read, scanCopy, "SELECT "+copyColumns+copiesFrom+`
		WHERE c.location = ?1 AND c.replaced = 0 AND c.deleted = '' AND a.job IN (
			SELECT job FROM archives WHERE outcome = ?2 AND job NOT IN (SELECT job FROM holds WHERE released = ''))
		ORDER BY c.artifact LIMIT ?3`, location, Failed, page(limit))
	return append(replaced, failed...), err
}

// PutDeleted enters that the file of a copy is deleted. The first entry holds.
func (c *Catalog) PutDeleted(ctx context.Context, k CopyKey, by, reason string, at time.Time) error {
	return c.enter(ctx, "put deleted", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE copies SET deleted = ?4, deleted_by = ?5, reason = ?6, progress = ''
			WHERE artifact = ?1 AND location = ?2 AND generation = ?3 AND deleted = ''`,
			k.Artifact, k.Location, k.Generation, sorted(at), by, reason)
		return err
	})
}

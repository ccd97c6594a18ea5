package catalog

import (
	"context"
	"database/sql"
	"time"
)

// Version is a version of an OCFL object that an archive job stored in a storage root. It is a copy in the sense of
// fixity checks.
type Version struct {
	Location string // name of the storage root, as in reports
	Object   string // id
	Name     string // such as v1
	Job      string // that stored it
	Digest   string // of its list of files: a changed inventory is noticed
	Stored   time.Time

	LastFixity time.Time
	NextFixity time.Time
	Bytes      int64 // that were read at its last check
	Faults     int   // files that the last check found damaged
	Healed     int   // files that were replaced, ever
}

const versionColumns = `location, object, version, job, digest, stored, last_fixity, next_fixity, bytes, faults, healed`

func scanVersion(r row) (v Version, err error) {
	err = r.Scan(&v.Location, &v.Object, &v.Name, &v.Job, &v.Digest, instant{&v.Stored}, instant{&v.LastFixity},
		instant{&v.NextFixity}, &v.Bytes, &v.Faults, &v.Healed)
	return v, err
}

// PutVersion enters a stored version, whose content was verified as it was written. A repetition changes nothing.
func (c *Catalog) PutVersion(ctx context.Context, v Version) error {
	return c.enter(ctx, "put version", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO versions (`+versionColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT DO NOTHING`, v.Location, v.Object, v.Name, v.Job,
			v.Digest, sorted(v.Stored), sorted(v.LastFixity), sorted(v.NextFixity), v.Bytes)
		return err
	})
}

// Versions lists the versions of an object in a storage root, in the order in which they were stored.
func (c *Catalog) Versions(ctx context.Context, location, object string) ([]Version, error) {
	return each(ctx, c.read, scanVersion, "SELECT "+versionColumns+` FROM versions
		WHERE location = ? AND object = ? ORDER BY stored, version`, location, object)
}

// VersionsOf lists the versions that an archive job stored, in order of storage root and object.
func (c *Catalog) VersionsOf(ctx context.Context, job string) ([]Version, error) {
	return each(ctx, c.read, scanVersion, "SELECT "+versionColumns+` FROM versions
		WHERE job = ? ORDER BY location, object, version`, job)
}

// DueVersions lists the versions in a storage root whose fixity check is due, those first for which it is due for the
// longest time. Objects from which a version is being removed are left out.
func (c *Catalog) DueVersions(ctx context.Context, location string, now time.Time, limit int) ([]Version, error) {
	return each(ctx, c.read, scanVersion, "SELECT "+versionColumns+` FROM versions
		WHERE location = ? AND next_fixity <= ? AND `+unremoved+" ORDER BY next_fixity, object, version LIMIT ?",
		location, sorted(now), page(limit))
}

// VersionFault is a file of a version that was damaged at its last check.
type VersionFault struct {
	Path      string // in the object; "." is the whole object
	Kind      string // changed, missing, extra or unreadable
	Algorithm string
	Expected  string // digest
	Found     string // digest
	Detail    string
	Since     time.Time // check that found it
}

// VersionResult is the result of a fixity check of a version.
type VersionResult struct {
	Version
	At     time.Time
	Next   time.Time
	Bytes  int64 // that were read
	Faults []VersionFault
	Healed int // files that were replaced in this check
}

// PutVersionChecked enters the result of a fixity check of a version, with events. A result that is not of a later time
// than the last one, or of a version that has another name meanwhile, changes nothing.
func (c *Catalog) PutVersionChecked(ctx context.Context, r VersionResult, events ...Event) error {
	return c.enter(ctx, "put fixity", func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `UPDATE versions SET last_fixity = ?4, next_fixity = ?5, bytes = ?6,
			faults = ?7, healed = healed + ?8
			WHERE location = ?1 AND object = ?2 AND version = ?3 AND job = ?9 AND last_fixity < ?4`, r.Location,
			r.Object, r.Name, sorted(r.At), sorted(r.Next), r.Bytes, len(r.Faults), r.Healed, r.Job)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if _, err = tx.ExecContext(ctx, `UPDATE checks SET copies = copies + 1, bytes = bytes + ?2
			WHERE location = ?1 AND ended = '' AND began <= ?3`, r.Location, r.Bytes, sorted(r.At)); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "DELETE FROM version_faults WHERE location = ? AND object = ? AND version = ?",
			r.Location, r.Object, r.Name); err != nil {
			return err
		}
		for _, f := range r.Faults {
			if _, err = tx.ExecContext(ctx, "INSERT INTO version_faults VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				r.Location, r.Object, r.Name, f.Path, f.Kind, f.Algorithm, f.Expected, f.Found, f.Detail,
				sorted(f.Since)); err != nil {
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

// FaultsOf lists the faults of a version that its last check found.
func (c *Catalog) FaultsOf(ctx context.Context, v *Version) ([]VersionFault, error) {
	return each(ctx, c.read, func(r row) (f VersionFault, err error) {
		err = r.Scan(&f.Path, &f.Kind, &f.Algorithm, &f.Expected, &f.Found, &f.Detail, instant{&f.Since})
		return f, err
	}, `SELECT path, kind, algorithm, expected, found, detail, since FROM version_faults
		WHERE location = ? AND object = ? AND version = ? ORDER BY path`, v.Location, v.Object, v.Name)
}

// FaultyVersions lists the versions whose last check found a fault.
func (c *Catalog) FaultyVersions(ctx context.Context, limit int) ([]Version, error) {
	return each(ctx, c.read, scanVersion, "SELECT "+versionColumns+` FROM versions WHERE faults > 0
		ORDER BY location, object, version LIMIT ?`, page(limit))
}

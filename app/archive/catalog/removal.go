package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// JobObject is an object in a storage root of OCFL in which a job stores a version, and what became of its removal.
type JobObject struct {
	Location, Object, Job string

	Removing   time.Time // its version is to be removed; zero: it is not
	By, Reason string    // of the removal
}

// unremoved is the condition that no version is being removed from the object of a row of versions: its versions may
// have other numbers than the catalog has.
const unremoved = `NOT EXISTS (SELECT 1 FROM version_jobs AS r WHERE r.location = versions.location
	AND r.object = versions.object AND r.removing <> '' AND r.removed = '')`

// PlanVersion enters that a job is about to store a version in an object, so that a removal finds it after any crash. A
// repetition changes nothing. [ErrConflict]: what the job stored is being removed.
func (c *Catalog) PlanVersion(ctx context.Context, location, object, job string) error {
	return c.enter(ctx, "plan version", func(tx *sql.Tx) error {
		var late bool
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM version_jobs WHERE job = ? AND removing <> '')",
			job).Scan(&late)
		if err == nil && late {
			err = fmt.Errorf("%w: what archive %s stored is being removed", ErrConflict, job)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO version_jobs VALUES (?, ?, ?, '', '', '', '')
			ON CONFLICT DO NOTHING`, location, object, job)
		return err
	})
}

const jobObjectColumns = "location, object, job, removing, by, reason"

func scanJobObject(r row) (o JobObject, err error) {
	err = r.Scan(&o.Location, &o.Object, &o.Job, instant{&o.Removing}, &o.By, &o.Reason)
	return o, err
}

// BeginRemoval enters that the versions of a job are to be removed, and lists the objects whose version is not removed
// yet. From then on no fixity check reads the versions of these objects, until the removal ends. A repetition changes
// nothing.
func (c *Catalog) BeginRemoval(ctx context.Context, job, by, reason string, at time.Time) ([]JobObject, error) {
	left := func() ([]JobObject, error) {
		return each(ctx, c.read, scanJobObject, "SELECT "+jobObjectColumns+` FROM version_jobs
			WHERE job = ? AND removed = '' ORDER BY location, object`, job)
	}
	if all, err := left(); err != nil || len(all) == 0 {
		return nil, err
	}
	err := c.enter(ctx, "begin removal", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE version_jobs SET removing = ?2, by = ?3, reason = ?4
			WHERE job = ?1 AND removing = ''`, job, sorted(at), by, reason)
		return err
	})
	if err != nil {
		return nil, err
	}
	return left()
}

// Removals lists jobs whose versions are being removed, the oldest removal first, with by and reason. Those that a
// legal hold covers are left out: it can come after a removal of what a failed job stored was interrupted.
func (c *Catalog) Removals(ctx context.Context, limit int) ([]JobObject, error) {
	return each(ctx, c.read, scanJobObject, `SELECT '', '', job, min(removing), min(by), min(reason)
		FROM version_jobs AS v WHERE removing <> '' AND removed = ''
			AND NOT EXISTS (SELECT 1 FROM holds AS h WHERE h.job = v.job AND released = '')
		GROUP BY job ORDER BY min(removing), job LIMIT ?`,
		page(limit))
}

// Removing reports whether a version of an object is being removed.
func (c *Catalog) Removing(ctx context.Context, location, object string) (is bool, err error) {
	err = c.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM version_jobs
		WHERE location = ? AND object = ? AND removing <> '' AND removed = '')`, location, object).Scan(&is)
	return is, err
}

// EndRemoval enters that the version of a job was removed from an object. names are the names of the versions that the
// object has now, by job: rows with other names get these, and their check is due. A repetition changes nothing.
func (c *Catalog) EndRemoval(ctx context.Context, o JobObject, names map[string]string, at time.Time) error {
	return c.enter(ctx, "end removal", func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `UPDATE version_jobs SET removed = ?4
			WHERE location = ?1 AND object = ?2 AND job = ?3 AND removing <> '' AND removed = ''`,
			o.Location, o.Object, o.Job, sorted(at))
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); n == 0 || err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM version_faults WHERE location = ?1 AND object = ?2 AND version IN
			(SELECT version FROM versions WHERE location = ?1 AND object = ?2 AND job = ?3)`, o.Location, o.Object,
			o.Job); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM versions WHERE location = ? AND object = ? AND job = ?",
			o.Location, o.Object, o.Job); err != nil {
			return err
		}
		if err := renumber(ctx, tx, o, names, at); err != nil {
			return err
		}
		return putEvent(ctx, tx, Event{
			Key: "version deletion/" + o.Location + "/" + o.Object + "/" + o.Job, Job: o.Job, Type: "deletion",
			Outcome: "success", Agent: o.By, At: at,
			Detail: fmt.Sprintf("version of %s in %s: %s", o.Object, o.Location, o.Reason),
		})
	})
}

// renumber gives the rows of an object the names that its versions have now. The row of a version that the object lacks
// keeps its name, or gets a free one: its next check finds the fault.
func renumber(ctx context.Context, tx *sql.Tx, o JobObject, names map[string]string, at time.Time) error {
	rows, err := tx.QueryContext(ctx, "SELECT "+versionColumns+` FROM versions WHERE location = ? AND object = ?
		ORDER BY stored, version`, o.Location, o.Object)
	if err != nil {
		return err
	}
	defer rows.Close()
	taken := map[string]bool{}
	for _, name := range names {
		taken[name] = true
	}
	to := map[string]Version{} // by the name so far
	for rows.Next() {
		v, err := scanVersion(rows)
		if err != nil {
			return err
		}
		was, name := v.Name, names[v.Job]
		if name == "" {
			for name = was; taken[name]; name = "former-" + name {
			}
		}
		if taken[name] = true; name != was {
			v.Name = name
			to[was] = v
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rename(ctx, tx, to, at)
}

// rename gives rows of an object other names.
func rename(ctx context.Context, tx *sql.Tx, to map[string]Version, at time.Time) error {
	for was, v := range to { // first to names that no version has
		for _, q := range []string{
			"DELETE FROM version_faults WHERE location = ?1 AND object = ?2 AND version = ?3",
			"UPDATE versions SET version = '~' || version WHERE location = ?1 AND object = ?2 AND version = ?3",
		} {
			if _, err := tx.ExecContext(ctx, q, v.Location, v.Object, was); err != nil {
				return err
			}
		}
	}
	for was, v := range to {
		if _, err := tx.ExecContext(ctx, `UPDATE versions SET version = ?4, faults = 0, next_fixity = ?5
			WHERE location = ?1 AND object = ?2 AND version = ?3`, v.Location, v.Object, "~"+was, v.Name,
			sorted(at)); err != nil {
			return err
		}
		if err := putEvent(ctx, tx, Event{
			Key: fmt.Sprintf("version renamed/%s/%s/%s/%d", v.Location, v.Object, v.Job, at.UnixNano()), Job: v.Job,
			Type: "metadata modification", Outcome: "success", At: at,
			Detail: fmt.Sprintf("version %s of %s in %s is now %s: another version was deleted", was, v.Object,
				v.Location, v.Name),
		}); err != nil {
			return err
		}
	}
	return nil
}

// OtherJobs counts the other jobs that have a version of an object, or may have one.
func (c *Catalog) OtherJobs(ctx context.Context, o JobObject) (n int, err error) {
	err = c.read.QueryRowContext(ctx, `SELECT count(*) FROM version_jobs
		WHERE location = ? AND object = ? AND job <> ? AND removed = ''`, o.Location, o.Object, o.Job).Scan(&n)
	return n, err
}

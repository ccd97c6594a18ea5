package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Outcome is how an archive job ended.
type Outcome string

// The outcomes. An archive that is Making is being made.
const (
	Making   Outcome = "making"
	Complete Outcome = "complete" // stored and signed
	Failed   Outcome = "failed"   // also: timed out, or cancelled
	Deleted  Outcome = "deleted"  // its copies are deleted; a tombstone remains
)

// Archive is what one archive job made. It refers to the source by ids only: it can be read after the source lost its
// course.
type Archive struct {
	Job        string // id of the job
	Source     string
	Course     string // id in the source
	CourseName string
	Category   string
	Owner      string
	Origin     string // what started it: manual, schedule, event
	Settings   json.RawMessage
	Outcome    Outcome
	Created    time.Time
	Ended      time.Time // zero: it has not ended
}

const archiveColumns = `job, source, course, course_name, category, owner, origin, settings, outcome, created, ended`

func scanArchive(r row) (a Archive, err error) {
	var settings string
	err = r.Scan(&a.Job, &a.Source, &a.Course, &a.CourseName, &a.Category, &a.Owner, &a.Origin, &settings, &a.Outcome,
		instant{&a.Created}, instant{&a.Ended})
	a.Settings = json.RawMessage(settings)
	return a, err
}

// Begin enters an archive. A second Begin of the job changes nothing; one for another course is [ErrConflict].
func (c *Catalog) Begin(ctx context.Context, a Archive) error {
	if a.Job == "" || a.Source == "" {
		return errors.New("catalog: an archive needs a job and a source")
	}
	if len(a.Settings) == 0 {
		a.Settings = json.RawMessage("{}")
	}
	return c.enter(ctx, "begin archive", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO archives (`+archiveColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '') ON CONFLICT DO NOTHING`,
			a.Job, a.Source, a.Course, a.CourseName, a.Category, a.Owner, a.Origin, string(a.Settings), Making,
			sorted(a.Created))
		if err != nil {
			return err
		}
		had, err := scanArchive(tx.QueryRowContext(ctx,
			"SELECT "+archiveColumns+" FROM archives WHERE job = ?", a.Job))
		if err == nil && (had.Source != a.Source || had.Course != a.Course) {
			err = fmt.Errorf("%w: archive %s is of course %s of %s", ErrConflict, a.Job, had.Course, had.Source)
		}
		return err
	})
}

// End enters how an archive ended: Complete or Failed. The first end holds; another one is [ErrConflict]. A complete
// archive ends the failures of its activities.
func (c *Catalog) End(ctx context.Context, job string, outcome Outcome, at time.Time) error {
	if outcome != Complete && outcome != Failed {
		return fmt.Errorf("catalog: an archive cannot end as %q", outcome)
	}
	return c.enter(ctx, "end archive", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE archives SET outcome = ?, ended = ? WHERE job = ? AND outcome = ?",
			outcome, sorted(at), job, Making); err != nil {
			return err
		}
		var now Outcome
		err := tx.QueryRowContext(ctx, "SELECT outcome FROM archives WHERE job = ?", job).Scan(&now)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("archive %s: %w", job, ErrNotFound)
		case err != nil:
			return err
		case now != outcome && now != Deleted:
			return fmt.Errorf("%w: archive %s ended as %s", ErrConflict, job, now)
		case outcome != Complete:
			return nil
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM failures WHERE (source, activity) IN
			(SELECT source, activity FROM activities WHERE job = ?)`, job)
		return err
	})
}

// Archive gives the archive of a job.
func (c *Catalog) Archive(ctx context.Context, job string) (Archive, error) {
	return one("archive "+job, c.read.QueryRowContext(ctx,
		"SELECT "+archiveColumns+" FROM archives WHERE job = ?", job), scanArchive)
}

// Query selects archives. Empty fields select all.
type Query struct {
	Source   string
	Course   string
	Activity string // id in the source
	Owner    string
	Outcome  Outcome
	Before   string // the job after which to go on: archives are listed in descending order of their jobs' ids
	Limit    int    // defaults to 100
}

// Archives lists archives, those with the greatest job id first. Job ids grow with time.
func (c *Catalog) Archives(ctx context.Context, q Query) ([]Archive, error) {
	return each(ctx, c.read, scanArchive, `SELECT `+archiveColumns+` FROM archives AS a
		WHERE ?1 IN ('', source) AND ?2 IN ('', course) AND ?3 IN ('', owner) AND ?4 IN ('', outcome)
			AND (?5 = '' OR job < ?5) AND (?6 = '' OR job IN (SELECT job FROM activities WHERE activity = ?6))
		ORDER BY job DESC LIMIT ?7`,
		q.Source, q.Course, q.Owner, q.Outcome, q.Before, q.Activity, page(q.Limit))
}

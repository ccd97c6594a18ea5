package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"
)

// Activity is what an archive has of an activity.
type Activity struct {
	Job         string
	Activity    string // id in the source
	Source      string // set by the catalog
	Course      string // set by the catalog
	Module      string
	Name        string
	URL         string
	Section     string
	Fingerprint string // of the content that was archived
	Items       int64
	Bytes       int64
	Drift       bool // it changed while it was archived
	Archived    time.Time
}

const activityColumns = `job, activity, source, course, module, name, url, section, fingerprint, items, bytes, drift,
	archived`

func scanActivity(r row) (a Activity, err error) {
	err = r.Scan(&a.Job, &a.Activity, &a.Source, &a.Course, &a.Module, &a.Name, &a.URL, &a.Section, &a.Fingerprint,
		&a.Items, &a.Bytes, &a.Drift, instant{&a.Archived})
	return a, err
}

// PutActivity enters what an archive has of an activity. A later attempt of the same job replaces it, until the
// archive has ended; then it is [ErrConflict].
func (c *Catalog) PutActivity(ctx context.Context, a Activity) error {
	return c.enter(ctx, "put activity", func(tx *sql.Tx) error {
		had, err := scanActivity(tx.QueryRowContext(ctx,
			"SELECT "+activityColumns+" FROM activities WHERE job = ? AND activity = ?", a.Job, a.Activity))
		a.Source, a.Course, a.Archived = had.Source, had.Course, a.Archived.UTC()
		if err == nil && had == a {
			return nil
		}
		return whileMade(ctx, tx, a.Job, func(archive Archive) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO activities (`+activityColumns+`)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, activity) DO UPDATE SET
				source = excluded.source, course = excluded.course, module = excluded.module, name = excluded.name,
				url = excluded.url, section = excluded.section, fingerprint = excluded.fingerprint,
				items = excluded.items, bytes = excluded.bytes, drift = excluded.drift, archived = excluded.archived`,
				a.Job, a.Activity, archive.Source, archive.Course, a.Module, a.Name, a.URL, a.Section, a.Fingerprint,
				a.Items, a.Bytes, a.Drift, sorted(a.Archived))
			return err
		})
	})
}

// Activities lists the activities of an archive.
func (c *Catalog) Activities(ctx context.Context, job string) ([]Activity, error) {
	return each(ctx, c.read, scanActivity,
		"SELECT "+activityColumns+" FROM activities WHERE job = ? ORDER BY activity", job)
}

// Failure is a job that could not archive an activity.
type Failure struct {
	Source, Activity, Fingerprint string
	Job                           string
	At                            time.Time
	Cause                         string
}

// PutFailure enters a failure. A job fails an activity at most once.
func (c *Catalog) PutFailure(ctx context.Context, f Failure) error {
	return c.enter(ctx, "put failure", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			f.Source, f.Activity, f.Fingerprint, f.Job, sorted(f.At), f.Cause)
		return err
	})
}

// Backoff is the pause between archives of an activity that fails with the same fingerprint: First, doubled with each
// failure, at most Most.
type Backoff struct{ First, Most time.Duration }

// Attempts are the failures of an activity with one fingerprint.
type Attempts struct {
	Failures int
	Last     time.Time
	Next     time.Time // not before; zero without failures
	Cause    string    // of the last one
}

// Attempts gives the failures of an activity with a fingerprint. One with another fingerprint starts anew.
func (c *Catalog) Attempts(
	ctx context.Context, source, activity, fingerprint string, b Backoff,
) (a Attempts, err error) {
	row := c.read.QueryRowContext(ctx, `SELECT count(*) OVER (), at, cause FROM failures
		WHERE source = ? AND activity = ? AND fingerprint = ? ORDER BY at DESC, job DESC LIMIT 1`,
		source, activity, fingerprint)
	switch err := row.Scan(&a.Failures, instant{&a.Last}, &a.Cause); {
	case errors.Is(err, sql.ErrNoRows):
		return Attempts{}, nil
	case err != nil:
		return a, err
	}
	a.Next = a.Last.Add(b.pause(a.Failures))
	return a, nil
}

// pause is the time after the nth failure.
func (b Backoff) pause(n int) time.Duration {
	d, most := cmp.Or(b.First, time.Hour), cmp.Or(b.Most, 7*24*time.Hour)
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

// Waiting is an activity whose newest archive failed, and that is not tried again before a time with the same content.
type Waiting struct {
	Activity, Course string // the course is empty if the job failed before it began
	Name             string // as in its newest archive; empty: it has none
	Job              string // that failed last
	Attempts
}

// Waiting lists the activities of a source that wait at a time, the next attempt first. Of an activity that failed with
// several fingerprints, the newest failure counts.
func (c *Catalog) Waiting(ctx context.Context, source string, b Backoff, now time.Time) ([]Waiting, error) {
	all, err := each(ctx, c.read, func(r row) (w Waiting, err error) {
		err = r.Scan(&w.Activity, &w.Course, &w.Name, &w.Job, &w.Failures, instant{&w.Last}, &w.Cause)
		w.Next = w.Last.Add(b.pause(w.Failures))
		return w, err
	}, `SELECT f.activity, coalesce((SELECT course FROM archives WHERE job = f.job), ''), coalesce((
			SELECT name FROM activities WHERE source = f.source AND activity = f.activity ORDER BY archived DESC LIMIT 1
		), ''), f.job, f.failures, f.at, f.cause
		FROM (
			SELECT *, count(*) OVER (PARTITION BY activity, fingerprint) AS failures,
				row_number() OVER (PARTITION BY activity ORDER BY at DESC, job DESC) AS place
			FROM failures WHERE source = ?
		) AS f
		WHERE f.place = 1 AND f.at > ? AND NOT EXISTS (
			SELECT 1 FROM activities AS a JOIN archives AS r ON r.job = a.job AND r.outcome = ?
			WHERE a.source = f.source AND a.activity = f.activity AND a.archived >= f.at
		)`, source, sorted(now.Add(-b.pause(math.MaxInt))), Complete)
	all = slices.DeleteFunc(all, func(w Waiting) bool { return !w.Next.After(now) })
	slices.SortFunc(all, func(a, b Waiting) int {
		return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.Activity, b.Activity))
	})
	return all, err
}

// State compares an activity with its newest archive.
type State string

// The states of an activity.
const (
	Archived State = "archived" // as it is now
	Changed  State = "changed"  // there is an archive of an earlier content
	Missing  State = "missing"  // there is no archive
	Removed  State = "removed"  // there is an archive, but its course has the activity no more
	Expired  State = "expired"  // its archive was deleted, as it is now
)

// Current is an activity as the source has it.
type Current struct {
	Activity    string
	Fingerprint string // empty: not known, and not compared
}

// Row is an activity in the overview of a course.
type Row struct {
	Activity string
	State    State
	Newest   Activity // in its newest complete or deleted archive; zero if it is Missing
	Attempts Attempts // with the fingerprint that it has now
}

// Overview compares the activities that a course has now with the newest complete archive of each. After them it lists
// the archived activities that the course has no more.
func (c *Catalog) Overview(
	ctx context.Context, source, course string, now []Current, b Backoff,
) ([]Row, error) {
	type known struct {
		Activity
		outcome Outcome
	}
	all, err := each(ctx, c.read, func(r row) (k known, err error) {
		err = r.Scan(&k.Job, &k.Activity.Activity, &k.Source, &k.Course, &k.Module, &k.Name, &k.URL, &k.Section,
			&k.Fingerprint, &k.Items, &k.Bytes, &k.Drift, instant{&k.Archived}, &k.outcome)
		return k, err
	}, `SELECT * FROM (SELECT `+activityColumns+`, (SELECT outcome FROM archives WHERE job = a.job) AS outcome
			FROM activities AS a WHERE source = ? AND course = ?) AS known
		WHERE outcome IN (?, ?) ORDER BY activity, archived, job`, source, course, Complete, Deleted)
	if err != nil {
		return nil, err
	}
	newest := map[string]known{}
	var order []string
	for _, k := range all {
		if _, ok := newest[k.Activity.Activity]; !ok {
			order = append(order, k.Activity.Activity)
		}
		newest[k.Activity.Activity] = k
	}
	rows := make([]Row, 0, len(now))
	for _, n := range now {
		k, ok := newest[n.Activity]
		delete(newest, n.Activity)
		r := Row{Activity: n.Activity, State: Archived, Newest: k.Activity}
		switch {
		case !ok:
			r.State = Missing
		case n.Fingerprint != "" && n.Fingerprint != k.Fingerprint:
			r.State = Changed
		case k.outcome == Deleted:
			r.State = Expired
		}
		if r.Attempts, err = c.Attempts(ctx, source, n.Activity, n.Fingerprint, b); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	for _, id := range order {
		if k, ok := newest[id]; ok && k.outcome == Complete {
			rows = append(rows, Row{Activity: id, State: Removed, Newest: k.Activity})
		}
	}
	return rows, nil
}

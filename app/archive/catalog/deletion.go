package catalog

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Hold is a legal hold on an archive: nothing of it is deleted until it is released.
type Hold struct {
	Job, Name  string
	By, Reason string
	Since      time.Time
	Released   time.Time // zero: it applies
	ReleasedBy string
}

// Hold puts a legal hold on an archive, or applies a released one of the same name again. It is [ErrConflict] for an
// archive that is deleted, or whose copies are being deleted: another hold would come too late.
func (c *Catalog) Hold(ctx context.Context, h Hold) error {
	return c.enter(ctx, "hold", func(tx *sql.Tx) error {
		var late bool
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deletions WHERE job = ?1 AND state IN (?2, ?3))
			AND NOT EXISTS (SELECT 1 FROM holds WHERE job = ?1 AND name = ?4 AND since = ?5)`,
			h.Job, Executing, Done, h.Name, sorted(h.Since)).Scan(&late)
		if err == nil && late {
			err = fmt.Errorf("%w: archive %s is being deleted", ErrConflict, h.Job)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO holds VALUES (?1, ?2, ?3, ?4, ?5, '', '')
			ON CONFLICT (job, name) DO UPDATE SET by = ?3, reason = ?4, since = ?5, released = '', released_by = ''
			WHERE holds.released <> ''`,
			h.Job, h.Name, h.By, h.Reason, sorted(h.Since))
		return err
	})
}

// Release releases a legal hold. [ErrNotFound]: there is none.
func (c *Catalog) Release(ctx context.Context, job, name, by string, at time.Time) error {
	return c.enter(ctx, "release", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE holds SET released = ?, released_by = ?
			WHERE job = ? AND name = ? AND released = ''`, sorted(at), by, job, name); err != nil {
			return err
		}
		var n int
		err := tx.QueryRowContext(ctx, "SELECT 1 FROM holds WHERE job = ? AND name = ?", job, name).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("hold %s on archive %s: %w", name, job, ErrNotFound)
		}
		return err
	})
}

// Holds lists the legal holds on an archive, released ones included.
func (c *Catalog) Holds(ctx context.Context, job string) ([]Hold, error) {
	return each(ctx, c.read, func(r row) (h Hold, err error) {
		err = r.Scan(&h.Job, &h.Name, &h.By, &h.Reason, instant{&h.Since}, instant{&h.Released}, &h.ReleasedBy)
		return h, err
	}, "SELECT * FROM holds WHERE job = ? ORDER BY name", job)
}

// DeletionState is how far a request to delete came.
type DeletionState string

// The states of a request.
const (
	Requested DeletionState = "requested" // another person has to approve it
	Approved  DeletionState = "approved"
	Refused   DeletionState = "refused"
	Executing DeletionState = "executing" // copies may be deleted already: it can only go on
	Done      DeletionState = "done"
)

// DeletionKind is why an archive is deleted.
type DeletionKind string

// The kinds.
const (
	Retention DeletionKind = "retention" // its time has ended: no person has to approve it
	Early     DeletionKind = "early"     // while its time lasts, or it has none: two persons
)

// Deletion is a request to delete an archive.
type Deletion struct {
	ID          string
	Job         string
	Kind        DeletionKind
	State       DeletionState
	Reason      string
	RequestedBy string
	Requested   time.Time
	DecidedBy   string
	Decided     time.Time
	Ended       time.Time
}

const deletionColumns = `id, job, kind, state, reason, requested_by, requested, decided_by, decided, ended`

func scanDeletion(r row) (d Deletion, err error) {
	err = r.Scan(&d.ID, &d.Job, &d.Kind, &d.State, &d.Reason, &d.RequestedBy, instant{&d.Requested}, &d.DecidedBy,
		instant{&d.Decided}, instant{&d.Ended})
	return d, err
}

// RequestDeletion requests that an archive is deleted: asked has the id, the job, the person, the reason and the time.
// If its retention time has ended the request is approved at once; else another person has to approve it. [ErrHeld]: a
// legal hold applies. A repetition with the same id gives the request as it is now.
func (c *Catalog) RequestDeletion(ctx context.Context, asked Deletion) (Deletion, error) {
	if asked.ID == "" || asked.RequestedBy == "" {
		return Deletion{}, errors.New("catalog: a request to delete needs an id and a person")
	}
	var d Deletion
	err := c.enter(ctx, "request deletion", func(tx *sql.Tx) (err error) {
		if d, err = deletion(ctx, tx, asked.ID); !errors.Is(err, ErrNotFound) {
			if err == nil && d.Job != asked.Job {
				err = fmt.Errorf("%w: request %s is about archive %s", ErrConflict, asked.ID, d.Job)
			}
			return err
		}
		ended, err := deletable(ctx, tx, asked.Job, asked.Requested)
		if err != nil {
			return err
		}
		d = Deletion{
			ID: asked.ID, Job: asked.Job, Kind: Early, State: Requested, Reason: asked.Reason,
			RequestedBy: asked.RequestedBy, Requested: asked.Requested.UTC(),
		}
		if ended {
			d.Kind, d.State = Retention, Approved
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO deletions ("+deletionColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, '', '', '')`,
			d.ID, d.Job, d.Kind, d.State, d.Reason, d.RequestedBy, sorted(d.Requested))
		return err
	})
	return d, err
}

func deletion(ctx context.Context, tx *sql.Tx, id string) (Deletion, error) {
	d, err := scanDeletion(tx.QueryRowContext(ctx, "SELECT "+deletionColumns+" FROM deletions WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("request %s: %w", id, ErrNotFound)
	}
	return d, err
}

// querier is a transaction or a connection.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// deletable reports whether the retention time of an archive has ended. One without a time is kept indefinitely, and a
// failed one was never an archive. It refuses one that is held, being made, or deleted.
func deletable(ctx context.Context, tx querier, job string, at time.Time) (ended bool, err error) {
	var outcome Outcome
	var hold string
	var kept int // copies that are to be kept, indefinitely or for a time
	err = tx.QueryRowContext(ctx, `SELECT outcome,
			coalesce((SELECT min(name) FROM holds AS h WHERE h.job = a.job AND released = ''), ''),
			(SELECT count(*) FROM copies AS c JOIN artifacts AS f ON f.id = c.artifact
				WHERE f.job = a.job AND c.deleted = '' AND (c.retain = '' OR c.retain > ?2))
		FROM archives AS a WHERE job = ?1`, job, sorted(at)).Scan(&outcome, &hold, &kept)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, fmt.Errorf("archive %s: %w", job, ErrNotFound)
	case err != nil:
		return false, err
	case hold != "":
		return false, fmt.Errorf("%w: archive %s is held by %q; to release it: stagepost archive release %s %q "+
			"--note WHY", ErrHeld, job, hold, job, hold)
	case outcome == Making:
		return false, fmt.Errorf("%w: archive %s is being made", ErrConflict, job)
	case outcome == Deleted:
		return false, fmt.Errorf("%w: archive %s is deleted", ErrConflict, job)
	}
	return kept == 0 || outcome == Failed, nil
}

// Deletable reports whether the retention time of an archive has ended, so that one person can delete it. It refuses
// one that is held ([ErrHeld]), being made, or deleted.
func (c *Catalog) Deletable(ctx context.Context, job string, at time.Time) (ended bool, err error) {
	return deletable(ctx, c.read, job, at)
}

// DeletionsOf lists the requests to delete an archive, the oldest first.
func (c *Catalog) DeletionsOf(ctx context.Context, job string) ([]Deletion, error) {
	return each(ctx, c.read, scanDeletion,
		"SELECT "+deletionColumns+" FROM deletions WHERE job = ? ORDER BY requested, id", job)
}

// Deletion gives a request to delete.
func (c *Catalog) Deletion(ctx context.Context, id string) (Deletion, error) {
	return one("request "+id, c.read.QueryRowContext(ctx, "SELECT "+deletionColumns+" FROM deletions WHERE id = ?", id),
		scanDeletion)
}

// DecideDeletion approves or refuses a request. The person must be another one than the person who requested it
// ([ErrSame]); a request may be withdrawn, which is a refusal, by the same person. A repetition of the same decision
// changes nothing.
func (c *Catalog) DecideDeletion(ctx context.Context, id, by string, approve bool, at time.Time) (Deletion, error) {
	var d Deletion
	err := c.enter(ctx, "decide deletion", func(tx *sql.Tx) (err error) {
		if d, err = deletion(ctx, tx, id); err != nil {
			return err
		}
		state := Refused
		if approve {
			state = Approved
		}
		switch {
		case d.DecidedBy == by && (d.State == state || approve && (d.State == Executing || d.State == Done)):
			return nil
		case d.State == Approved && !approve: // it did not begin
		case d.State != Requested:
			return fmt.Errorf("%w: request %s is %s", ErrConflict, id, d.State)
		case approve && (by == d.RequestedBy || by == ""):
			return fmt.Errorf("%w: %s requested it", ErrSame, d.RequestedBy)
		}
		d.State, d.DecidedBy, d.Decided = state, by, at.UTC()
		_, err = tx.ExecContext(ctx, "UPDATE deletions SET state = ?, decided_by = ?, decided = ? WHERE id = ?",
			d.State, by, sorted(at), id)
		return err
	})
	return d, err
}

// BeginDeletion starts to execute an approved request. It is refused if a legal hold came meanwhile ([ErrHeld]), or if
// the retention time of a request that no second person approved was extended ([ErrRetained]). A request that is
// executed goes on.
func (c *Catalog) BeginDeletion(ctx context.Context, id string, at time.Time) (Deletion, error) {
	var d Deletion
	err := c.enter(ctx, "begin deletion", func(tx *sql.Tx) (err error) {
		if d, err = deletion(ctx, tx, id); err != nil {
			return err
		}
		switch d.State {
		case Executing, Done:
			return nil
		case Approved:
		default:
			return fmt.Errorf("%w: request %s is %s", ErrConflict, id, d.State)
		}
		ended, err := deletable(ctx, tx, d.Job, at)
		if err != nil {
			return err
		}
		if !ended && d.Kind != Early {
			return fmt.Errorf("%w: archive %s", ErrRetained, d.Job)
		}
		d.State = Executing
		_, err = tx.ExecContext(ctx, "UPDATE deletions SET state = ? WHERE id = ?", d.State, id)
		return err
	})
	return d, err
}

// Tombstone is what remains of a deleted archive, besides its record, its artifacts and the rows of its copies.
type Tombstone struct {
	Job        string
	Deletion   string // id of the request
	By         string
	ApprovedBy string // empty: the retention time had ended
	Reason     string
	Artifacts  int64
	Copies     int64  // versions of OCFL objects included
	Bytes      int64  // of the artifacts
	Digest     string // SHA-256 of the list of "SHA-512, two spaces, path" of all artifacts by path
	At         time.Time
}

// EndDeletion enters the tombstone of an archive whose copies and versions are all deleted. A repetition changes
// nothing.
func (c *Catalog) EndDeletion(ctx context.Context, id string, at time.Time) (Tombstone, error) {
	var t Tombstone
	err := c.enter(ctx, "end deletion", func(tx *sql.Tx) error {
		d, err := deletion(ctx, tx, id)
		if err != nil {
			return err
		}
		if d.State == Done {
			t, err = scanTombstone(tx.QueryRowContext(ctx, "SELECT * FROM tombstones WHERE job = ?", d.Job))
			return err
		}
		if d.State != Executing {
			return fmt.Errorf("%w: request %s is %s", ErrConflict, id, d.State)
		}
		t = Tombstone{
			Job: d.Job, Deletion: id, By: d.RequestedBy, ApprovedBy: d.DecidedBy, Reason: d.Reason, At: at.UTC(),
		}
		if err := sumDeleted(ctx, tx, &t); err != nil {
			return err
		}
		for _, q := range []string{
			`INSERT INTO tombstones VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`,
			`UPDATE archives SET outcome = 'deleted' WHERE job = ?1`,
			`UPDATE deletions SET state = 'done', ended = ?10 WHERE id = ?2`,
			`DELETE FROM contents WHERE job = ?1`,
		} {
			if _, err := tx.ExecContext(ctx, q, t.Job, t.Deletion, t.By, t.ApprovedBy, t.Reason, t.Artifacts, t.Copies,
				t.Bytes, t.Digest, sorted(t.At)); err != nil {
				return err
			}
		}
		return putEvent(ctx, tx, Event{
			Key: "deletion/" + id, Job: t.Job, Type: "deletion", Outcome: "success", Agent: t.By, Detail: t.Reason,
			At: at,
		})
	})
	return t, err
}

// sumDeleted sums up what was deleted, and refuses an archive with a copy that is not.
func sumDeleted(ctx context.Context, tx *sql.Tx, t *Tombstone) error {
	var left int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE c.deleted = ''), count(*) FROM copies AS c
		JOIN artifacts AS a ON a.id = c.artifact WHERE a.job = ?`, t.Job).Scan(&left, &t.Copies); err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%w: %d copies of archive %s are not deleted", ErrConflict, left, t.Job)
	}
	var versions int64 // in a storage root of OCFL a copy is a version of an object
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE removed = ''), count(*) FROM version_jobs
		WHERE job = ?`, t.Job).Scan(&left, &versions); err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%w: %d versions of archive %s are not deleted", ErrConflict, left, t.Job)
	}
	t.Copies += versions
	rows, err := tx.QueryContext(ctx, "SELECT path, size, sha512 FROM artifacts WHERE job = ? ORDER BY path", t.Job)
	if err != nil {
		return err
	}
	defer rows.Close()
	sum := sha256.New()
	for rows.Next() {
		var path, sha512 string
		var size int64
		if err := rows.Scan(&path, &size, &sha512); err != nil {
			return err
		}
		t.Artifacts, t.Bytes = t.Artifacts+1, t.Bytes+size
		fmt.Fprintf(sum, "%s  %s\n", sha512, path)
	}
	t.Digest = hex.EncodeToString(sum.Sum(nil))
	return rows.Err()
}

func scanTombstone(r row) (t Tombstone, err error) {
	err = r.Scan(&t.Job, &t.Deletion, &t.By, &t.ApprovedBy, &t.Reason, &t.Artifacts, &t.Copies, &t.Bytes, &t.Digest,
		instant{&t.At})
	return t, err
}

// Tombstone gives what remains of a deleted archive.
func (c *Catalog) Tombstone(ctx context.Context, job string) (Tombstone, error) {
	return one("tombstone of "+job, c.read.QueryRowContext(ctx, "SELECT * FROM tombstones WHERE job = ?", job),
		scanTombstone)
}

// Deletions lists requests in a state, or all (empty), the oldest first.
func (c *Catalog) Deletions(ctx context.Context, state DeletionState, limit int) ([]Deletion, error) {
	return each(ctx, c.read, scanDeletion, "SELECT "+deletionColumns+` FROM deletions WHERE ?1 IN ('', state)
		ORDER BY requested, id LIMIT ?2`, state, page(limit))
}

// Outlived lists complete and failed archives with copies whose retention time has ended, that no legal hold covers and
// that no open request is about. An archive without a retention time is kept until a person deletes it.
func (c *Catalog) Outlived(ctx context.Context, now time.Time, limit int) ([]string, error) {
	return each(ctx, c.read, func(r row) (job string, err error) {
		err = r.Scan(&job)
		return job, err
	}, `SELECT a.job FROM archives AS a JOIN artifacts AS f ON f.job = a.job
			JOIN copies AS c ON c.artifact = f.id AND c.deleted = ''
		WHERE a.outcome IN (?2, ?3)
			AND NOT EXISTS (SELECT 1 FROM holds AS h WHERE h.job = a.job AND released = '')
			AND NOT EXISTS (SELECT 1 FROM deletions AS d WHERE d.job = a.job AND d.state NOT IN (?4, ?5))
		GROUP BY a.job HAVING min(c.retain) <> '' AND max(c.retain) <= ?1 ORDER BY a.job LIMIT ?6`,
		sorted(now), Complete, Failed, Done, Refused, page(limit))
}

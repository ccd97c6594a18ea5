package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Entry is a version that was stored.
type Entry struct {
	Object
	Job       string
	Batch     string
	Submitter string
	Note      string
	Version   int
	At        time.Time
	Places    []Place
	Locks     []Lock // under which the version was stored and is recorded
}

// File is a file of a version.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	SHA512 string `json:"sha512"`
	MIME   string `json:"mime,omitempty"`
}

// Record enters a version with its files, all or nothing, and ends the entry's locks in the same transaction. ErrStale:
// one of them was lost; nothing changed. When the job's version is there already, only the locks end.
func (i *Inventory) Record(ctx context.Context, e Entry, files iter.Seq2[File, error]) error {
	err := i.advanced(ctx, func(tx *change) (bool, error) {
		if err := check(ctx, tx, e.Locks); err != nil {
			return false, err
		}
		var version int
		err := tx.QueryRowContext(ctx, "SELECT version FROM versions WHERE job = ?", e.Job).Scan(&version)
		entered := errors.Is(err, sql.ErrNoRows)
		if entered {
			err = insert(ctx, tx, &e, files)
		}
		if err != nil {
			return false, err
		}
		_, err = release(ctx, tx, e.Locks)
		return entered, err
	})
	if err != nil {
		return fmt.Errorf("record %s v%d: %w", e.ARK, e.Version, err)
	}
	return nil
}

func insert(ctx context.Context, tx *change, e *Entry, files iter.Seq2[File, error]) error {
	at := e.At.UTC().Format(time.RFC3339)
	_, err := tx.ExecContext(ctx, `INSERT INTO objects VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
		ON CONFLICT (ark) DO UPDATE SET collection = ?3, profile = ?4, title = ?5, creator = ?6, date = ?7, head = ?8,
			changed = ?9 WHERE objects.head < ?8`,
		e.ARK, e.Owner, e.Collection, e.Profile, e.Title, e.Creator, e.Date, e.Version, at)
	if err != nil {
		return err
	}
	if err := deposited(ctx, tx, e.ARK, e.Submitter, e.Profile); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?)",
		e.ARK, e.Version, e.Job, e.Batch, e.Submitter, e.Note, at); err != nil {
		return err
	}
	for _, p := range e.Places {
		if _, err := tx.ExecContext(ctx, "INSERT INTO places VALUES (?, ?, ?, ?, ?)", e.ARK, e.Version, p.Dir, p.Name,
			sorted(e.At)); err != nil {
			return err
		}
	}
	for _, id := range e.LocalIDs {
		if _, err := tx.ExecContext(ctx, `INSERT INTO local_ids VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, e.Owner,
			id, e.ARK, e.Job); err != nil {
			return err
		}
	}
	return insertFiles(ctx, tx, e, files)
}

// insertion inserts rows of files.
func insertion(rows int) string {
	const row = "(?, ?, ?, ?, ?, ?, ?)"
	return "INSERT INTO files VALUES " + row + strings.Repeat(", "+row, rows-1)
}

func insertFiles(ctx context.Context, tx *change, e *Entry, files iter.Seq2[File, error]) error {
	add, err := tx.PrepareContext(ctx, insertion(tx.rows()))
	if err != nil {
		return err
	}
	defer add.Close()
	count, bytes := 0, int64(0)
	var values []any
	for f, err := range files {
		if err != nil {
			return err
		}
		values = append(values, e.ARK, e.Version, f.Path, f.Size, f.SHA256, f.SHA512, f.MIME)
		count, bytes = count+1, bytes+f.Size
		if count%tx.rows() == 0 {
			within, err := tx.within(ctx)
			if err != nil {
				return err
			}
			if _, err := add.ExecContext(within, values...); err != nil {
				return err
			}
			values = values[:0]
		}
	}
	if rest := count % tx.rows(); rest > 0 {
		if _, err := tx.ExecContext(ctx, insertion(rest), values...); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "UPDATE versions SET files = ?, bytes = ? WHERE ark = ? AND version = ?", count, bytes,
		e.ARK, e.Version)
	return err
}

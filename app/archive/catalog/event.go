package catalog

import (
	"context"
	"database/sql"
	"time"
)

// Event is a preservation event of an archive, after the PREMIS data dictionary 3.0: what happened, when, by which
// agent, and the outcome. Events are only added.
type Event struct {
	Key     string // unique: a repetition with the same key changes nothing
	Job     string
	Path    string // of the artifact; empty: of the whole archive
	Type    string // such as "fixity check", "replication", "deletion", "digital signature generation"
	Outcome string // success or failure
	Agent   string
	Detail  string
	At      time.Time
}

// PutEvent adds an event.
func (c *Catalog) PutEvent(ctx context.Context, e Event) error {
	return c.enter(ctx, "put event", func(tx *sql.Tx) error { return putEvent(ctx, tx, e) })
}

func putEvent(ctx context.Context, tx *sql.Tx, e Event) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO events (key, job, path, type, outcome, agent, detail, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		e.Key, e.Job, e.Path, e.Type, e.Outcome, e.Agent, e.Detail, sorted(e.At))
	return err
}

// Events lists the events of an archive, or of one of its artifacts (path), in the order in which they were added.
func (c *Catalog) Events(ctx context.Context, job, path string, limit int) ([]Event, error) {
	return each(ctx, c.read, func(r row) (e Event, err error) {
		err = r.Scan(&e.Key, &e.Job, &e.Path, &e.Type, &e.Outcome, &e.Agent, &e.Detail, instant{&e.At})
		return e, err
	}, `SELECT key, job, path, type, outcome, agent, detail, at FROM events
		WHERE job = ?1 AND ?2 IN ('', path) ORDER BY id LIMIT ?3`, job, path, page(limit))
}

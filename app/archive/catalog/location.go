package catalog

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"time"
)

// Location is a storage location that was used. Its id lies in a file in the location, so that a directory whose file
// system is not mounted, or an exchanged one, is noticed.
type Location struct {
	Name   string
	ID     string
	Since  time.Time
	Marked bool // the file with the id is stored
}

func scanLocation(r row) (l Location, err error) {
	var marked string
	err = r.Scan(&l.Name, &l.ID, instant{&l.Since}, &marked)
	l.Marked = marked != ""
	return l, err
}

// Location gives a location. One that was never used gets an id.
func (c *Catalog) Location(ctx context.Context, name string, now time.Time) (Location, error) {
	query := func() (Location, error) {
		return one("location "+name, c.read.QueryRowContext(ctx, "SELECT * FROM locations WHERE location = ?", name),
			scanLocation)
	}
	l, err := query()
	if err == nil {
		return l, nil
	}
	err = c.enter(ctx, "new location", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO locations VALUES (?, ?, ?, '') ON CONFLICT DO NOTHING",
			name, strings.ToLower(rand.Text()), sorted(now))
		return err
	})
	if err != nil {
		return Location{}, err
	}
	return query()
}

// Mark enters that the file with the id is stored in a location.
func (c *Catalog) Mark(ctx context.Context, name string, at time.Time) error {
	return c.enter(ctx, "mark location", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE locations SET marked = ? WHERE location = ? AND marked = ''",
			sorted(at), name)
		return err
	})
}

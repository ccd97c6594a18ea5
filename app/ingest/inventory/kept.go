package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Kept is a version in one of its storage locations.
type Kept struct {
	ARK     string
	Version int
	Place   Place
	Job     string // that stored it
	Created time.Time
}

// Kept returns at most n versions with their storage locations after one of them, in order of ARK, version and
// location.
func (i *Inventory) Kept(ctx context.Context, after Kept, n int) ([]Kept, error) {
	all, err := rows(ctx, i.read, func(r *sql.Rows) (k Kept, err error) {
		var created string
		err = r.Scan(&k.ARK, &k.Version, &k.Place.Dir, &k.Place.Name, &k.Job, &created)
		k.Created = moment(created)
		return k, err
	}, `SELECT p.ark, p.version, p.place, p.name, v.job, v.created FROM places p JOIN versions v ON v.ark = p.ark AND v.version = p.version
		WHERE (p.ark, p.version, p.place) > (?, ?, ?) ORDER BY p.ark, p.version, p.place LIMIT ?`, after.ARK, after.Version, after.Place.Dir, n)
	if err != nil {
		return nil, fmt.Errorf("storage locations of versions: %w", err)
	}
	return all, nil
}

// Dirs returns the storage locations in the inventory. It searches the index once for each of them: DISTINCT would read
// a row for each version.
func (i *Inventory) Dirs(ctx context.Context) ([]string, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (dir string, err error) {
		err = r.Scan(&dir)
		return dir, err
	}, `SELECT dir FROM (WITH RECURSIVE dirs (dir) AS (SELECT min(place) FROM places
		UNION ALL SELECT (SELECT min(place) FROM places WHERE place > dir) FROM dirs WHERE dir IS NOT NULL)
		SELECT dir FROM dirs) AS found WHERE dir IS NOT NULL ORDER BY dir`)
}

// NamesIn gives the names of an object's versions in a storage location; none if the inventory does not know the object
// there.
func (i *Inventory) NamesIn(ctx context.Context, ark, dir string) ([]string, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	}, "SELECT name FROM places WHERE ark = ? AND place = ? ORDER BY version", ark, dir)
}

// VersionOf gives the version that a job stored; ErrNotFound if it stored none.
func (i *Inventory) VersionOf(ctx context.Context, job string) (ark string, version int, err error) {
	type stored struct {
		ark     string
		version int
	}
	all, err := rows(ctx, i.read, func(r *sql.Rows) (s stored, err error) {
		err = r.Scan(&s.ark, &s.version)
		return s, err
	}, "SELECT ark, version FROM versions WHERE job = ?", job)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the version of %s: %w", job, ErrNotFound)
	}
	if err != nil {
		return "", 0, err
	}
	return all[0].ark, all[0].version, nil
}

// NameOf gives the ARK that a job was named for, "" if it has none.
func (i *Inventory) NameOf(ctx context.Context, job string) (ark string, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT ark FROM named WHERE job = ?", job).Scan(&ark)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return ark, err
}

// Lost reports whether no storage location had the version of a job when the inventory was rebuilt.
func (i *Inventory) Lost(ctx context.Context, job string) (lost bool, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM lost WHERE job = ?)", job).Scan(&lost)
	return lost, err
}

package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/sqldb"
)

// Object is a stored object with all its versions.
type Object = api.Object

// Version is one version of an object.
type Version = api.ObjectVersion

// A version is kept in storage locations, each of which is one of these.
type Place = api.ObjectPlace

// Query selects objects; fields that are empty select all.
type Query struct {
	ARK     string
	LocalID string
	Owner   string
	Digest  string // of one of its files, in any version: sha256 or sha512 in hex
	After   string // the ARK after which to go on
	Limit   int    // 0 means 50, at most 1001: a page and the first object of the next
	Permit  Permit // only these
}

// Objects gives the objects of a query in order of their ARKs.
func (i *Inventory) Objects(ctx context.Context, q Query) ([]Object, error) {
	where, args := []string{"ark > ?"}, []any{q.After}
	and := func(condition string, arg any) {
		where, args = append(where, condition), append(args, arg)
	}
	if q.ARK != "" {
		and("ark = ?", q.ARK)
	}
	if q.Owner != "" {
		and("owner = ?", q.Owner)
	}
	if q.LocalID != "" {
		and("ark IN (SELECT ark FROM local_ids WHERE local_id = ? AND local_ids.owner = objects.owner)", q.LocalID)
	}
	switch len(q.Digest) {
	case 0:
	case 64:
		and("ark IN (SELECT ark FROM files WHERE sha256 = ?)", strings.ToLower(q.Digest))
	case 128:
		and("ark IN (SELECT ark FROM files WHERE sha512 = ?)", strings.ToLower(q.Digest))
	default:
		return nil, nil // the inventory keeps no such digests
	}
	if !q.Permit.unlimited() {
		condition, permitted := q.Permit.where()
		where, args = append(where, condition), append(args, permitted...)
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 50
	}
	args = append(args, min(limit, 1001))
	found, err := i.objects(ctx, "WHERE "+strings.Join(where, " AND ")+" ORDER BY ark LIMIT ?", args...)
	if err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	for k := range found {
		if err := i.details(ctx, &found[k]); err != nil {
			return nil, fmt.Errorf("object %s: %w", found[k].ARK, err)
		}
	}
	return found, nil
}

func (i *Inventory) objects(ctx context.Context, rest string, args ...any) ([]Object, error) {
	return rows(ctx, i.read, func(r *sql.Rows) (o Object, err error) {
		var created, changed string
		err = r.Scan(&o.ARK, &o.Owner, &o.Collection, &o.Profile, &o.Title, &o.Creator, &o.Date, &o.Head, &created,
			&changed)
		o.Created, o.Changed = moment(created), moment(changed)
		return o, err
	}, "SELECT ark, owner, collection, profile, title, creator, date, head, created, changed FROM objects "+rest,
		args...)
}

func (i *Inventory) details(ctx context.Context, o *Object) error {
	var err error
	o.Versions, err = rows(ctx, i.read, func(r *sql.Rows) (v Version, err error) {
		var created string
		err = r.Scan(&v.Number, &v.Job, &v.Batch, &v.Submitter, &v.Note, &v.Files, &v.Bytes, &created)
		v.Created = moment(created)
		return v, err
	}, `SELECT version, job, batch, submitter, note, files, bytes, created FROM versions
		WHERE ark = ? ORDER BY version`, o.ARK)
	if err != nil {
		return err
	}
	for k := range o.Versions {
		v := &o.Versions[k]
		v.Places, err = rows(ctx, i.read, func(r *sql.Rows) (p Place, err error) {
			err = r.Scan(&p.Dir, &p.Name)
			return p, err
		}, "SELECT place, name FROM places WHERE ark = ? AND version = ? ORDER BY place", o.ARK, v.Number)
		if err != nil {
			return err
		}
	}
	o.LocalIDs, err = rows(ctx, i.read, func(r *sql.Rows) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	}, "SELECT local_id FROM local_ids WHERE ark = ? ORDER BY local_id", o.ARK)
	return err
}

// Files returns at most limit files of a version after the path after, in order of their paths. Version 0 is the
// newest.
func (i *Inventory) Files(ctx context.Context, ark string, version int, after string, limit int) ([]File, error) {
	if version == 0 {
		err := i.read.QueryRowContext(ctx, "SELECT head FROM objects WHERE ark = ?", ark).Scan(&version)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("%s: %w", ark, ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
	}
	if limit <= 0 {
		limit = 1000
	}
	return rows(ctx, i.read, func(r *sql.Rows) (f File, err error) {
		err = r.Scan(&f.Path, &f.Size, &f.SHA256, &f.SHA512, &f.MIME)
		return f, err
	}, "SELECT path, size, sha256, sha512, mime FROM files WHERE ark = ? AND version = ? AND path > ? ORDER BY "+
		"path LIMIT ?",
		ark, version, after, min(limit, 10_000))
}

// Counts gives how many objects, versions and minted names there are.
func (i *Inventory) Counts(ctx context.Context) (objects, versions, minted int, err error) {
	err = i.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM objects), (SELECT count(*) FROM versions),
		(SELECT count(*) FROM named WHERE minted)`).Scan(&objects, &versions, &minted)
	return objects, versions, minted, err
}

func rows[T any](ctx context.Context, db *reader, scan func(*sql.Rows) (T, error), query string,
	args ...any) ([]T, error) {
	return sqldb.All(ctx, db, scan, query, args...)
}

// moment reads a time that insert wrote.
func moment(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

package module

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Database is an opened database of an application that belongs to an installation.
type Database interface {
	Installation() string
	Count(ctx context.Context) (rows int64, err error)
	Close() error
}

// Opener opens a database of an application, which is a file of the data directory or schemas of a PostgreSQL database,
// and carries out the migrations of a [Module].
type Opener[T Database] struct {
	File string // name in the data directory

	// An empty installation opens the database of any installation. A database that does not exist is created.
	OpenFile     func(ctx context.Context, path, installation string) (T, error)
	OpenPostgres func(ctx context.Context, url, installation string) (T, error)

	IsShared func(ctx context.Context, url string) (bool, error) // whether a PostgreSQL database has it

	// Copy copies all rows into an empty database, or with replace in place of those that it has.
	Copy func(ctx context.Context, from, to T, replace bool) (Copied, error)
}

// Open opens the database.
func (o *Opener[T]) Open(ctx context.Context, d Databases, installation string) (T, error) {
	if d.Postgres != "" {
		return o.OpenPostgres(ctx, d.Postgres, installation)
	}
	return o.OpenFile(ctx, filepath.Join(d.Dir, o.File), installation)
}

// Exists reports whether there is a database.
func (o *Opener[T]) Exists(ctx context.Context, d Databases) (bool, error) {
	if d.Postgres != "" {
		return o.IsShared(ctx, d.Postgres)
	}
	_, err := os.Stat(filepath.Join(d.Dir, o.File))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Migrate is the Migrate of a [Module]. The copy belongs to the same installation.
func (o *Opener[T]) Migrate(ctx context.Context, from, to Databases, replace bool) (c Copied, err error) {
	if there, err := o.Exists(ctx, from); !there || err != nil {
		return c, err
	}
	source, err := o.Open(ctx, from, "")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	installation := source.Installation()
	if replace && to.Postgres != "" {
		installation = "" // it gets that of the source, whatever it has
	}
	target, err := o.Open(ctx, to, installation)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	return o.Copy(ctx, source, target, replace)
}

// Count is the Count of a [Module].
func (o *Opener[T]) Count(ctx context.Context, d Databases) (rows int64, err error) {
	if there, err := o.Exists(ctx, d); !there || err != nil {
		return 0, err
	}
	one, err := o.Open(ctx, d, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, one.Close()) }()
	return one.Count(ctx)
}

package archiveserve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/module"
)

// openCatalog opens the catalog in a file or in PostgreSQL. Without an installation it keeps its own.
func openCatalog(ctx context.Context, d module.Databases, installation string) (*catalog.Catalog, error) {
	o := catalog.Options{Installation: installation}
	if d.Postgres != "" {
		return catalog.OpenPostgres(ctx, d.Postgres, o)
	}
	return catalog.Open(ctx, filepath.Join(d.Dir, catalog.Name), o)
}

// Migrate copies the catalog into an empty one. The copy belongs to the same installation.
func Migrate(ctx context.Context, from, to module.Databases) (c module.Copied, err error) {
	if from.Postgres == "" {
		if _, err := os.Stat(filepath.Join(from.Dir, catalog.Name)); errors.Is(err, fs.ErrNotExist) {
			return c, nil // there is none
		}
	}
	source, err := openCatalog(ctx, from, "")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := openCatalog(ctx, to, source.Installation())
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	copied, err := catalog.Migrate(ctx, source, target)
	for _, n := range copied.Rows {
		c.Rows += n
	}
	c.Digest = copied.Digest
	return c, err
}

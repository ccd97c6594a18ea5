package ingestserve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/module"
)

// openInventory opens the inventory in a file or in PostgreSQL. Without an installation it keeps its own.
func openInventory(ctx context.Context, d module.Databases, installation string) (*inventory.Inventory, error) {
	if d.Postgres != "" {
		return inventory.OpenPostgres(ctx, d.Postgres, installation)
	}
	return inventory.Open(ctx, filepath.Join(d.Dir, inventoryName), installation)
}

// exists reports whether there is one.
func exists(ctx context.Context, d module.Databases) (bool, error) {
	if d.Postgres != "" {
		return inventory.Exists(ctx, d.Postgres)
	}
	_, err := os.Stat(filepath.Join(d.Dir, inventoryName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Migrate copies the inventory into an empty one, or replaces what it has. The copy belongs to the same installation.
func Migrate(ctx context.Context, from, to module.Databases, replace bool) (c module.Copied, err error) {
	if there, err := exists(ctx, from); !there || err != nil {
		return c, err
	}
	source, err := openInventory(ctx, from, "")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	installation := source.Installation()
	if replace && to.Postgres != "" {
		installation = "" // it gets that of the source, whatever it has
	}
	target, err := openInventory(ctx, to, installation)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	copied, err := inventory.Migrate(ctx, source, target, replace)
	for _, n := range copied.Rows {
		c.Rows += n
	}
	c.Digest = copied.Digest
	return c, err
}

// Count counts the rows of the inventory.
func Count(ctx context.Context, d module.Databases) (rows int64, err error) {
	if there, err := exists(ctx, d); !there || err != nil {
		return 0, err
	}
	one, err := openInventory(ctx, d, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, one.Close()) }()
	return one.Count(ctx)
}

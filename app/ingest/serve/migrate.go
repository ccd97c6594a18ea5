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

// Migrate copies the inventory into an empty one. The copy belongs to the same installation.
func Migrate(ctx context.Context, from, to module.Databases) (c module.Copied, err error) {
	if from.Postgres == "" {
		if _, err := os.Stat(filepath.Join(from.Dir, inventoryName)); errors.Is(err, fs.ErrNotExist) {
			return c, nil // there is none
		}
	}
	source, err := openInventory(ctx, from, "")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := openInventory(ctx, to, source.Installation())
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	copied, err := inventory.Migrate(ctx, source, target)
	for _, n := range copied.Rows {
		c.Rows += n
	}
	c.Digest = copied.Digest
	return c, err
}

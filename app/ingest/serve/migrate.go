package ingestserve

import (
	"context"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/module"
)

// Inventory opens the inventory in a file or in PostgreSQL.
var Inventory = &module.Opener[*inventory.Inventory]{
	File: inventoryName, OpenFile: inventory.Open, OpenPostgres: inventory.OpenPostgres, IsShared: inventory.Exists,
	Copy: func(ctx context.Context, from, to *inventory.Inventory, replace bool) (module.Copied, error) {
		c, err := inventory.Migrate(ctx, from, to, replace)
		return module.Copied{Rows: c.Sum(), Digest: c.Digest}, err
	},
}

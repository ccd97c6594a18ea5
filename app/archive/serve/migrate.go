package archiveserve

import (
	"context"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/module"
)

// Catalog opens the catalog in a file or in PostgreSQL.
var Catalog = &module.Opener[*catalog.Catalog]{
	File: catalog.Name, IsShared: catalog.Exists,
	OpenFile: func(ctx context.Context, path, installation string) (*catalog.Catalog, error) {
		return catalog.Open(ctx, path, catalog.Options{Installation: installation})
	},
	OpenPostgres: func(ctx context.Context, url, installation string) (*catalog.Catalog, error) {
		return catalog.OpenPostgres(ctx, url, catalog.Options{Installation: installation})
	},
	Copy: func(ctx context.Context, from, to *catalog.Catalog, replace bool) (module.Copied, error) {
		c, err := catalog.Migrate(ctx, from, to, replace)
		return module.Copied{Rows: c.Sum(), Digest: c.Digest}, err
	},
}

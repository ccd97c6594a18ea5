// Package ingestmodule is ingest as a module.
package ingestmodule

import (
	ingestcli "github.com/stagepost/stagepost/app/ingest/cli"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	ingestserve "github.com/stagepost/stagepost/app/ingest/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
)

// New gives the module, with settings of its own.
func New() module.Module {
	s := &ingestserve.Settings{}
	return module.Module{
		Name: "ingest", Settings: s, Lives: []*lifecycle.Table{record.BatchLife, record.JobLife, record.AccessLife},
		Commands: []func(*cli.Call) cli.Part{ingestcli.Part(s)},
		Open:     func(h *module.Host) (module.App, error) { return ingestserve.Open(h, s) },
		Part:     ingestserve.Part,
		Data:     ingestserve.Data(), Omissible: []string{"storage"}, Storage: s.Storage, Check: s.CheckDir,
		CheckDoc: `The records of ingest jobs, the inventory and the storage locations are compared: every version in one of them must be in the others, made by
the same job, with the same files in full length, and in each location alike. No content is read: "stagepost fixity" reads it. Nothing of this is
repaired: an update of an object brings its locations to one state, and "stagepost ingest inventory rebuild" rebuilds the inventory.`,
		Copies: ingestserve.OpenCopies, Migrate: ingestserve.Inventory.Migrate, Count: ingestserve.Inventory.Count,
		Reserve: func() int64 { return s.Reserve }, Schemas: map[string]int{"inventory.db": inventory.Schema()},
	}
}

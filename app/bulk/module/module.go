// Package bulkmodule is the changes of many jobs at once as a module.
package bulkmodule

import (
	"github.com/stagepost/stagepost/app/bulk"
	bulkcli "github.com/stagepost/stagepost/app/bulk/cli"
	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
)

// New returns the module.
func New() module.Module {
	return module.Module{
		Name: "bulk", Lives: []*lifecycle.Table{bulk.Life}, Commands: []func(*cli.Call) cli.Part{bulkcli.Part},
		Open: func(*module.Host) (module.App, error) { return bulk.New(bulk.Options{}), nil },
		Part: func(s *server.Server, app module.App) server.Part {
			if a, ok := app.(*bulk.App); ok {
				return bulkhttp.Part(s, a)
			}
			return bulkhttp.Part(s, nil)
		},
	}
}

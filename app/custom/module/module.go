// Package custommodule is the lifecycles of files as a module.
package custommodule

import (
	"path/filepath"

	"github.com/stagepost/stagepost/app/custom"
	customcli "github.com/stagepost/stagepost/app/custom/cli"
	customserve "github.com/stagepost/stagepost/app/custom/serve"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
)

// New returns the module, with settings of its own.
func New() module.Module {
	s := &customserve.Settings{}
	return module.Module{
		Name: "lifecycle", Settings: s, Commands: []func(*cli.Call) cli.Part{customcli.Part},
		Open: func(h *module.Host) (module.App, error) { return customserve.Open(h, s) }, Part: customserve.Part,
		Remote: customserve.Remote(),
		LivesIn: func(dir string) ([]*lifecycle.Table, error) {
			return custom.Tables(s.Dir, filepath.Join(dir, "lifecycles"))
		},
		Data: []backup.Entry{
			{Name: "lifecycles", How: backup.Linked, What: "lifecycles that `stagepost lifecycle add` brought"},
			{Name: "lifecycle-runs", How: backup.Left, What: "working directories of lifecycles' commands",
				Reason: "emptied at each start"},
		},
	}
}

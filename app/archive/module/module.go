// Package archivemodule is the archive application as a module.
package archivemodule

import (
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	archivecli "github.com/stagepost/stagepost/app/archive/cli"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/quizworker"
	archiveserve "github.com/stagepost/stagepost/app/archive/serve"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
)

// New gives the module, with settings of its own.
func New() module.Module {
	s := &archiveserve.Settings{}
	return module.Module{
		Name: "archive", Settings: s,
		Lives: []*lifecycle.Table{archive.JobLife, archive.TaskLife, trigger.RunLife, pdf.Life, quizworker.Life},
		Open: func(h *module.Host) (module.App, error) {
			if a, err := archiveserve.Open(h, s); a != nil || err != nil {
				return a, err
			}
			return nil, nil
		},
		Commands: []func(*cli.Call) cli.Part{archivecli.Part},
		Remote:   archiveserve.Remote(),
		Part:     archiveserve.Part, Data: archiveserve.Data(), Omissible: []string{"storage"},
		Storage: s.Storage, Check: s.CheckDir,
		CheckDoc: `Each verified copy of an archive must be in its storage location in full length, as far as that is a directory of this
machine. No content is read: the server's fixity checks read it, and replace what is damaged.`,
		Copies: archiveserve.OpenCopies, Migrate: archiveserve.Catalog.Migrate, Count: archiveserve.Catalog.Count,
		Schemas: map[string]int{catalog.Name: catalog.Schema()},
	}
}

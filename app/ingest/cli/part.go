// Package ingestcli has the commands of ingest.
package ingestcli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest"
	ingestserve "github.com/stagepost/stagepost/app/ingest/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/job"
)

// commands are the commands of one call.
type commands struct {
	jobs.Commands
	settings *ingestserve.Settings
}

// Part adds the commands of ingest.
func Part(s *ingestserve.Settings) func(*cli.Call) cli.Part {
	return func(call *cli.Call) cli.Part {
		c := &commands{jobs.Commands{Call: call}, s}
		return cli.Part{
			Look: []*cobra.Command{
				c.report(), c.locks(), c.queue(), c.orphans(), c.storage(), c.files(), c.manifest(), c.metadata(), c.bag(), c.profile(), c.hooks(),
			},
			Act: []*cobra.Command{c.submit(), c.access(), c.fetch()},
			Run: []*cobra.Command{c.fixity(), c.inventory()},
			Code: func(err error) (int, bool) {
				return cli.ExitFailed, errors.As(err, new(ingest.Damaged))
			},
			Hint: func(err error, code int) string {
				switch {
				case errors.As(err, new(ingest.Damaged)):
					return "restore the files from another location or a backup; stagepost fixity run checks them again"
				case code == cli.ExitRefused && c.CalledPath() == "stagepost profile reload":
					return "the profiles of before stay in force; stagepost profile check shows the lines"
				}
				return ""
			},
			Missing: func(path []string, _ *job.Error) string {
				switch name := path[1]; {
				case name == "hooks" && path[len(path)-1] == "ping", name == "profile":
					return "stagepost profile list shows what there is"
				case name == "hooks", name == "locks", name == "storage":
					return "stagepost " + name + " shows what there is"
				case name == "access", name == "fetch":
					return "stagepost list --kind ingest.access shows what was asked for, stagepost show ID of an ingest job the ARK of its object"
				}
				return ""
			},
			Words: map[string][]string{
				"queue": {"ingest", "access-small", "access-large"}, "tag": {"queue=ingest", "queue=access-small", "queue=access-large", "place="},
			},
			Ask: map[string]cobra.CompletionFunc{"parent": c.completeBatches, "profile": c.completeProfiles, "place": c.completePlaces},
		}
	}
}

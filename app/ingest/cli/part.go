// Package ingestcli has the commands of ingest.
package ingestcli

import (
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest/record"
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
			Groups: []*cobra.Command{cli.Group("ingest", "Submit content to the archive; list, fetch and check it",
				"Submits content to the archive, lists its batches, jobs and objects, fetches packages and checks "+
					"what is stored.",
				"  stagepost ingest submit map.tif --wait\n  stagepost ingest list --open\n  stagepost ingest report "+
					"bat_01J9...",
				c.submit(), c.list(), c.objects(), c.report(), c.update(), c.files(), c.manifest(), c.metadata(),
				c.access(), c.fetch(), c.bag(), c.profile(), c.hooks(),
				c.queue(), c.locks(), c.orphans(), c.storage(), c.inventory()), c.zk()},
			Code:  code,
			Daily: []*cobra.Command{cli.Short("ingest", c.submit())},
			Hint: func(_ error, code int) string {
				if code == cli.ExitRefused && c.CalledPath() == "stagepost ingest profile reload" {
					return "the profiles of before stay in force; stagepost ingest profile check shows the lines"
				}
				return ""
			},
			Missing: func(path []string, _ *job.Error) string {
				if path[0] != "ingest" || len(path) < 2 {
					return ""
				}
				switch name := path[1]; {
				case name == "hooks" && path[len(path)-1] == "ping", name == "profile":
					return "stagepost ingest profile list shows what there is"
				case name == "hooks", name == "locks", name == "storage":
					return "stagepost ingest " + name + " shows what there is"
				case name == "access", name == "fetch":
					return "stagepost ingest objects lists what is stored, stagepost list --kind ingest.access the " +
						"packages that were requested"
				}
				return ""
			},
			Scopes: []cli.Scope{
				{Flag: "queue", Tag: "queue", Doc: "a whole queue: ingest, access-small or access-large"},
				{Flag: "place", Tag: "place", Kind: record.JobKind, State: record.Storing,
					Doc: "jobs that will write to this storage location, as their profile names it; earlier stages " +
						"continue"},
				{Flag: "submissions", Kind: record.BatchKind,
					Doc: "all new submissions: batches wait, the jobs of earlier ones go on"},
			},
			Words: map[string][]string{
				"queue": {"ingest", "access-small", "access-large"}, "tag": {"queue=ingest", "queue=access-small",
					"queue=access-large", "place="},
			},
			Ask: map[string]cobra.CompletionFunc{"parent": c.completeBatches, "profile": c.completeProfiles,
				"place": c.completePlaces},
		}
	}
}

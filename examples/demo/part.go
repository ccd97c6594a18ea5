// Package demo is the demo: a batch of twelve objects and the jobs of three users.
package demo

import (
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/host"
)

// bagName is the package that the demo fetches.
const bagName = "bag.zip"

// commands are the commands of one call.
type commands struct {
	jobs.Commands
	host *host.Settings
}

// Part adds the demo.
func Part(s *host.Settings) func(*cli.Call) cli.Part {
	return func(call *cli.Call) cli.Part {
		c := &commands{jobs.Commands{Call: call}, s}
		return cli.Part{Server: []*cobra.Command{c.demo()}}
	}
}

// Data are the entries of the demo in the data directory.
func Data() []backup.Entry {
	return []backup.Entry{
		{Name: siteName, How: backup.Linked, What: "the depositor's web site of `stagepost demo`"},
		{Name: DemoFile, How: backup.Linked, What: "the address of that web site"},
		{Name: campusName, How: backup.Stored, Part: "storage",
			What: "the Moodle, the time-stamp authority and the storage locations of `stagepost demo`"},
		{Name: bagName, How: backup.Linked, What: "the package that `stagepost demo` fetched"},
	}
}

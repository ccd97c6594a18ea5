package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/job"
)

// hostPart adds the commands about a server and its data directory.
func hostPart(c *cli) Part {
	return Part{
		Run: []*cobra.Command{
			c.serve(), c.token(), c.health(), c.admin(), c.fsck(), c.verify(), c.accept(), c.backup(), c.restore(), c.config(), c.version(),
		},
		Hidden: []*cobra.Command{c.docs()},
		Missing: func(path []string, e *job.Error) string {
			switch {
			case path[1] == "token" && errors.Is(e, fs.ErrNotExist):
				return "name the file of tokens; stagepost token new makes one"
			case path[1] == "token": // digits of a hash are no number of a job
				return fmt.Sprintf("stagepost token list %s shows what there is", c.called.Flags().Arg(0))
			case path[1] == "restore":
				return knownBackups(c.called.Flags().Arg(0))
			}
			return ""
		},
	}
}

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// bulkPart adds the command for many jobs at once.
func bulkPart(c *cli) Part {
	return Part{
		Act: []*cobra.Command{c.bulk()},
		Hint: func(err error, code int) string {
			var f failedJob
			if code == exitFailed && errors.As(err, &f) && f.job.Kind == "bulk" {
				return "stagepost bulk with the same filters and --dry-run shows what it would meet now"
			}
			return ""
		},
	}
}

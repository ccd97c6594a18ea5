// Package archivecli has the commands of archives.
package archivecli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/job"
)

// commands are the commands of one call.
type commands struct {
	jobs.Commands
}

// Part adds the commands of archives.
func Part(call *cli.Call) cli.Part {
	c := &commands{jobs.Commands{Call: call}}
	return cli.Part{
		Groups: []*cobra.Command{
			cli.Group("archive", "Archive courses; keep, read and delete archives",
				"Archives courses and their activities, shows what is archived, reads archives back, and deletes them.",
				"  stagepost archive plan campus 5\n  stagepost archive run campus 5 --wait\n"+
					"  stagepost archive retrieve arc_01J9... --out ./exam",
				c.plan(), c.run(), c.status(), c.list(), c.show(), c.overview(), c.retrieve(), c.verify(), c.premis(),
				c.people(), c.hold(), c.release(), c.delete(), c.approve(), c.deletions(), c.schedules(), c.hooks(),
				c.pdfWorker()),
			cli.Group("timestamp", "Verify time stamps (RFC 3161)",
				"Verifies the time stamps of files. It needs no server.",
				"  stagepost timestamp verify exam.tagmanifest-sha512.txt --ca root.pem", c.timestampVerify()),
		},
		Code: code,
		Hint: func(err error, _ int) string {
			_, known := code(err)
			switch {
			case known && errors.Is(err, rfc3161.ErrChain):
				return "name the certificate of the authority with --ca"
			case known:
				return "fetch the archive again into another directory: stagepost archive retrieve JOB --out DIR"
			}
			return ""
		},
		Missing: func(path []string, _ *job.Error) string {
			if path[0] == "archive" {
				return "stagepost archive list shows what there is"
			}
			return ""
		},
	}
}

// when writes a time of a row; empty for none.
func (c *commands) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return c.Out.When(t)
}

// activityRows are the rows of activities: state, bytes, kind, id, name, and what there is to know of it.
func (c *commands) activityRows(all []client.ArchiveActivity) [][]string {
	rows := make([][]string, len(all))
	for i := range all {
		a := &all[i]
		note := a.Reason
		if note == "" {
			note = a.Cause
		}
		if note == "" && a.Drift {
			note = "it changed while it was archived"
		}
		size := c.Bytes(a.Bytes)
		if a.Bytes == 0 && a.Archived.IsZero() && c.Out.Mode == cli.ModeTable {
			size = "" // not known before it is archived
		}
		rows[i] = []string{a.State, a.ID, a.Module, size, c.when(a.Archived), a.Name, note}
	}
	return rows
}

// printActivities prints activities. Columns in a pipe: state, id, kind, bytes, time of the archive, name, note.
func (c *commands) printActivities(all []client.ArchiveActivity) error {
	return c.Out.Rows([]string{"STATE", "ID", "KIND", "BYTES", "ARCHIVED", "NAME", "NOTE"}, c.activityRows(all), 2,
		nil)
}

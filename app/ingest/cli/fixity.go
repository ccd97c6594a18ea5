package ingestcli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) fixity() *cobra.Command {
	return cli.Group("fixity", "Read stored files again and compare them with their digests",
		`The server reads every stored file again, in each storage location, and compares it with its digest. It does so by itself when the last check of a version is older
than fixity.every, the oldest first, at fixity.rate. Files that are changed, missing, too many or unreadable are faults; each is entered in the audit list with object, version,
file and digests. A fault stays until a later check finds the version sound.`,
		"  stagepost ingest fixity status\n  stagepost ingest fixity run --note 'the disk array was rebuilt'",
		c.fixityRun(), c.fixityStatus())
}

func (c *commands) fixityRun() *cobra.Command {
	var ask client.CheckFixity
	cmd := &cobra.Command{
		Use:   "run [LOCATION]",
		Short: "Check all stored files now",
		Long: `Asks the server to check all files of a storage location, or of all locations, and waits until they are checked. A check that is under way goes on, also after a
restart of the server, and when this command is interrupted.

The exit code is 5 if stored files have faults, and 1 if a location could not be read: its files were not checked.`,
		Example: "  stagepost ingest fixity run --note 'the disk array was rebuilt'\n  stagepost ingest fixity run " +
			"/mnt/archive",
		Args: cobra.MaximumNArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			if len(args) > 0 {
				ask.Location = args[0]
			}
			ask.Actor = cli.Whoami(ask.Actor)
			f, err := api.CheckFixity(ctx, ask)
			if err != nil {
				return err
			}
			if f, err = waitFixity(ctx, api, f, ask.Location); err != nil {
				return err
			}
			return c.printFixity(f)
		}),
	}
	cli.Audited(cmd, &ask.Note, &ask.Actor)
	return cmd
}

// waitFixity asks until the checks of a location, or of all, have ended.
func waitFixity(ctx context.Context, api *client.Client, f client.Fixity, location string) (client.Fixity, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		open := false
		for _, l := range f.Locations {
			open = open || (location == "" || l.Dir == location) && l.Check != nil && l.Check.Ended.IsZero()
		}
		if !open {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-tick.C:
		}
		var err error
		if f, err = api.Fixity(ctx); err != nil {
			return f, err
		}
	}
}

func (c *commands) fixityStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which stored files have faults, and how old the checks are",
		Long: `Shows each storage location with the oldest check of a version in it and the last check that was asked for, and every stored file that had a fault when it was last
read. Nothing is read for it.

The exit code is 5 if stored files have faults, and 1 if a location cannot be read.`,
		Example: "  stagepost ingest fixity status\n  stagepost ingest fixity status -o json",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			f, err := api.Fixity(ctx)
			if err != nil {
				return err
			}
			return c.printFixity(f)
		}),
	}
}

func (c *commands) printFixity(f client.Fixity) error {
	if err := c.writeFixity(f); err != nil {
		return err
	}
	if f.Count > 0 {
		return ingest.Damaged{Files: f.Count}
	}
	for _, l := range f.Locations {
		why := l.Reason
		if why == "" && l.Check != nil {
			why = l.Check.Failure
		}
		if why != "" {
			return fmt.Errorf("%s was not checked: %s", l.Dir, why)
		}
	}
	return nil
}

func (c *commands) writeFixity(f client.Fixity) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(f)
	}
	if len(f.Locations) == 0 {
		return c.Out.None("nothing is stored")
	}
	rows := make([][]string, len(f.Locations))
	for i, l := range f.Locations {
		check, files, bytes := "none", "", ""
		if l.Check != nil {
			if check = "since " + c.ago(l.Check.Began); !l.Check.Ended.IsZero() {
				check = "ended " + c.ago(l.Check.Ended)
			}
			files, bytes = strconv.Itoa(l.Check.Files), c.Bytes(l.Check.Bytes)
		}
		state := "readable"
		if l.Reason != "" {
			state = "unreadable: " + l.Reason
		}
		rows[i] = []string{l.Dir, c.ago(l.Oldest), check, files, bytes, state}
	}
	err := c.Out.Rows([]string{"LOCATION", "OLDEST CHECK", "LAST RUN", "FILES", "BYTES", "STATE"}, rows, 1, nil)
	if err != nil || len(f.Faults) == 0 {
		return err
	}
	c.Out.Line("")
	return c.writeFixityFaults(f.Faults)
}

// ago writes a time in a row: how long ago on a terminal, exact in a pipe.
func (c *commands) ago(t time.Time) string {
	if t.IsZero() || c.Out.Mode != cli.ModeTable {
		return c.Out.When(t)
	}
	return c.Out.When(t) + " ago"
}

// writeFixityFaults prints faults of stored files. Columns in a pipe: kind, location, object, version, file, since,
// job, detail.
func (c *commands) writeFixityFaults(faults []client.FixityFault) error {
	rows := make([][]string, len(faults))
	for i, x := range faults {
		detail := x.Detail
		if x.Found != "" {
			detail = fmt.Sprintf("%s expected %s, found %s", x.Algorithm, cmp.Or(x.Expected, "nothing"), x.Found)
		}
		version, since := "v"+strconv.Itoa(x.Version), c.Out.When(x.Since)
		if rows[i] = []string{x.Kind, since, x.ARK, version, x.Location, x.Path, detail}; c.Out.Mode == cli.ModePlain {
			rows[i] = []string{x.Kind, x.Location, x.ARK, version, x.Path, since, x.Job, detail}
		}
	}
	return c.Out.Rows([]string{"FAULT", "AGE", "OBJECT", "VERSION", "LOCATION", "FILE", "DETAIL"}, rows, 3, nil)
}

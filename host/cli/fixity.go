package hostcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

// damaged reports that stored files have faults.
type damaged struct{ files int64 }

func (d damaged) Error() string {
	if d.files == 1 {
		return "1 stored file has a fault"
	}
	return fmt.Sprintf("%d stored files have faults", d.files)
}

// code gives the exit code of damage.
func code(err error) (int, bool) {
	known := errors.As(err, new(damaged)) || errors.As(err, new(damagedCopies)) || errors.As(err, new(damage))
	return cli.ExitFailed, known
}

func (c *commands) fixity() *cobra.Command {
	return cli.Group("fixity", "Check the digests of stored objects, and heal copies",
		`The server reads every copy of every stored object again, in each storage location, and compares it with its digest: the oldest check first, at fixity.rate,
when its interval has passed (docs/operating.md has those of each application). Copies that are changed, missing, unreadable
or have unexpected files are faults. Each is entered in the audit log, and healed from a good copy in another location: the new copy is read back before the fault ends,
and the damaged bytes are removed. Without a good copy a fault stays until a later check finds the copy sound.`,
		"  stagepost fixity status\n  stagepost fixity report --damaged\n"+
			"  stagepost fixity run --note 'the disk array was rebuilt'",
		c.fixityRun(), c.fixityStatus(), c.fixityReport())
}

func (c *commands) fixityRun() *cobra.Command {
	var ask client.CheckFixity
	cmd := &cobra.Command{
		Use:   "run [LOCATION]",
		Short: "Check all copies now",
		Long: `Asks the server to check all copies in a storage location, or in all locations, and waits until they are checked. A check that is in progress goes on, also after a
restart of the server, and when this command is interrupted.

The exit code is 5 if stored files have faults that were not healed, and 1 if a location could not be read: its copies were not checked.`,
		Example: "  stagepost fixity run --note 'the disk array was rebuilt'\n" +
			"  stagepost fixity run --note 'a new cable' /mnt/first",
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
			if f, err = waitFixity(ctx, api, f, ask); err != nil {
				return err
			}
			return c.printFixity(f)
		}),
	}
	application(cmd, &ask.Application)
	cli.Audited(cmd, &ask.Note, &ask.Actor)
	return cmd
}

func application(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "app", "", "only the objects of this application")
}

// waitFixity asks until the checks that were requested have ended.
func waitFixity(
	ctx context.Context, api *client.Client, f client.Fixity, ask client.CheckFixity,
) (client.Fixity, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		open := false
		for _, l := range f.Locations {
			asked := ask.Location == "" || l.Location == ask.Location
			open = open || asked && l.Check != nil && l.Check.Ended.IsZero()
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
		if f, err = api.Fixity(ctx, ask.Application); err != nil {
			return f, err
		}
	}
}

func (c *commands) fixityStatus() *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the checks of each storage location, and which stored files have faults",
		Long: `Shows each storage location with its copies, the oldest check of one of them, how many are overdue, damaged and healed, and the last check that was requested; then
every stored file that had a fault when it was last read. No copy is read for it. In a pipe, the columns are application, location, copies, oldest check,
overdue, damaged, healed, last run, its files and bytes, and state.

The exit code is 5 if stored files have faults, and 1 if a location cannot be read.`,
		Example: "  stagepost fixity status\n  stagepost fixity status -o json",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			f, err := api.Fixity(ctx, app)
			if err != nil {
				return err
			}
			return c.printFixity(f)
		}),
	}
	application(cmd, &app)
	return cmd
}

func (c *commands) printFixity(f client.Fixity) error {
	if err := c.writeFixity(f); err != nil {
		return err
	}
	if f.Count > 0 {
		return damaged{int64(f.Count)}
	}
	for _, l := range f.Locations {
		why := l.Reason
		if why == "" && l.Check != nil {
			why = l.Check.Failure
		}
		if why != "" {
			return fmt.Errorf("%s was not checked: %s", l.Location, why)
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
	heading := []string{"APP", "LOCATION", "COPIES", "OLDEST", "OVERDUE", "DAMAGED", "HEALED", "STATE"}
	rows := make([][]string, len(f.Locations))
	for i, l := range f.Locations {
		check, files, bytes := "none", "", ""
		if l.Check != nil {
			if check = "since " + c.ago(l.Check.Began); !l.Check.Ended.IsZero() {
				check = "ended " + c.ago(l.Check.Ended)
			}
			files, bytes = strconv.FormatInt(l.Check.Files, 10), c.Bytes(l.Check.Bytes)
		}
		state := "readable"
		if l.Reason != "" {
			state = "unreadable: " + l.Reason
		}
		row := []string{l.Application, l.Location, strconv.FormatInt(l.Copies, 10), c.Out.When(l.Oldest),
			strconv.FormatInt(l.Overdue, 10), strconv.FormatInt(l.Damaged, 10), strconv.FormatInt(l.Healed, 10)}
		if c.Out.Mode == cli.ModePlain {
			rows[i] = append(row, check, files, bytes, state)
			continue
		}
		if l.Check != nil && l.Check.Ended.IsZero() {
			state = "checked " + check
		}
		rows[i] = append(row, state)
	}
	if err := c.Out.Rows(heading, rows, 1, nil); err != nil || len(f.Faults) == 0 {
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

// writeFixityFaults prints faults of stored files. Columns in a pipe: kind, application, location, object, version,
// file, since, job, detail.
func (c *commands) writeFixityFaults(faults []client.FixityFault) error {
	rows := make([][]string, len(faults))
	for i, x := range faults {
		detail := x.Detail
		if x.Found != "" {
			detail = fmt.Sprintf("%s expected %s, found %s", x.Algorithm, cmp.Or(x.Expected, "nothing"), x.Found)
		}
		version, since := "", c.Out.When(x.Since)
		if x.Version > 0 {
			version = "v" + strconv.Itoa(x.Version)
		}
		rows[i] = []string{x.Kind, since, x.Object, version, x.Location, x.Path, detail}
		if c.Out.Mode == cli.ModePlain {
			rows[i] = []string{x.Kind, x.Application, x.Location, x.Object, version, x.Path, since, x.Job, detail}
		}
	}
	return c.Out.Rows([]string{"FAULT", "AGE", "OBJECT", "VERSION", "LOCATION", "FILE", "DETAIL"}, rows, 3, nil)
}

func (c *commands) fixityReport() *cobra.Command {
	var q client.FixityQuery
	var pages cli.Pages
	cmd := &cobra.Command{
		Use:   "report",
		Short: "List stored objects with the state of their copies",
		Long: `Lists stored objects by application: how many copies they have, where, the oldest check of a copy, and how many copies are overdue, damaged and healed. A copy
is a version of an object, or a file of it, in one storage location. All filters given must match. In a pipe, the columns are application, object, copies,
oldest check, overdue, damaged, healed, and the locations with commas between them.

The exit code is 5 if a listed object has damaged copies.`,
		Example: "  stagepost fixity report --overdue\n  stagepost fixity report --damaged -o json",
		Args:    cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, _ []string) error {
			if err := c.CheckPages(cmd, &pages); err != nil {
				return err
			}
			fetch := func(after string, limit int) ([]client.FixityObject, string, error) {
				q.After, q.Limit = after, limit
				page, err := api.FixityObjects(ctx, q)
				return page.Objects, page.Next, err
			}
			return cli.ListPages(ctx, pages, fetch, c.printFixityObjects)
		}),
	}
	application(cmd, &q.Application)
	f := cmd.Flags()
	f.StringVar(&q.Location, "location", "", "only copies in this storage location")
	f.BoolVar(&q.Damaged, "damaged", false, "only objects with damaged copies")
	f.BoolVar(&q.Overdue, "overdue", false, "only objects with copies whose check is due")
	f.IntVar(&pages.Limit, "limit", 50, "objects that are listed, at most 1000")
	f.BoolVar(&pages.All, "all", false, "list all, however many there are")
	return cmd
}

func (c *commands) printFixityObjects(objects []client.FixityObject, more bool) error {
	err := cli.List(c.Out, objects, "no object matches", "OBJECT|COPIES|OLDEST|OVERDUE|DAMAGED|HEALED|LOCATIONS",
		func(o *client.FixityObject) []string {
			row := []string{o.Object, strconv.FormatInt(o.Copies, 10), c.Out.When(o.Checked),
				strconv.FormatInt(o.Overdue, 10), strconv.FormatInt(o.Damaged, 10), strconv.FormatInt(o.Healed, 10),
				strings.Join(o.Locations, ",")}
			if c.Out.Mode == cli.ModePlain {
				return append([]string{o.Application}, row...)
			}
			return row
		})
	if err != nil {
		return err
	}
	c.Out.More(len(objects), more)
	n := int64(0)
	for i := range objects {
		n += objects[i].Damaged
	}
	if n > 0 {
		return damagedCopies(n)
	}
	return nil
}

// damagedCopies is the error of a report with damaged copies.
type damagedCopies int64

func (n damagedCopies) Error() string {
	if n == 1 {
		return "1 copy is damaged"
	}
	return fmt.Sprintf("%d copies are damaged", int64(n))
}

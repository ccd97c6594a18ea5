package jobs

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *Commands) audit() *cobra.Command {
	var q client.AuditQuery
	var id, event string
	var all bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what people did: when, who, what, to what, why",
		Long: `Shows the newest entries of the audit log, oldest first: events that people caused, holds, priorities, what was removed. The columns in
a pipe are number, time, who, as what, what, on what, from, to, why, the version of the record that the person saw, and the address of the sender. Entries remain after their jobs are gone. A terminal shows the most important columns; -o plain and -o json have all. In a pipe and with -o json all entries are listed unless --last is given.`,
		Example: "  stagepost admin audit --last 20\n  stagepost admin audit --actor ann --event delete\n" +
			"  stagepost admin audit --job ing_01J9...\n  stagepost admin audit --address 192.0.2.0/24",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckLimit("--last", q.Limit); err != nil {
				return err
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			q.Job, q.Event = job.ID(id), lifecycle.Event(event)
			if err := c.Resolve(ctx, api, &q.Job); err != nil {
				return err
			}
			if all || c.Out.Mode != cli.ModeTable && !cmd.Flags().Changed("last") {
				return c.auditAll(ctx, api, q)
			}
			return c.auditNewest(ctx, api, q)
		},
	}
	f := cmd.Flags()
	f.IntVar(&q.Limit, "last", 50, "the newest so many, up to 1000; without it a pipe and -o json get all")
	f.BoolVar(&all, "all", false, "all of them, page by page")
	f.StringVar(&q.Actor, "actor", "", "only by this person")
	f.StringVar(&q.Address, "address", "", "only from this network address, or from a prefix such as 192.0.2.0/24")
	f.StringVar(&id, "job", "", "only about this job or batch")
	f.StringVar(&event, "event", "", "only this event, such as retry or hold")
	c.CompleteNames(cmd)
	cmd.AddCommand(c.exportAudit())
	return cmd
}

// auditAll prints all entries that match, page by page.
func (c *Commands) auditAll(ctx context.Context, api *client.Client, q client.AuditQuery) error {
	q.Limit = 0 // pages as large as they can be
	fetch := func(after string, _ int) ([]client.Audit, string, error) {
		q.After = after
		page, err := api.AuditAfter(ctx, q)
		return page.Entries, page.Next, err
	}
	return cli.ListPages(ctx, cli.Pages{All: true}, fetch, func(entries []client.Audit, more bool) error {
		return c.printAudit(&client.Audits{Entries: entries}, more)
	})
}

// auditNewest prints the newest q.Limit entries that match.
func (c *Commands) auditNewest(ctx context.Context, api *client.Client, q client.AuditQuery) error {
	last := q.Limit
	q.Limit = min(last+1, 1000) // one more shows whether there are more
	a, err := api.Audit(ctx, q)
	if err != nil {
		return err
	}
	more := len(a.Entries) > last || last == 1000 && len(a.Entries) == last && a.Entries[0].Seq > 1
	a.Entries = a.Entries[max(0, len(a.Entries)-last):]
	return c.printAudit(&a, more)
}

// printAudit prints entries. Columns in a pipe: number, when, who, as what, what, on what, from, to, why, saw, address.
func (c *Commands) printAudit(a *client.Audits, more bool) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(a)
	}
	rows := make([][]string, len(a.Entries))
	for i := range a.Entries {
		e := &a.Entries[i]
		saw := ""
		if e.Seen > 0 {
			saw = strconv.FormatInt(e.Seen, 10)
		}
		on := strings.TrimSpace(c.Out.ID(e.Job) + " " + c.Out.Short(e.Object))
		if c.Out.Mode == cli.ModeTable {
			rows[i] = []string{strconv.FormatInt(e.Seq, 10), c.Out.When(e.At), e.Actor, string(e.Event), string(e.To),
				on, e.Note}
			continue
		}
		rows[i] = []string{strconv.FormatInt(e.Seq, 10), c.Out.When(e.At), e.Actor, e.By.String(), string(e.Event), on,
			string(e.From), string(e.To), e.Note, saw, e.Address}
	}
	if len(rows) == 0 {
		if err := c.Out.None("no entry matches"); err != nil {
			return err
		}
	} else if err := c.Out.Rows([]string{"#", "AGE", "WHO", "WHAT", "TO", "ON WHAT", "WHY"}, rows, 2, nil); err != nil {
		return err
	}
	if more && c.Out.Mode == cli.ModeTable {
		c.Out.Line("%d shown, and more exist: --all shows all, --last N up to 1000", len(rows))
	}
	if a.Cut {
		c.Note("the list is longer than one search: older entries were not searched")
	}
	return nil
}

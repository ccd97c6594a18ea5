package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *cli) audit() *cobra.Command {
	var q client.AuditQuery
	var id, event string
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what people did: when, who, what, to what, why",
		Long: `Shows the newest entries of the audit list, oldest first: events that people caused, holds, priorities, what was removed. SAW is the version of the record
that the person saw. Entries outlive the jobs they tell of.`,
		Example: "  stagepost audit --last 20\n  stagepost audit --actor ann --event delete\n  stagepost audit --job ing_01J9...",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Last < 1 || q.Last > 1000 {
				return usagef("--last must be 1 to 1000")
			}
			ctx, cancel := c.patient(cmd)
			defer cancel()
			api, err := c.api()
			if err != nil {
				return err
			}
			q.Job, q.Event = job.ID(id), lifecycle.Event(event)
			a, err := api.Audit(ctx, q)
			if err != nil {
				return err
			}
			return c.printAudit(&a)
		},
	}
	f := cmd.Flags()
	f.IntVar(&q.Last, "last", 50, "the newest so many, up to 1000")
	f.StringVar(&q.Actor, "actor", "", "only by this person")
	f.StringVar(&id, "job", "", "only about this job or batch")
	f.StringVar(&event, "event", "", "only this event, such as retry or hold")
	c.completeNames(cmd)
	return cmd
}

// printAudit prints entries. Columns: number, when, who, as what, what, on what, from, to, why, saw.
func (c *cli) printAudit(a *client.Audits) error {
	if c.out.mode == modeJSON {
		return c.out.json(a)
	}
	rows := make([][]string, len(a.Entries))
	for i := range a.Entries {
		e := &a.Entries[i]
		saw := ""
		if e.Seen > 0 {
			saw = strconv.FormatInt(e.Seen, 10)
		}
		on := strings.TrimSpace(string(e.Job) + " " + e.Object)
		rows[i] = []string{strconv.FormatInt(e.Seq, 10), c.out.when(e.At), e.Actor, strings.Join(e.By, ","), string(e.Event), on, string(e.From), string(e.To), e.Note, saw}
	}
	if len(rows) == 0 {
		if err := c.out.none("no entry matches"); err != nil {
			return err
		}
	} else if err := c.out.table([]string{"#", "WHEN", "WHO", "AS", "WHAT", "ON WHAT", "FROM", "TO", "WHY", "SAW"}, rows); err != nil {
		return err
	}
	if a.Cut {
		c.note("the list is longer than one look: older entries were not searched")
	}
	return nil
}

package ingestcli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) queue() *cobra.Command {
	var kinds []string
	var open bool
	var q client.QueueQuery
	var batches, holds bool
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Count jobs and bytes by collection and state",
		Long: `Counts jobs and bytes by collection and state, with totals. With --batches it lists batches by age, the oldest first, with their jobs by outcome: FAIL
for one that failed, WARN for one that is open and older than a day. With --holds it lists what is held: holds with the number of open jobs they
concern, and jobs that were put aside.

In a pipe a line of the summary begins with jobs, state (the total of a state) or total, and one of --holds with hold
or held.`,
		Example: "  stagepost ingest queue --open\n  stagepost ingest queue --batches\n" +
			"  stagepost ingest queue --holds",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			if batches && holds {
				return cli.Usagef("either --batches or --holds")
			}
			if (batches || holds) && (len(kinds) > 0 || open) || holds && q.Group != "" {
				return cli.Usagef("--kind and --open are for the summary, --group is not for --holds")
			}
			for _, k := range kinds {
				q.Kinds = append(q.Kinds, job.Kind(k))
			}
			if open {
				q.Ended = new(bool)
			}
			switch {
			case batches:
				return c.queueBatches(ctx, api, q)
			case holds:
				held, err := api.QueueHolds(ctx)
				if err != nil {
					return err
				}
				return c.printHolds(&held)
			}
			sum, err := api.Queue(ctx, q)
			if err != nil {
				return err
			}
			return c.printQueue(&sum)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&batches, "batches", false, "list batches by age")
	f.BoolVar(&holds, "holds", false, "list what is held")
	f.StringSliceVar(&kinds, "kind", nil, "only this kind, such as ingest.job")
	f.StringVar(&q.Group, "group", "", "only this group (collection, course, service)")
	f.BoolVar(&open, "open", false, "only jobs that have not ended")
	f.BoolVar(&q.All, "all", false, "with --batches: those that ended well, too, page by page")
	c.CompleteNames(cmd)
	return cmd
}

// printQueue prints the summary. Columns: group, kind, state, jobs, of these at work, bytes.
func (c *commands) printQueue(q *client.Queue) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(q)
	}
	rows := [][]string{}
	add := func(lead, group string, t client.QueueTotal) {
		row := []string{group, string(t.Kind), string(t.State), strconv.FormatInt(t.Jobs, 10),
			strconv.FormatInt(t.Claimed, 10), c.Bytes(t.Bytes)}
		if c.Out.Mode == cli.ModePlain {
			row = append([]string{lead}, row...)
		}
		rows = append(rows, row)
	}
	for _, r := range q.Rows {
		add("jobs", r.Group,
			client.QueueTotal{Kind: r.Kind, State: r.State, Jobs: r.Jobs, Claimed: r.Claimed, Bytes: r.Bytes})
	}
	for _, t := range q.States {
		add("state", "(all)", t)
	}
	add("total", "(all)", q.Total)
	return c.Out.Rows([]string{"GROUP", "KIND", "STATE", "JOBS", "AT WORK", "BYTES"}, rows, 0, nil)
}

// queueBatches asks for batches and prints them.
func (c *commands) queueBatches(ctx context.Context, api *client.Client, q client.QueueQuery) error {
	pages := cli.Pages{Limit: 1000, All: q.All || c.Out.Mode != cli.ModeTable}
	fetch := func(after string, limit int) ([]client.QueueBatch, string, error) {
		q.After, q.Limit = after, limit
		page, err := api.QueueBatches(ctx, q)
		return page.Batches, page.Next, err
	}
	return cli.ListPages(ctx, pages, fetch, func(batches []client.QueueBatch, more bool) error {
		err := c.printBatches(batches)
		if err == nil && more {
			c.Note("... and more; --all gives everything")
		}
		return err
	})
}

// printBatches prints batches. Columns in a pipe: level, id, state, group, age, expected, open, ok, failed, deleted,
// bytes, message.
func (c *commands) printBatches(batches []client.QueueBatch) error {
	return cli.List(c.Out, batches, "no batch is open or failed; --all lists those that ended well, too",
		"LEVEL|ID|STATE|AGE|JOBS|OPEN|FAILED|BYTES|GROUP|MESSAGE", func(b *client.QueueBatch) []string {
			n := b.Children
			if c.Out.Mode == cli.ModeTable {
				return []string{b.Level, c.Out.ID(b.Job), string(b.State), c.Span(b.Seconds), strconv.Itoa(n.Expected),
					strconv.Itoa(n.Open), strconv.Itoa(n.Failed + n.TimedOut +
						n.Cancelled), c.Bytes(b.Bytes), b.Group, b.Message}
			}
			return []string{b.Level, string(b.Job), string(b.State), b.Group, c.Span(b.Seconds),
				strconv.Itoa(n.Expected), strconv.Itoa(n.Open), strconv.Itoa(n.OK),
				strconv.Itoa(n.Failed + n.TimedOut + n.Cancelled), strconv.Itoa(n.Deleted), c.Bytes(b.Bytes), b.Message}
		})
}

// printHolds prints what is held. Columns: what, scope or collection, jobs, who, since, until, why.
func (c *commands) printHolds(q *client.QueueHolds) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(q)
	}
	rows := [][]string{}
	for _, h := range q.Holds {
		n := strconv.FormatInt(h.Jobs, 10)
		if h.More {
			n += "+"
		}
		rows = append(rows, []string{"hold", h.Scope.String(), n, h.Who, c.Out.When(h.Since), c.Out.When(h.Until),
			h.Why})
	}
	for _, r := range q.Held {
		rows = append(rows, []string{"held", r.Group + " " + string(r.Kind) + " " +
			string(r.State), strconv.FormatInt(r.Jobs, 10), "", "", "", ""})
	}
	if len(rows) == 0 {
		return c.Out.None("nothing is held")
	}
	return c.Out.Rows([]string{"WHAT", "SCOPE", "JOBS", "WHO", "SINCE", "UNTIL", "WHY"}, rows, 1, nil)
}

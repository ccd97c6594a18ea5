package jobs

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) outbox() *cobra.Command {
	var q client.OutboxQuery
	var of string
	var pages cli.Pages
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "List mails and notifications of the outbox, newest first",
		Long: `A message is written with the commit that it reports, and sent until it is accepted: at least once, always under the same key. What
is refused permanently or too often is abandoned.`,
		Example: "  stagepost admin outbox --status abandoned\n" +
			"  stagepost admin outbox --topic mail --job bat_01J9...\n" +
			"  stagepost admin outbox replay bat_01J9.../report/0 --note 'mail server is back'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.CheckPages(cmd, &pages); err != nil {
				return err
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			q.Job = job.ID(of)
			if err := c.Resolve(ctx, api, &q.Job); err != nil {
				return err
			}
			fetch := func(after string, limit int) ([]job.Message, string, error) {
				q.After, q.Limit = after, limit
				page, err := api.Outbox(ctx, q)
				return page.Messages, page.Next, err
			}
			return cli.ListPages(ctx, pages, fetch, c.printOutbox)
		},
	}
	f := cmd.Flags()
	f.StringVar(&of, "job", "", "only of this batch or job")
	f.StringVar(&q.Topic, "topic", "", "only of this topic: mail, webhook, callback, compute-callback")
	f.StringVar(&q.Status, "status", "", "only with this status: pending, delivered, abandoned")
	pages.Bind(cmd, 50)
	c.Complete(cmd, "status", "pending", "delivered", "abandoned")
	c.Complete(cmd, "topic", "mail", "webhook", "callback", "compute-callback")
	cmd.AddCommand(c.outboxReplay())
	return cmd
}

// printOutbox prints messages. Columns: key, topic, attempts, status, created, next try, error.
func (c *Commands) printOutbox(messages []job.Message, more bool) error {
	switch {
	case c.Out.Mode == cli.ModeJSON:
		return c.Out.JSON(messages)
	case len(messages) == 0:
		return c.Out.None("no message matches")
	}
	rows := make([][]string, len(messages))
	for i := range messages {
		m := &messages[i]
		status, due := string(m.Settled), ""
		if m.Settled == job.Pending {
			status, due = "pending", c.Out.When(m.Due)
		}
		rows[i] = []string{m.Key, m.Topic, strconv.Itoa(m.Attempts), status, c.Out.When(m.Created), due, m.Error}
	}
	err := c.Out.Rows([]string{"KEY", "TOPIC", "TRIES", "STATUS", "AGE", "NEXT", "ERROR"}, rows, 1, nil)
	c.Out.More(len(messages), more)
	return err
}

func (c *Commands) outboxReplay() *cobra.Command {
	var b client.Replay
	cmd := &cobra.Command{
		Use:   "replay KEY...",
		Short: "Deliver messages again, under the keys they had",
		Long: "Delivers messages again that were delivered or abandoned, all of those named or none. Each gets all " +
			"its attempts again.",
		Example: "  stagepost admin outbox replay bat_01J9.../report/0 --note 'mail server is back'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.Note == "" {
				return cli.Usagef("a replay needs a reason: --note WHY")
			}
			b.Keys, b.Actor = args, cli.Whoami(b.Actor)
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			return api.ReplayMessages(ctx, b)
		},
	}
	cli.Audited(cmd, &b.Note, &b.Actor)
	return cmd
}

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
	var all bool
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
			if q.Limit < 1 || q.Limit > 1000 {
				return cli.Usagef("--limit must be 1 to 1000; --all gives everything")
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
			if all = all || c.WantsAll(cmd); all {
				q.Limit = 1000
			}
			messages := []job.Message{}
			for {
				page, err := api.Outbox(ctx, q)
				if err != nil {
					return err
				}
				messages = append(messages, page.Messages...)
				if page.Next == "" || !all {
					return c.printOutbox(messages, page.Next != "")
				}
				q.After = page.Next
			}
		},
	}
	f := cmd.Flags()
	f.StringVar(&of, "job", "", "only of this batch or job")
	f.StringVar(&q.Topic, "topic", "", "only of this topic: mail, webhook, callback, compute-callback")
	f.StringVar(&q.Status, "status", "", "only with this status: pending, delivered, abandoned")
	f.IntVar(&q.Limit, "limit", 50, "at most so many, up to 1000; without it a pipe and -o json get all")
	f.BoolVar(&all, "all", false, "all of them, page by page")
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
	if more && c.Out.Mode == cli.ModeTable {
		c.Out.Line("%s", cli.ShownOf(len(messages)))
	}
	return err
}

func (c *Commands) outboxReplay() *cobra.Command {
	var b client.Replay
	cmd := &cobra.Command{
		Use:   "replay KEY...",
		Short: "Deliver messages again, under the keys they had",
		Long: "Delivers messages again that were delivered or abandoned, all of those named or none. They get all " +
			"their tries anew.",
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
	f := cmd.Flags()
	f.StringVarP(&b.Note, "note", "m", "", "why; stands in the audit list")
	f.StringVar(&b.Actor, "actor", "", "your name in the audit list; defaults to the login name")
	return cmd
}

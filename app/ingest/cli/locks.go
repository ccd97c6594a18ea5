package ingestcli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) locks() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "locks",
		Short: "List the locks of objects, inventory entries and local ids",
		Long: `A lock lets one job at a time add a version to an object, enter it in the inventory, or get an identifier for a local id.

STATE is held, with the state of the job that has it, or "left by an ended job": the next job that asks takes over such a lock, or the
sweep removes it. WAITING is how many jobs wait for it; -o json names them, the next one first, and has the fencing token.`,
		Example: "  stagepost ingest locks\n  stagepost ingest locks break object ark:/99999/fk4abc --note 'its " +
			"worker hangs'",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.Locks(ctx)
			if err != nil {
				return err
			}
			return c.printLocks(all)
		}),
	}
	cmd.AddCommand(c.breakLock())
	return cmd
}

// printLocks prints locks. Columns in a pipe: kind, name, holder, state, since, token, jobs that wait.
func (c *commands) printLocks(all []client.Lock) error {
	return cli.List(c.Out, all, "there are no locks", "KIND|HOLDER|AGE|WAITING|NAME|STATE",
		func(l *client.Lock) []string {
			since, waiting := c.Out.When(l.Since), strconv.Itoa(len(l.Waiting))
			if c.Out.Mode == cli.ModePlain {
				return []string{l.Kind, l.Name, string(l.Holder), lockState(l), since, strconv.FormatInt(l.Token, 10),
					waiting}
			}
			return []string{l.Kind, c.Out.ID(l.Holder), since, waiting, l.Name, lockState(l)}
		})
}

// lockState describes the state of a lock.
func lockState(l *client.Lock) string {
	text := "held"
	if l.State == ingest.LockLeft {
		text = "left by an ended job"
	}
	if l.JobState != "" {
		text += " (" + l.JobState + ")"
	}
	return text
}

func (c *commands) breakLock() *cobra.Command {
	var actor, note string
	cmd := &cobra.Command{
		Use:   "break KIND NAME --note WHY",
		Short: "Release a lock; later writes of its holder are refused",
		Long: `The job that had the lock goes on, asks for it again and waits for its turn. The reason is entered in the audit log.

Break a lock only if its holder will never release it. The locks of a job that has ended delay no other job: they are taken over.`,
		Example: "  stagepost ingest locks break object ark:/99999/fk4abc --note 'its worker hangs'",
		Args:    cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"object", "inventory", "local-id"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			if note == "" {
				return cli.Usagef("a lock is broken for a reason: --note WHY")
			}
			was, err := api.BreakLock(ctx, args[0], args[1], cli.Whoami(actor), note)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(was)
			}
			c.Out.Line("%s %s was %s by %s since %s (token %d); %d %s for it", was.Kind, was.Name, lockState(&was),
				was.Holder,
				c.Out.Moment(was.Since), was.Token, len(was.Waiting), cli.Plural(int64(len(was.Waiting)), "job waits",
					"jobs wait"))
			return nil
		}),
	}
	cli.Audited(cmd, &note, &actor)
	return cmd
}

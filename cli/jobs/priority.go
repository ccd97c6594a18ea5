package jobs

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) priority() *cobra.Command {
	var seen int64
	var actor, note string
	cmd := &cobra.Command{
		Use:   "priority N ID...",
		Short: "Move jobs in their queue: 0 goes first, 99 last, 50 is usual",
		Long: `Moves jobs in their queue, whatever their state: 0 goes first, 99 last. The jobs of a batch are moved one by one, or together with stagepost bulk
priority --parent.`,
		Example: "  stagepost priority 5 ing_01J9... --note 'exhibition'\n" +
			"  stagepost bulk priority --priority 5 --parent bat_01J9... --note 'exhibition'",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.CompleteAfterFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < job.FirstPriority || n > job.LastPriority {
				return cli.Usagef("the priority must be %d to %d, not %q", job.FirstPriority, job.LastPriority, args[0])
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			p := client.Priority{Priority: &n, Version: seen, Actor: cli.Whoami(actor), Note: note}
			set := func(id job.ID) (client.Job, error) {
				if err := c.Resolve(ctx, api, &id); err != nil {
					return client.Job{}, err
				}
				return api.SetPriority(ctx, id, p)
			}
			return c.Each(args[1:], set, func(*client.Job) string { return fmt.Sprintf("moved to priority %d", n) },
				"PRIO",
				func(j *client.Job) string { return strconv.Itoa(j.Priority) })
		},
	}
	f := cmd.Flags()
	f.Int64Var(&seen, "version", 0, "only if the record still has this version")
	cli.Recorded(cmd, &note, &actor)
	return cmd
}

package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) retry() *cobra.Command {
	cmd, act := c.eventCommand("retry", "Continue failed jobs in the state in which they failed",
		`Continues failed jobs in the state in which they failed; earlier states are not repeated. It is refused where a retry cannot help.
A compute job that has ended does not run again: a new job is made of its files, and its id is printed. For a job that completed it needs --confirm.
All failed jobs of a kind, cause or collection: stagepost bulk retry.
With --task one failed task of a running archive job is tried again, while the job and its other tasks go on.`,
		`  stagepost retry ing_01J9... --note 'the file is there now'
  stagepost retry arc_01J9... --task activity/31 --note 'it may be read now'
  stagepost bulk retry --state Failed --cause network --note 'the line is back'`)
	var task string
	cmd.Flags().StringVar(&task, "task", "", "only this task of the job, as stagepost show has its name")
	whole := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if task == "" {
			return whole(cmd, args)
		}
		return c.retryTasks(cmd, task, args, act.Body())
	}
	return cmd
}

// retryTasks has a task of each job tried again on its own.
func (c *Commands) retryTasks(cmd *cobra.Command, task string, ids []string, a client.Act) error {
	return c.actOnEach(cmd, ids, func(*client.Job) string { return "task tried again" },
		func(ctx context.Context, api *client.Client, id job.ID) (client.Job, error) {
			return api.RetryTask(ctx, id, client.TaskRetry{Task: task, As: a.As, Actor: a.Actor, Note: a.Note,
				Version: a.Version})
		})
}

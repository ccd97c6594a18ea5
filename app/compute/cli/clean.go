package computecli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// clean removes the files of jobs.
func (c *commands) clean() *cobra.Command {
	var a jobs.Act
	cmd := &cobra.Command{
		Use:   "clean ID...",
		Short: "Remove the files of compute jobs that have ended",
		Long: `Removes the files of compute jobs that have ended, inputs and results, earlier than the server does (setting
compute.keep). The space is free at once. It cannot be undone: fetch what is needed first. Record and history stay. A job
that has not ended is refused (stagepost cancel ID); one without files stays as it is.`,
		Example: `  stagepost compute results cmp_01J9... --out run7.zip
  stagepost compute clean cmp_01J9...`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeComputeIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, ids []string) error {
			var sum removed
			clean := func(id job.ID) (client.Job, error) { return c.cleanOne(ctx, api, string(id), &a, &sum) }
			err := c.Each(ids, clean, nil, "OUTCOME", func(j *client.Job) string { return string(j.Outcome) })
			if sum.jobs+sum.without > 0 && c.Out.Mode == cli.ModeTable {
				c.Out.Line("%s", sum.String())
			}
			return err
		}),
	}
	a.Bind(cmd)
	c.Complete(cmd, "as", "operator", "owner")
	return cmd
}

// cleanOne removes the files of one job, and adds them to a sum.
func (c *commands) cleanOne(ctx context.Context, api *client.Client, name string, a *jobs.Act,
	sum *removed) (j client.Job, err error) {
	id, err := c.JobOf(ctx, api, compute.JobKind, name)
	if err != nil {
		return j, err
	}
	before, err := api.ComputeJob(ctx, id)
	if err != nil {
		return j, err
	}
	if _, err = api.CleanCompute(ctx, id, a.Body()); err != nil {
		return j, err
	}
	sum.add(&before)
	return api.Job(ctx, id)
}

// removed is what clean removed.
type removed struct {
	jobs, files, without int
	bytes                int64
}

// add adds the files that a job had before it was cleaned.
func (r *removed) add(j *client.ComputeJob) {
	if j.State == compute.Cleaned {
		r.without++
		return
	}
	r.jobs++
	r.files += len(j.Files)
	for _, f := range j.Files {
		r.bytes += f.Size
	}
	if j.Results != nil {
		r.files += j.Results.Files
		r.bytes += j.Results.Bytes
	}
}

func (r *removed) String() string {
	text := fmt.Sprintf("removed the files of %d %s: %d %s, %s", r.jobs, cli.Plural(int64(r.jobs), "job", "jobs"),
		r.files, cli.Plural(int64(r.files), "file", "files"), quantity.Size(r.bytes))
	if r.without > 0 {
		text += fmt.Sprintf("; %d had none", r.without)
	}
	return text
}

// noDelete refuses to delete a compute job and names the command to use instead.
func noDelete(_ context.Context, _ *client.Client, id job.ID, _ *client.Act) (client.ComputeJob, error) {
	return client.ComputeJob{}, job.Errorf(job.Refused, "delete", id,
		"a compute job keeps its record; its files are removed with: stagepost compute clean %s", id)
}

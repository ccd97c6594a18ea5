package jobs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *Commands) show() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID...",
		Short:             "Show jobs with all that is known about them",
		Example:           "  stagepost show ing_01J9...\n  stagepost show -o json ing_01J9... | jq .data",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			for i, arg := range args {
				id, err := c.JobID(ctx, api, arg)
				if err != nil {
					return err
				}
				j, err := api.Job(ctx, id)
				if err != nil {
					return err
				}
				if i > 0 && c.Out.Mode != cli.ModeJSON {
					fmt.Fprintln(c.Out)
				}
				if err := c.printJob(&j); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// printJob prints one job.
func (c *Commands) printJob(j *client.Job) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(j)
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	progress, children, worker := "", "", ""
	if p := j.Progress; p != nil {
		progress = fmt.Sprintf("%d %s", p.Done, p.Unit)
		if p.Total > 0 {
			progress = fmt.Sprintf("%d of %d %s (%d%%)", p.Done, p.Total, p.Unit, p.Done*100/p.Total)
		}
	}
	if j.Children.Expected > 0 {
		children = counts(j.Children)
	}
	if j.Claimed() {
		worker = fmt.Sprintf("%s (claim %d until %s)", j.Worker, j.Epoch, c.Out.Moment(j.Until))
	}
	var late []string
	for _, m := range j.Undelivered {
		status := "pending"
		if m.Settled != job.Pending {
			status = string(m.Settled)
		}
		late = append(late, fmt.Sprintf("%s (%s, %s: %s)", m.Key, m.Topic, status, m.Error))
	}
	return c.Out.Sheet([][2]string{
		{"id", string(j.ID)}, {"kind", string(j.Kind)}, {"state", string(j.State)}, {"outcome", string(j.Outcome)},
		{"message", j.Message}, {"cause", j.Cause}, {"undelivered", strings.Join(late, "; ")}, {"progress", progress}, {"children", children},
		{"last success", string(j.LastOK)}, {"failed in", string(j.Origin)},
		{"priority", strconv.Itoa(j.Priority)}, {"parent", string(j.Parent)}, {"group", j.Group}, {"owner", j.Owner}, {"key", j.Key},
		{"worker", worker}, {"attempts", number(j.Attempts)}, {"retries", number(j.Retries)},
		{"due", c.Out.Moment(j.Due)}, {"deadline", c.Out.Moment(j.Deadline)}, {"expires", c.Out.Moment(j.Expires)},
		{"created", c.Out.Moment(j.Created)}, {"entered", c.Out.Moment(j.Entered)}, {"changed", c.Out.Moment(j.Changed)},
		{"version", strconv.FormatInt(j.Version, 10)}, {"number", strconv.FormatInt(j.Number, 10)},
		{"spec", string(j.Spec)}, {"data", string(j.Data)},
		{"operator can", Events(j.Can["operator"])}, {"owner can", Events(j.Can["owner"])},
	})
}

// Events joins event names.
func Events(all []lifecycle.Event) string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}

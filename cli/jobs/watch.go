package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *Commands) watch() *cobra.Command {
	var until string
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a job until it has ended",
		Long: `Follows a job until it has ended: a line for each entry of its history, and below them, on a terminal, how far it is.
In a pipe each change of progress or of a batch's counts is a line as well; with -o json each message is one line of JSON.

The exit code is 0 if it ended well or came to the state of --until, 5 if it ended otherwise, 6 if --timeout passed first.`,
		Example:           "  stagepost watch bat_01J9... --timeout 1h\n  stagepost watch bat_01J9... --until Held",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if until != "" && !slices.ContainsFunc(c.Lives,
				func(t *lifecycle.Table) bool { _, ok := t.Stage(lifecycle.State(until)); return ok }) {
				return cli.Usagef("--until: there is no state %q", until)
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			return c.followTo(ctx, id, lifecycle.State(until))
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "follow it only until it comes to this state")
	c.Complete(cmd, "until", c.StateNames()...)
	return cmd
}

// ErrReached ends the following of a job that came to the wanted state.
var ErrReached = errors.New("the state is reached")

// Follow prints what happens to a job until it has ended. The error is a failedJob if it did not end well.
func (c *Commands) Follow(ctx context.Context, id job.ID) error { return c.followTo(ctx, id, "") }

// followTo is follow that ends in a state, unless that is empty.
func (c *Commands) followTo(ctx context.Context, id job.ID, until lifecycle.State) error {
	api, err := c.API()
	if err != nil {
		return err
	}
	bar := &cli.Bar{Out: c.Out}
	var last client.Job
	err = api.Watch(ctx, id, 0, func(u client.Update) error {
		if u.Job != nil {
			last = *u.Job
		}
		if err := c.change(bar, &u); err != nil {
			return err
		}
		if until != "" && last.State == until {
			return ErrReached
		}
		return nil
	})
	bar.End()
	switch {
	case errors.Is(err, ErrReached):
		return nil
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case last.Outcome != lifecycle.OK && last.Outcome != lifecycle.None:
		return cli.FailedJob{Job: last}
	}
	return nil
}

// change prints one message of a watched job.
func (c *Commands) change(bar *cli.Bar, u *client.Update) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Message(struct {
			Event    *client.Event `json:"event,omitempty"`
			Job      *client.Job   `json:"job,omitempty"`
			Restored bool          `json:"restored,omitempty"`
		}{u.Event, u.Job, u.Restored})
	}
	if u.Restored {
		bar.Clear()
		if c.Out.Mode == cli.ModePlain {
			_, err := fmt.Fprintf(c.Out, "restored\t%s\n", u.Job.ID)
			return err
		}
		c.Out.Line("The history has gone back, as after the restore of a backup. It follows from its first entry.")
		return nil
	}
	if e := u.Event; e != nil {
		bar.Clear()
		if c.Out.Mode == cli.ModePlain {
			fields := c.entry(e)
			for i := range fields {
				fields[i] = cli.Clean(fields[i])
			}
			_, err := fmt.Fprintln(c.Out, strings.Join(append([]string{"event"}, fields...), "\t"))
			return err
		}
		c.Out.Line("%s  %-10s %s%s", e.At.Local().Format("15:04:05"), e.Event, e.To, BecauseOf(e))
		return nil
	}
	done, total, text := Standing(u.Job)
	if done == 0 && total == 0 && c.Out.Mode == cli.ModePlain {
		return nil // the lines of the history show it
	}
	return bar.Show(done, total, text)
}

// Standing gives how far a job is: by the jobs of a batch, else by the progress of its step.
func Standing(j *client.Job) (done, total int64, text string) {
	switch {
	case j.Children.Expected > 0:
		return int64(j.Children.Created() - j.Children.Open), int64(j.Children.Expected),
			string(j.State) + " " + counts(j.Children)
	case j.Progress != nil && !j.Ended: // the last report of an ended job is not its end
		return j.Progress.Done, j.Progress.Total,
			fmt.Sprintf("%s %d/%d %s", j.State, j.Progress.Done, j.Progress.Total, j.Progress.Unit)
	}
	return 0, 0, strings.TrimSpace(string(j.State) + " " + j.Message)
}

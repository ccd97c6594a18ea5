package jobs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// mostTail is how many lines the server returns of the end of a log.
const mostTail = 10_000

func (c *Commands) logs() (cmd *cobra.Command, ready func()) {
	var view cli.LogView
	var read []func(context.Context, *client.Client, job.ID, cli.LogView) (bool, error)
	cmd = &cobra.Command{
		Use:   "logs ID",
		Short: "Show the log of a job, or the output of its script",
		Long: `Shows what the steps of a job logged. For a compute job it shows what its script wrote, standard output to standard output and standard error to standard error; with
--events what the server did: each entry of its history, with its meaning, its reason and the person or worker, and what was logged meanwhile. With --follow it continues until the job has ended, also for a job that has not begun. With --tail it begins with the last lines, at most those in the last MiB; of the output of a script with those of each stream.
On a terminal control characters are escaped; a pipe or a file gets the bytes as the script wrote them.`,
		Example: "  stagepost logs ing_01J9...\n  stagepost logs cmp_01J9... --follow\n" +
			"  stagepost logs cmp_01J9... --stream stderr --tail 20",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("tail") && (view.Tail < 1 || view.Tail > mostTail) {
				return cli.Usagef("--tail must be 1 to %d", mostTail)
			}
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			if view.Follow {
				ctx = client.Persistent(ctx)
			}
			for _, one := range read {
				if known, err := one(ctx, api, id, view); known || err != nil {
					return err
				}
			}
			return c.readLog(ctx, api, id, view)
		}),
	}
	cmd.Flags().IntVar(&view.Tail, "tail", 0, "begin with the last so many lines, 1 to 10000")
	cmd.Flags().BoolVarP(&view.Follow, "follow", "f", false, "go on until the job has ended")
	return cmd, func() {
		for _, p := range c.Parts {
			if p.Logs != nil {
				read = append(read, p.Logs(cmd))
			}
		}
	}
}

// readLog prints a log chunk by chunk. In JSON each line is an object of its own, so that it can be followed.
func (c *Commands) readLog(ctx context.Context, api *client.Client, id job.ID, v cli.LogView) error {
	var offset int64
	for first := true; ; first = false {
		ended := true
		if v.Follow {
			j, err := api.Job(ctx, id)
			if err != nil {
				return err
			}
			ended = j.Ended
		}
		var chunk client.Log
		var err error
		if first && v.Tail > 0 {
			chunk, err = api.LogTail(ctx, id, v.Tail)
		} else {
			chunk, err = api.Log(ctx, id, offset, 0)
		}
		if err != nil {
			return err
		}
		offset = chunk.Next
		for _, l := range chunk.Lines {
			if err := c.LogLine(&l); err != nil {
				return err
			}
		}
		if chunk.More {
			continue
		}
		if ended {
			return nil
		}
		wait := time.NewTimer(300 * time.Millisecond)
		select {
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		case <-wait.C:
		}
	}
}

// LogLine prints a line of a log. A terminal gets local time, and attributes as name=value.
func (c *Commands) LogLine(l *client.Line) error {
	switch c.Out.Mode {
	case cli.ModeJSON:
		return c.Message(l)
	case cli.ModeTable:
		text := fmt.Sprintf("%s  %-5s %-12s  %s", l.Time.Local().Format(time.TimeOnly), l.Level, l.State, l.Msg)
		for _, pair := range fields("", l.Attrs) {
			if strings.Contains(pair[1], " ") {
				pair[1] = strconv.Quote(pair[1])
			}
			text += " " + pair[0] + "=" + c.Out.Short(pair[1])
		}
		c.Out.Line("%s", text)
		return nil
	}
	stamp := l.Time.UTC().Format("2006-01-02T15:04:05.000Z")
	_, err := fmt.Fprintln(c.Out, strings.TrimRight(strings.Join([]string{stamp, l.Level, cli.Clean(string(l.State)),
		cli.Clean(l.Msg), cli.Clean(string(l.Attrs))}, "\t"), "\t"))
	return err
}

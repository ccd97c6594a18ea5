package archivecli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// schedules are the commands of schedules. Without a subcommand it lists them.
func (c *commands) schedules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List schedules with their next time and their newest run",
		Long: `Lists the schedules of the server's configuration, by name. The columns in a pipe are name, source, next
time (or paused), state and id of the newest run, time of that run, number of activities that wait after
failures, and what the run did.`,
		Example: "  stagepost archive schedules\n  stagepost archive schedules show nightly\n" +
			"  stagepost archive schedules run nightly --dry-run --wait",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, _ []string) error {
			all, err := api.ArchiveSchedules(ctx)
			if err != nil {
				return err
			}
			return cli.List(c.Out, all, "there is no schedule: add one to schedules in the file of archive.config",
				"NAME|SOURCE|NEXT|STATE|RUN|SINCE|WAITING|RESULT", c.scheduleRow)
		}),
	}
	cmd.AddCommand(c.scheduleShow(), c.scheduleRun())
	return cmd
}

func (c *commands) scheduleRow(s *client.ArchiveSchedule) []string {
	waiting := ""
	if s.Waits > 0 || c.Out.Mode != cli.ModeTable {
		waiting = strconv.Itoa(s.Waits)
	}
	if s.Last == nil {
		return []string{s.Name, s.Source, c.nextTime(s), "", "", "", waiting, ""}
	}
	return []string{
		s.Name, s.Source, c.nextTime(s), string(s.Last.State), c.Out.ID(s.Last.ID), c.when(s.Last.Created), waiting,
		s.Last.Message,
	}
}

func (c *commands) nextTime(s *client.ArchiveSchedule) string {
	if s.Next.IsZero() {
		return "paused"
	}
	return c.Out.Moment(s.Next)
}

func (c *commands) scheduleShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule: its times, what waits after failures, and what its newest run decided",
		Long: `Shows a schedule with its next time and its newest run. Then the activities whose archive failed, and
which are not tried again yet: until when, how many failures there were with the same content, and why.
Then what the newest run decided about each activity, and why. In a pipe each line begins with what it
is: schedule, waiting (until, failures, last failure, course, activity, name, job that failed, cause) or
decision (mark, course, activity, name, reason, archive job).`,
		Example: "  stagepost archive schedules show nightly",
		Args:    cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			all, err := api.ArchiveSchedules(ctx)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(s client.ArchiveSchedule) bool { return s.Name == args[0] })
			if i < 0 {
				return job.Errorf(job.NotFound, "schedule", "", "there is no schedule %.100q: stagepost archive "+
					"schedules lists them", args[0])
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all[i])
			}
			return c.printSchedule(&all[i])
		}),
	}
}

func (c *commands) printSchedule(s *client.ArchiveSchedule) error {
	run := "none yet"
	if s.Last != nil {
		run = fmt.Sprintf("%s: %s, created %s: %s", s.Last.ID, s.Last.State, c.Out.Moment(s.Last.Created),
			s.Last.Message)
	}
	if c.Out.Mode == cli.ModePlain {
		row := []string{"schedule", s.Name, s.Source, s.Cron, s.TimeZone, c.nextTime(s)}
		if err := c.Out.Table(nil, [][]string{row}); err != nil {
			return err
		}
	} else {
		err := c.Out.Sheet([][2]string{
			{"schedule", s.Name}, {"source", s.Source}, {"times", s.Cron + " (" + s.TimeZone + ")"},
			{"next", c.nextTime(s)}, {"newest run", run}, {"waiting", waitingText(s)},
		})
		if err != nil {
			return err
		}
	}
	for i := range s.Waiting {
		if err := c.printWaiting(&s.Waiting[i]); err != nil {
			return err
		}
	}
	if s.Last == nil {
		return nil
	}
	return c.printDecisions(s.Last)
}

// waitingText states how many activities wait.
func waitingText(s *client.ArchiveSchedule) string {
	switch {
	case s.Waits == 0:
		return "no activity waits after failures"
	case s.Waits > len(s.Waiting):
		return fmt.Sprintf("%d activities wait after failures, of which %d follow", s.Waits, len(s.Waiting))
	case s.Waits == 1:
		return "1 activity waits after failures, unless its content changes"
	}
	return fmt.Sprintf("%d activities wait after failures, unless their content changes", s.Waits)
}

func (c *commands) printWaiting(w *client.ArchiveWaiting) error {
	if c.Out.Mode == cli.ModePlain {
		return c.Out.Table(nil, [][]string{{
			"waiting", c.Out.Moment(w.Until), strconv.Itoa(w.Failures), c.Out.Moment(w.Last), w.Course, w.Activity,
			w.Name, string(w.Job), w.Cause,
		}})
	}
	name := "activity " + w.Activity
	if w.Course != "" {
		name += " of course " + w.Course
	}
	if w.Name != "" {
		name += " (" + w.Name + ")"
	}
	failures := "1 failure"
	if w.Failures != 1 {
		failures = fmt.Sprintf("%d failures", w.Failures)
	}
	c.Out.Line("  %s: %s, until %s", name, failures, c.Out.Moment(w.Until))
	c.Out.Line("      last: %s by %s", c.Out.Moment(w.Last), w.Job)
	c.Out.Line("      why: %s", w.Cause)
	return nil
}

// marks are the marks of decisions in the order in which they are printed.
var marks = []client.ArchiveMark{"ARCHIVE", "FORCE", "SKIP", "IGNORE"}

// printDecisions prints what a run decided: what is archived first.
func (c *commands) printDecisions(j *client.Job) error {
	var r client.ArchiveRun
	if len(j.Data) > 0 {
		if err := json.Unmarshal(j.Data, &r); err != nil {
			return fmt.Errorf("%s: its decisions cannot be read: %w", j.ID, err)
		}
	}
	slices.SortStableFunc(r.Decisions, func(a, b client.ArchiveDecision) int {
		return slices.Index(marks, a.Mark) - slices.Index(marks, b.Mark)
	})
	for i := range r.Decisions {
		d := &r.Decisions[i]
		if c.Out.Mode == cli.ModePlain {
			err := c.Out.Table(nil, [][]string{{
				"decision", string(d.Mark), d.Course, d.Activity, d.Name, d.Reason, string(d.Job),
			}})
			if err != nil {
				return err
			}
			continue
		}
		c.printDecision(d)
	}
	if r.Omitted > 0 && c.Out.Mode == cli.ModeTable {
		c.Out.Line("%d more decisions are in the log: stagepost logs %s", r.Omitted, j.ID)
	}
	return nil
}

// printDecision prints a decision on two lines: about what, and why.
func (c *commands) printDecision(d *client.ArchiveDecision) {
	what := "course " + d.Course
	if d.Activity != "" {
		what += ", " + strings.TrimSpace(d.Module+" "+d.Activity)
	}
	if d.Name != "" {
		what += ": " + d.Name
	}
	c.Out.Line("%-7s  %s", d.Mark, what)
	why := c.Out.Local(d.Reason)
	if d.Job != "" {
		why += "; job " + string(d.Job)
	}
	c.Out.Line("           %s", why)
}

func (c *commands) scheduleRun() *cobra.Command {
	var s client.StartSchedule
	var wait bool
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Start a run of a schedule now",
		Long: `Starts a run of a schedule now, a paused one too. With --dry-run it records what it decides about each
activity, and starts no archive jobs. With --wait it follows the run and prints its decisions: what is
archived, or would be, and why, then what is not; the exit code then is 5 if the run failed. stagepost
archive schedules show NAME prints them later. With --key a repetition of the command gives the same run.`,
		Example: "  stagepost archive schedules run nightly --dry-run --wait",
		Args:    cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			s.Actor = cli.Whoami(s.Actor)
			j, err := api.StartSchedule(ctx, args[0], s)
			if err != nil {
				return err
			}
			if !wait || c.Out.Mode != cli.ModeJSON {
				if err := c.PrintOutcome(&j); err != nil || !wait {
					return err
				}
			}
			if err := c.Follow(ctx, j.ID); err != nil || c.Out.Mode == cli.ModeJSON {
				return err
			}
			if j, err = api.Job(ctx, j.ID); err != nil || j.Outcome != lifecycle.OK {
				return err
			}
			return c.printDecisions(&j)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&s.DryRun, "dry-run", false, "record the decisions, and start no archive jobs")
	flags.BoolVar(&wait, "wait", false, "follow the run until it has ended, and print its decisions")
	flags.StringVarP(&s.Note, "note", "m", "", "why; stands in the history of the run")
	flags.StringVar(&s.Actor, "actor", "", "your name in the history; defaults to the login name")
	flags.StringVar(&s.Key, "key", "", "idempotency key")
	return cmd
}

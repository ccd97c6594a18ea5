package computecli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// computePrefix begins the ids of compute jobs.
const computePrefix = "cmp_"

func isCompute(id string) bool { return strings.HasPrefix(id, computePrefix) }

// computeFilter are the flags of jobs.
type computeFilter struct {
	client.ComputeQuery
	pages       cli.Pages
	open, ended bool
}

func (c *commands) jobs() *cobra.Command {
	var f computeFilter
	var watch bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List compute jobs, newest first",
		Long: `Lists compute jobs, newest first: all that match every filter given. A filter may be repeated, or take a list with commas.
The columns in a pipe are number, id, service, user, state, why (in short; stagepost why ID shows more), age, time that it ran or runs, exit code or signal. A queued job shows its
position in the queue of its service. With --watch the list is drawn again every two seconds until Ctrl-C.`,
		Example: "  stagepost compute jobs --open\n  stagepost compute jobs --service python --outcome failed " +
			"--all\n  stagepost compute jobs --label project=x --watch",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			if err := c.CheckPages(cmd, &f.pages); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			if watch && (c.Out.Mode != cli.ModeTable || !c.Out.Terminal) {
				return cli.Usagef("--watch is for a terminal; stagepost watch ID follows one job in a pipe")
			}
			api, err := c.API()
			if err != nil {
				return err
			}
			if err := areComputeCauses(ctx, api, f.Causes); err != nil {
				return err
			}
			if watch {
				return c.watchJobs(ctx, api, &f)
			}
			jobs, more, err := f.find(ctx, api)
			if err != nil {
				return err
			}
			return c.printCompute(jobs, more)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.Services, "service", nil, "only of this service")
	fl.StringSliceVar(&f.States, "state", nil, "only in this state, such as running")
	fl.StringSliceVar(&f.Outcomes, "outcome", nil, "only with this outcome: ok, failed, cancelled")
	fl.StringSliceVar(&f.Causes, "cause", nil, "only with this cause, such as memory or timeout")
	fl.StringSliceVar(&f.Labels, "label", nil, "only with this label: NAME=VALUE, or NAME with any value")
	fl.StringVar(&f.Owner, "owner", "", "only of this owner")
	fl.StringVar(&f.Name, "name", "", "only with this name")
	fl.BoolVar(&f.open, "open", false, "only jobs that have not ended")
	fl.BoolVar(&f.ended, "ended", false, "only jobs that have ended")
	f.pages.Bind(cmd, 50)
	fl.BoolVar(&watch, "watch", false, "draw the list again and again")
	c.Complete(cmd, "outcome", "ok", "failed", "cancelled")
	c.Complete(cmd, "cause", compute.Causes()...)
	c.completeCompute(cmd)
	return cmd
}

// check refuses flags that are invalid, and completes the query.
func (f *computeFilter) check() error {
	if f.open && f.ended {
		return cli.Usagef("either --open or --ended")
	}
	if f.open || f.ended {
		f.Ended = &f.ended
	}
	return areComputeStates(f.States)
}

// find gives the jobs, and whether there are more.
func (f *computeFilter) find(ctx context.Context, api *client.Client) (jobs []client.ComputeJob, more bool, err error) {
	q := f.ComputeQuery
	return cli.Collect(ctx, f.pages, func(after string, limit int) ([]client.ComputeJob, string, error) {
		q.After, q.Limit = after, limit
		page, err := api.ComputeJobs(ctx, q)
		return page.Jobs, page.Next, err
	})
}

// printCompute prints a list of compute jobs. Columns in a pipe: number, id, service, user, state, why, age, runtime,
// exit. On a terminal a row is one line, and why is the last column, which is cut.
func (c *commands) printCompute(jobs []client.ComputeJob, more bool) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(jobs)
	}
	if len(jobs) == 0 {
		return c.Out.None("no compute job matches")
	}
	rows := make([][]string, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		number, why := strconv.FormatInt(j.Number, 10), c.whyShort(j)
		age, runtime := c.Out.When(j.Created), runtimeOf(j, time.Now())
		if c.Out.Mode == cli.ModePlain {
			rows[i] = []string{number, string(j.ID), j.Service, j.User, string(j.State), why, age, runtime, exitText(j)}
			continue
		}
		rows[i] = []string{number, c.Out.ID(j.ID), j.Service, j.User, string(j.State), age, runtime, exitText(j), why}
	}
	heading := []string{"NUMBER", "ID", "SERVICE", "USER", "STATE", "AGE", "RUNTIME", "EXIT", "WHY"}
	err := c.Out.Rows(heading, rows, 1, nil)
	c.Out.More(len(rows), more)
	return err
}

// whyShort reports why a job stands where it stands, in a few words.
func (c *commands) whyShort(j *client.ComputeJob) string {
	text := j.Message
	switch {
	case j.QueuePosition > 0 && text == "":
		text = fmt.Sprintf("position %d", j.QueuePosition)
	case j.QueuePosition > 0:
		text = fmt.Sprintf("position %d: %s", j.QueuePosition, text)
	case j.Ended:
		text = j.Cause
	case text == "" && j.Agent != "":
		text = "on " + j.Agent
	}
	return text
}

// runtimeOf gives how long a script ran, or has been running.
func runtimeOf(j *client.ComputeJob, now time.Time) string {
	switch {
	case j.Ending != nil && j.Ended && j.Ending.WallMS > 0:
		return quantity.FormatDuration(time.Duration(j.Ending.WallMS) * time.Millisecond)
	case j.Started.IsZero():
		return ""
	case j.Ended:
		return quantity.FormatDuration(max(0, j.Finished.Sub(j.Started)).Round(time.Millisecond))
	}
	return quantity.FormatDuration(max(0, now.Sub(j.Started)).Round(time.Second))
}

// exitText gives how a script ended: its code or the signal.
func exitText(j *client.ComputeJob) string {
	switch e := j.Ending; {
	case e == nil || !j.Ended:
		return ""
	case e.Signal != "":
		return e.Signal
	case e.ExitCode < 0 && j.Started.IsZero(): // it never ran
		return ""
	case e.ExitCode < 0:
		return "unknown"
	default:
		return strconv.Itoa(e.ExitCode)
	}
}

// watchJobs draws the list again and again, until ctx ends.
func (c *commands) watchJobs(ctx context.Context, api *client.Client, f *computeFilter) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		jobs, more, err := f.find(ctx, api)
		if err != nil {
			return err
		}
		if err := c.Out.Own("\x1b[H\x1b[2J"); err != nil {
			return err
		}
		c.Out.Line("%s  %s", time.Now().Format("15:04:05"), api.Base())
		if err := c.printCompute(jobs, more); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// jobLine prints what became of a compute job, in short; headings only with the first of several.
func (c *commands) jobLine(j *client.ComputeJob, headings []string) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(j)
	}
	state := string(j.State)
	if c.Out.Mode == cli.ModeTable {
		state = fmt.Sprintf("%-15s", state)
	}
	return c.Out.Table(headings, [][]string{{string(j.ID), state, string(j.Outcome)}})
}

// completeCompute offers services and states for the flags of compute commands.
func (c *commands) completeCompute(cmd *cobra.Command) {
	// The errors report that a flag does not exist: it does.
	if cmd.Flags().Lookup("service") != nil {
		_ = cmd.RegisterFlagCompletionFunc("service", c.completeServices)
	}
	if cmd.Flags().Lookup("state") != nil {
		c.Complete(cmd, "state", computeStates()...)
	}
}

// computeStates lists the states of compute jobs.
func computeStates() []string {
	var names []string
	for _, stage := range compute.JobLife.Stages() {
		names = append(names, string(stage.State))
	}
	return names
}

// areComputeStates refuses what is no state of compute jobs, in any case. The server has the states of all kinds, of
// which the others' would only give an empty list.
func areComputeStates(states []string) error {
	for _, state := range states {
		if !slices.ContainsFunc(computeStates(), func(name string) bool { return strings.EqualFold(name, state) }) {
			return cli.Usagef("--state: compute jobs have no state %.40q (known: %s)", state,
				strings.Join(computeStates(), ", "))
		}
	}
	return nil
}

// areComputeCauses refuses what is no cause of compute jobs and stands in no job either: an executor of another version
// may give causes that this program does not know.
func areComputeCauses(ctx context.Context, api *client.Client, causes []string) error {
	known := compute.Causes()
	for _, cause := range causes {
		if slices.Contains(known, cause) {
			continue
		}
		page, err := api.ComputeJobs(ctx, client.ComputeQuery{Causes: []string{cause}, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) == 0 && page.Next == "" {
			return cli.Usagef("--cause: no compute job has the cause %.40q (known: %s)", cause,
				strings.Join(known, ", "))
		}
	}
	return nil
}

// completeServices offers the services.
func (c *commands) completeServices(cmd *cobra.Command, _ []string, toComplete string) ([]string,
	cobra.ShellCompDirective) {
	return c.Ask(cmd, toComplete, func(ctx context.Context, api *client.Client) ([]string, error) {
		all, err := api.ComputeServices(ctx)
		names := make([]string, len(all))
		for i := range all {
			names[i] = fmt.Sprintf("%s\t%d of %d run, %d wait", all[i].Name, all[i].Running, all[i].MaxRuns,
				all[i].Queued)
		}
		return names, err
	})
}

// completeComputeIDs offers the newest compute jobs as the first argument.
func (c *commands) completeComputeIDs(cmd *cobra.Command, args []string, toComplete string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.CompleteJobs(cmd, toComplete, job.Query{Kinds: []job.Kind{client.ComputeKind}, Limit: 200})
}

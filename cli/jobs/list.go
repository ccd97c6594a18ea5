package jobs

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Filter are the flags that select jobs.
type Filter struct {
	Kinds, states, outcomes  []string
	group, owner, parent     string
	key, tag                 string
	causes                   []string
	open, ended, oldest, All bool
	Limit                    int
}

func (c *Commands) list() *cobra.Command {
	var f Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long:  "Lists jobs, newest first: all that match every filter given. A filter may be repeated, or take a list with commas.",
		Example: "  stagepost list --kind ingest.job --state Failed\n  stagepost list --parent bat_01J9... --open\n" +
			"  stagepost list --outcome failed --all | cut -f1 | xargs stagepost retry --note 'disk replaced'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			f.All = f.All || c.WantsAll(cmd)
			q, err := f.Query()
			if err != nil {
				return err
			}
			api, err := c.API()
			if err != nil {
				return err
			}
			return c.ListAll(ctx, api, q, f.All)
		},
	}
	f.Bind(cmd)
	c.CompleteNames(cmd)
	return cmd
}

// ListAll prints one page of jobs, or all pages.
func (c *Commands) ListAll(ctx context.Context, api *client.Client, q job.Query, all bool) error {
	if err := c.Resolve(ctx, api, &q.Parent); err != nil {
		return err
	}
	jobs := []job.Job{}
	for {
		page, err := api.Jobs(ctx, q)
		if err != nil {
			return err
		}
		jobs = append(jobs, page.Jobs...)
		if page.Next == "" || !all {
			return c.printJobs(jobs, page.Next != "")
		}
		q.After = page.Next
	}
}

// BindWhich adds the filters that list and bulk share.
func (f *Filter) BindWhich(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.Kinds, "kind", nil, "only this kind, such as ingest.job")
	fl.StringSliceVar(&f.states, "state", nil, "only in this state")
	fl.StringSliceVar(&f.outcomes, "outcome", nil, "only with this outcome: ok, failed, timed-out, cancelled")
	fl.StringVar(&f.group, "group", "", "only of this group (collection, course, service)")
	fl.StringVar(&f.owner, "owner", "", "only of this owner")
	fl.StringVar(&f.parent, "parent", "", "only the jobs of this batch")
	fl.StringVar(&f.tag, "tag", "", "only with this tag, such as queue=ingest or place=main")
	fl.StringSliceVar(&f.causes, "cause", nil, "only with this cause, such as network or disk-full")
}

func (f *Filter) Bind(cmd *cobra.Command) {
	f.BindWhich(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.key, "key", "", "only with this idempotency key")
	fl.BoolVar(&f.open, "open", false, "only jobs that have not ended")
	fl.BoolVar(&f.ended, "ended", false, "only jobs that have ended")
	fl.BoolVar(&f.oldest, "oldest", false, "oldest first")
	fl.IntVar(&f.Limit, "limit", 50, "at most so many, up to 1000; without it a pipe and -o json get all")
	fl.BoolVar(&f.All, "all", false, "all of them, page by page")
}

func (f *Filter) Query() (job.Query, error) {
	q := job.Query{Group: f.group, Owner: f.owner, Parent: job.ID(f.parent), Key: f.key, Tag: f.tag, Causes: f.causes, Oldest: f.oldest, Limit: f.Limit}
	if f.Limit < 1 || f.Limit > 1000 {
		return q, cli.Usagef("--limit must be 1 to 1000; --all gives everything")
	}
	if f.open && f.ended {
		return q, cli.Usagef("either --open or --ended")
	}
	if f.All {
		q.Limit = 1000
	}
	for _, k := range f.Kinds {
		q.Kinds = append(q.Kinds, job.Kind(k))
	}
	for _, s := range f.states {
		q.States = append(q.States, lifecycle.State(s))
	}
	for _, o := range f.outcomes {
		q.Outcomes = append(q.Outcomes, lifecycle.Outcome(o))
	}
	if f.open || f.ended {
		q.Ended = &f.ended
	}
	return q, nil
}

// printJobs prints a list of jobs. Columns: id, kind, state, outcome, priority, group, owner, created, changed, message.
func (c *Commands) printJobs(jobs []job.Job, more bool) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(jobs)
	}
	rows := make([][]string, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		rows[i] = []string{string(j.ID), string(j.Kind), string(j.State), string(j.Outcome), strconv.Itoa(j.Priority), j.Group, j.Owner,
			c.Out.When(j.Created), c.Out.When(j.Changed), c.short(j)}
	}
	if len(rows) == 0 {
		return c.Out.None("no job matches")
	}
	err := c.Out.Table([]string{"ID", "KIND", "STATE", "OUTCOME", "PRIO", "GROUP", "OWNER", "AGE", "CHANGED", "MESSAGE"}, rows)
	if more && c.Out.Mode == cli.ModeTable {
		c.Out.Line("%s", cli.ShownOf(len(rows)))
	}
	return err
}

// short gives what fits a list: the counts of a batch, and the message.
func (c *Commands) short(j *job.Job) string {
	text := j.Message
	if j.Children.Expected > 0 {
		text = strings.TrimSpace(counts(j.Children) + " " + text)
	}
	if runes := []rune(text); c.Out.Mode == cli.ModeTable && len(runes) > 60 {
		text = string(runes[:57]) + "..."
	}
	return text
}

// counts writes how the jobs of a batch stand: "3/10 done, 1 failed".
func counts(n job.Children) string {
	text := strconv.Itoa(n.Created()-n.Open) + "/" + strconv.Itoa(n.Expected) + " done"
	for _, part := range []struct {
		n    int
		word string
	}{{n.Failed, "failed"}, {n.TimedOut, "timed out"}, {n.Cancelled, "cancelled"}, {n.Deleted, "deleted"}} {
		if part.n > 0 {
			text += ", " + strconv.Itoa(part.n) + " " + part.word
		}
	}
	return text
}

package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// filter are the flags that select jobs.
type filter struct {
	kinds, states, outcomes  []string
	group, owner, parent     string
	key, tag                 string
	causes                   []string
	open, ended, oldest, all bool
	limit                    int
}

func (c *cli) list() *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long:  "Lists jobs, newest first: all that match every filter given. A filter may be repeated, or take a list with commas.",
		Example: "  stagepost list --kind ingest.job --state Failed\n  stagepost list --parent bat_01J9... --open\n" +
			"  stagepost list --outcome failed --all | cut -f1 | xargs stagepost retry --note 'disk replaced'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := c.patient(cmd)
			defer cancel()
			f.all = f.all || c.wantsAll(cmd)
			q, err := f.query()
			if err != nil {
				return err
			}
			api, err := c.api()
			if err != nil {
				return err
			}
			return c.listAll(ctx, api, q, f.all)
		},
	}
	f.bind(cmd)
	c.completeNames(cmd)
	return cmd
}

// listAll prints one page of jobs, or all pages.
func (c *cli) listAll(ctx context.Context, api *client.Client, q job.Query, all bool) error {
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

// bindWhich adds the filters that list and bulk share.
func (f *filter) bindWhich(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.kinds, "kind", nil, "only this kind, such as ingest.job")
	fl.StringSliceVar(&f.states, "state", nil, "only in this state")
	fl.StringSliceVar(&f.outcomes, "outcome", nil, "only with this outcome: ok, failed, timed-out, cancelled")
	fl.StringVar(&f.group, "group", "", "only of this group (collection, course, service)")
	fl.StringVar(&f.owner, "owner", "", "only of this owner")
	fl.StringVar(&f.parent, "parent", "", "only the jobs of this batch")
	fl.StringVar(&f.tag, "tag", "", "only with this tag, such as queue=ingest or place=main")
	fl.StringSliceVar(&f.causes, "cause", nil, "only with this cause, such as network or disk-full")
}

func (f *filter) bind(cmd *cobra.Command) {
	f.bindWhich(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.key, "key", "", "only with this idempotency key")
	fl.BoolVar(&f.open, "open", false, "only jobs that have not ended")
	fl.BoolVar(&f.ended, "ended", false, "only jobs that have ended")
	fl.BoolVar(&f.oldest, "oldest", false, "oldest first")
	fl.IntVar(&f.limit, "limit", 50, "at most so many, up to 1000; without it a pipe and -o json get all")
	fl.BoolVar(&f.all, "all", false, "all of them, page by page")
}

func (f *filter) query() (job.Query, error) {
	q := job.Query{Group: f.group, Owner: f.owner, Parent: job.ID(f.parent), Key: f.key, Tag: f.tag, Causes: f.causes, Oldest: f.oldest, Limit: f.limit}
	if f.limit < 1 || f.limit > 1000 {
		return q, usagef("--limit must be 1 to 1000; --all gives everything")
	}
	if f.open && f.ended {
		return q, usagef("either --open or --ended")
	}
	if f.all {
		q.Limit = 1000
	}
	for _, k := range f.kinds {
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
func (c *cli) printJobs(jobs []job.Job, more bool) error {
	if c.out.mode == modeJSON {
		return c.out.json(jobs)
	}
	rows := make([][]string, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		rows[i] = []string{string(j.ID), string(j.Kind), string(j.State), string(j.Outcome), strconv.Itoa(j.Priority), j.Group, j.Owner,
			c.out.when(j.Created), c.out.when(j.Changed), c.short(j)}
	}
	if len(rows) == 0 {
		return c.out.none("no job matches")
	}
	err := c.out.table([]string{"ID", "KIND", "STATE", "OUTCOME", "PRIO", "GROUP", "OWNER", "AGE", "CHANGED", "MESSAGE"}, rows)
	if more && c.out.mode == modeTable {
		c.out.line("%s", shownOf(len(rows)))
	}
	return err
}

// short gives what fits a list: the counts of a batch, and the message.
func (c *cli) short(j *job.Job) string {
	text := j.Message
	if j.Children.Expected > 0 {
		text = strings.TrimSpace(counts(j.Children) + " " + text)
	}
	if runes := []rune(text); c.out.mode == modeTable && len(runes) > 60 {
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

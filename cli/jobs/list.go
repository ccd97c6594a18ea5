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
	Kinds, states, outcomes []string
	group, owner, parent    string
	key, tag, words, worker string
	causes                  []string
	open, ended, oldest     bool
	Pages                   cli.Pages
}

func (c *Commands) list() *cobra.Command {
	var f Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long: "Lists jobs, newest first: all that match every filter given. A filter may be repeated, or take a " +
			"list with commas.",
		Example: "  stagepost list --kind ingest.job --state Failed\n  stagepost list --parent bat_01J9... --open\n" +
			"  stagepost list --outcome failed --all | cut -f1 | xargs stagepost retry --note 'disk replaced'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.ListMatching(cmd, &f) },
	}
	f.Bind(cmd)
	c.CompleteNames(cmd)
	return cmd
}

// ListMatching prints the jobs that match the flags of a command.
func (c *Commands) ListMatching(cmd *cobra.Command, f *Filter) error {
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	if err := c.CheckPages(cmd, &f.Pages); err != nil {
		return err
	}
	q, err := f.Query()
	if err != nil {
		return err
	}
	api, err := c.API()
	if err != nil {
		return err
	}
	return c.List(ctx, api, q, f.Pages)
}

// List prints the jobs of a query, as many as pages select. q.After and q.Limit are ignored.
func (c *Commands) List(ctx context.Context, api *client.Client, q job.Query, pages cli.Pages) error {
	if err := c.Resolve(ctx, api, &q.Parent); err != nil {
		return err
	}
	fetch := func(after string, limit int) ([]job.Job, string, error) {
		q.After, q.Limit = after, limit
		page, err := api.Jobs(ctx, q)
		return page.Jobs, page.Next, err
	}
	return cli.ListPages(ctx, pages, fetch, c.printJobs)
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
	fl.StringVar(&f.worker, "worker", "", "only jobs that a worker whose name begins so has claimed")
	fl.StringVar(&f.words, "words", "", "only with these words in the title, the creator, a local id or the name of a "+
		"file; the last may be a beginning")
	fl.BoolVar(&f.open, "open", false, "only jobs that have not ended")
	fl.BoolVar(&f.ended, "ended", false, "only jobs that have ended")
}

func (f *Filter) Bind(cmd *cobra.Command) {
	f.BindWhich(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.key, "key", "", "only with this idempotency key")
	fl.BoolVar(&f.oldest, "oldest", false, "oldest first")
	f.Pages.Bind(cmd, 50)
}

// Query gives the query of the filters; the flags of pages are no part of it.
func (f *Filter) Query() (job.Query, error) {
	q := job.Query{Group: f.group, Owner: f.owner, Parent: job.ID(f.parent), Key: f.key, Tag: f.tag, Causes: f.causes,
		Worker: f.worker, Oldest: f.oldest, Words: strings.Fields(f.words)}
	if f.open && f.ended {
		return q, cli.Usagef("either --open or --ended")
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

// printJobs prints a list of jobs. Columns in a pipe: id, kind, state, outcome, priority, group, owner, created,
// changed, message, title, object, cause.
func (c *Commands) printJobs(jobs []job.Job, more bool) error {
	switch {
	case c.Out.Mode == cli.ModeJSON:
		return c.Out.JSON(jobs)
	case len(jobs) == 0:
		return c.Out.None("no job matches")
	case c.Out.Mode == cli.ModePlain:
		rows := make([][]string, len(jobs))
		for i := range jobs {
			j := &jobs[i]
			rows[i] = []string{string(j.ID), string(j.Kind), string(j.State), string(j.Outcome),
				strconv.Itoa(j.Priority),
				j.Group, j.Owner, c.Out.When(j.Created), c.Out.When(j.Changed), withCounts(j), j.Title, j.Object,
				j.Cause}
		}
		return c.Out.Table(nil, rows)
	}
	rows, kinds, applications := make([][]string, len(jobs)), map[job.Kind]bool{}, map[string]bool{}
	for i := range jobs {
		j := &jobs[i]
		kinds[j.Kind] = true
		application, _, _ := strings.Cut(string(j.Kind), ".")
		applications[application] = true
		rows[i] = []string{c.Out.ID(j.ID), string(j.Kind), string(j.State), c.Out.When(j.Created), j.Object, j.Title,
			reasonOf(j)}
	}
	for i := range rows {
		switch { // what each line would have is left out
		case len(kinds) == 1:
			rows[i][1] = ""
		case len(applications) == 1 && c.Out.Terminal:
			rows[i][1] = rows[i][1][strings.IndexByte(rows[i][1], '.')+1:]
		}
	}
	err := c.Out.Rows([]string{"ID", "KIND", "STATE", "AGE", "OBJECT", "TITLE", "REASON"}, rows, 2,
		func(row, column int) string {
			if column != 2 {
				return ""
			}
			return stateColor(&jobs[row])
		})
	c.Out.More(len(rows), more)
	return err
}

// stateColor gives the color of a job's state on a terminal.
func stateColor(j *job.Job) string {
	switch {
	case j.Outcome == lifecycle.OK:
		return cli.Green
	case j.Outcome == lifecycle.Failed || j.Outcome == lifecycle.TimedOut:
		return cli.Red
	case j.Ended:
		return cli.Faint
	case j.Cause != "":
		return cli.Yellow
	}
	return ""
}

// reasonOf returns the last column of a list on a terminal: the counts of a batch, the message, and the cause.
func reasonOf(j *job.Job) string {
	text := withCounts(j)
	if text == "" {
		return j.Cause
	}
	return text
}

// withCounts gives the counts of a batch and the message.
func withCounts(j *job.Job) string {
	if j.Children.Expected > 0 {
		return strings.TrimSuffix(counts(j.Children)+": "+j.Message, ": ")
	}
	return j.Message
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

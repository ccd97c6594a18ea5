package jobs

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// scope are the flags that name what a hold concerns.
type scope struct {
	kind, state, group, owner, job string
	queue, place, tag              string
	submissions, all               bool
}

func (s *scope) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.kind, "kind", "", "all jobs of this kind")
	f.StringVar(&s.state, "state", "", "all jobs in this state")
	f.StringVar(&s.group, "group", "", "all jobs of this group (collection, course, service)")
	f.StringVar(&s.owner, "owner", "", "all jobs of this owner")
	f.StringVar(&s.job, "job", "", "this job, or the jobs of this batch, whatever their state")
	f.StringVar(&s.queue, "queue", "", "a whole queue: ingest, access-small or access-large")
	f.StringVar(&s.place, "place", "", "jobs that are to write to this storage location, as their profile calls it")
	f.StringVar(&s.tag, "tag", "", "all jobs with this tag, such as queue=ingest")
	f.BoolVar(&s.submissions, "submissions", false, "all new submissions: batches wait, the jobs of earlier ones go on")
	f.BoolVar(&s.all, "all", false, "everything")
}

// scope gives what the flags name; given is false if they name nothing.
func (s *scope) scope() (of job.Scope, given bool, err error) {
	of = job.Scope{Kind: job.Kind(s.kind), State: lifecycle.State(s.state), Group: s.group, Owner: s.owner, Job: job.ID(s.job), Tag: s.tag}
	switch {
	case s.queue != "" && s.place != "", s.tag != "" && s.queue+s.place != "":
		return of, true, cli.Usagef("one of --queue, --place and --tag")
	case s.submissions && of.Kind != "":
		return of, true, cli.Usagef("either --submissions or --kind")
	case s.submissions:
		of.Kind = "ingest.batch"
	}
	if s.queue != "" {
		of.Tag = "queue=" + s.queue
	}
	if s.place != "" {
		of.Tag = "place=" + s.place
		if of.Kind == "" && of.State == "" { // only what writes: earlier stages go on
			of.Kind, of.State = "ingest.job", "Storing"
		}
	}
	if s.all && of != (job.Scope{}) {
		return of, true, cli.Usagef("either --all or a narrower scope")
	}
	return of, s.all || of != job.Scope{}, nil
}

func (c *Commands) hold() *cobra.Command {
	var a Act
	var s scope
	var until string
	cmd := &cobra.Command{
		Use:   "hold [ID...]",
		Short: "Keep jobs from being worked on: single ones, or all of a scope",
		Long: `Without ids and scope it lists all holds.

With ids it causes the event hold on these jobs, if their lifecycle has it in the state they are in.
With a scope (--group, --queue, --place, --tag, --submissions, --kind, --state, --owner, --job, --all) it puts a hold on that: nothing of it is begun until
it is released, jobs that come later included, and what is at work stops at the end of its stage. Flags together mean jobs that match all of them. A
hold needs a reason (--note): those who wait will read it.

A hold on a collection (--group) or on one batch or job (--job) also takes the Pending ones out of the queue: they are Held, and after the hold
was released somebody has to release them too. A hold that ends by itself (--until) leaves them where they are, and so do the others.`,
		Example: "  stagepost hold --group maps --note 'storage moves'\n  stagepost hold --all --until 2h --note 'maintenance'\n" +
			"  stagepost hold bat_01J9... --note 'wrong collection'\n  stagepost hold",
		ValidArgsFunction: c.CompleteIDs,
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, given, err := s.scope()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if given || until != "" {
					return cli.Usagef("either ids or a scope")
				}
				return c.causeAll(cmd, "hold", args, a.Body())
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			if err := c.Resolve(ctx, api, &of.Job); err != nil {
				return err
			}
			if !given {
				holds, err := api.Holds(ctx)
				return c.printHolds(holds, err)
			}
			if queues := c.Words("queue"); s.queue != "" && !slices.Contains(queues, s.queue) {
				return cli.Usagef("there is no queue %q (known: %s)", s.queue, strings.Join(queues, ", "))
			}
			h := client.Hold{Scope: of, Everything: s.all, Who: cli.Whoami(a.Actor), Why: a.Note}
			if until != "" {
				if h.Until, err = cli.Future(until); err != nil {
					return cli.Usagef("--until: %w", err)
				}
			}
			holds, err := api.Hold(ctx, h)
			if err := c.printHolds(holds, err); err != nil {
				return err
			}
			return c.tellConcerned(ctx, api, of)
		},
	}
	a.Bind(cmd)
	s.bind(cmd)
	cmd.Flags().StringVar(&until, "until", "", "the hold ends by itself at this time: 2h, or 2026-11-22 11:16")
	c.CompleteNames(cmd)
	return cmd
}

// tellConcerned says on a terminal how many jobs a new hold keeps, so that one which keeps none is noticed.
func (c *Commands) tellConcerned(ctx context.Context, api *client.Client, of job.Scope) error {
	if c.Out.Mode != cli.ModeTable {
		return nil
	}
	q, err := api.QueueHolds(ctx)
	if err != nil {
		return err
	}
	for _, h := range q.Holds {
		if h.Scope != of {
			continue
		}
		more := map[bool]string{true: "more than "}[h.More]
		c.Out.Line("%s is on hold: %s%d open %s so far", of, more, h.Jobs, cli.Plural(h.Jobs, "job", "jobs"))
	}
	return nil
}

// printHolds prints holds. Columns: scope, who, since, until, why.
func (c *Commands) printHolds(holds []job.Hold, err error) error {
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(holds)
	}
	if len(holds) == 0 {
		return c.Out.None("nothing is held")
	}
	rows := make([][]string, len(holds))
	for i, h := range holds {
		rows[i] = []string{h.Scope.String(), h.Who, c.Out.When(h.Since), c.Out.When(h.Until), h.Why}
	}
	return c.Out.Table([]string{"SCOPE", "WHO", "SINCE", "UNTIL", "WHY"}, rows)
}

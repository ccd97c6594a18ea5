package jobs

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// scope are the flags that name what a hold concerns.
type scope struct {
	job.Scope
	all  bool
	more map[string]*string // values of the flags of applications, by name
}

func (s *scope) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar((*string)(&s.Kind), "kind", "", "all jobs of this kind")
	f.StringVar((*string)(&s.State), "state", "", "all jobs in this state")
	f.StringVar(&s.Group, "group", "", "all jobs of this group (collection, course, service)")
	f.StringVar(&s.Owner, "owner", "", "all jobs of this owner")
	f.StringVar((*string)(&s.Job), "job", "", "this job, or the jobs of this batch, whatever their state")
	f.StringVar(&s.Tag, "tag", "", "all jobs with this tag, such as queue=ingest")
	f.BoolVar(&s.all, "all", false, "everything")
}

// bindMore adds the flags of applications, when all parts are there.
func (s *scope) bindMore(c *Commands, cmd *cobra.Command) {
	s.more = map[string]*string{}
	for _, p := range c.Parts {
		for _, one := range p.Scopes {
			if one.Tag != "" {
				s.more[one.Flag] = cmd.Flags().String(one.Flag, "", one.Doc)
			} else {
				cmd.Flags().Bool(one.Flag, false, one.Doc)
			}
		}
	}
}

// read returns the scope of the flags; given is false if they name nothing.
func (s *scope) read(c *Commands, cmd *cobra.Command) (of job.Scope, given bool, err error) {
	of = s.Scope
	for _, p := range c.Parts {
		for _, one := range p.Scopes {
			if cmd.Flags().Changed(one.Flag) {
				if err := s.narrow(c, &of, &one); err != nil {
					return of, true, err
				}
			}
		}
	}
	if s.all && of != (job.Scope{}) {
		return of, true, cli.Usagef("either --all or a narrower scope")
	}
	return of, s.all || of != job.Scope{}, nil
}

// narrow restricts a scope to what the flag of an application names.
func (s *scope) narrow(c *Commands, of *job.Scope, one *cli.Scope) error {
	switch {
	case one.Tag == "" && of.Kind != "":
		return cli.Usagef("either --%s or --kind", one.Flag)
	case one.Tag == "":
		of.Kind, of.State = one.Kind, one.State
		return nil
	case of.Tag != "":
		return cli.Usagef("--%s adds a tag, and a scope has one: %s", one.Flag, of.Tag)
	}
	value := *s.more[one.Flag]
	if values := c.Words(one.Flag); len(values) > 0 && !slices.Contains(values, value) {
		return cli.Usagef("there is no %s %q (known: %s)", one.Flag, value, strings.Join(values, ", "))
	}
	of.Tag = one.Tag + "=" + value
	if of.Kind == "" && of.State == "" {
		of.Kind, of.State = one.Kind, one.State
	}
	return nil
}

func (c *Commands) hold() (cmd *cobra.Command, ready func()) {
	var a Act
	var s scope
	var until string
	cmd = &cobra.Command{
		Use:   "hold [ID...]",
		Short: "Hold jobs: single ones, or all of a scope",
		Long: `Without ids and scope it lists all holds.

With ids it causes the event hold on these jobs, if their lifecycle has it in the state they are in.
With flags that name a scope, such as --group, --kind or --all, it puts a hold on the scope: no job of it begins its next
stage until the hold is released, later jobs included. Jobs must match all the flags. A hold needs a reason (--note), which
why shows for each job that waits.

A hold on a group (--group) or on one batch or job (--job) also moves Pending jobs to the state Held. After the release of
the hold they need a release of their own. A hold with an end (--until) and other scopes do not move jobs.`,
		Example: "  stagepost hold --group maps --note 'storage moves'\n" +
			"  stagepost hold --all --until 2h --note 'maintenance'\n" +
			"  stagepost hold bat_01J9... --note 'wrong collection'\n  stagepost hold",
		ValidArgsFunction: c.CompleteIDs,
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, given, err := s.read(c, cmd)
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
			return c.printConcerned(ctx, api, of)
		},
	}
	a.Bind(cmd)
	s.bind(cmd)
	cmd.Flags().StringVar(&until, "until", "", "the hold ends by itself at this time: 2h, or 2026-11-22 11:16")
	c.CompleteNames(cmd)
	return cmd, func() { s.bindMore(c, cmd) }
}

// printConcerned prints on a terminal how many jobs a new hold keeps, so that a hold without jobs is noticed.
func (c *Commands) printConcerned(ctx context.Context, api *client.Client, of job.Scope) error {
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

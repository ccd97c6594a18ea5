package bulkcli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
)

// bulkFlags are the flags of bulk beside its filters.
type bulkFlags struct {
	jobs.Filter
	before, note, actor      string
	expect, priority         int
	confirm, yes, later, dry bool
}

func (c *commands) bulk() *cobra.Command {
	var b bulkFlags
	cmd := &cobra.Command{
		Use:   "bulk EVENT",
		Short: "Cause an event on all jobs that match, such as retry, release or delete",
		Long: `Causes an event on every job that matches all filters, the oldest first, as a command for each
job would: the lifecycle and the rules of its application apply, and each history has the actor, the
reason and the id of the bulk.

The number of matching jobs is required, so that a wrong filter does no harm. On a terminal the
command shows the jobs and asks for the number. A pipe needs --expect: without it the command shows
the jobs and ends with exit code 4. If another number of jobs matches when the bulk begins, nothing
is done.

A bulk is a job of the kind bulk, for watch, show, why and cancel. It continues after a restart of
the server, and acts on no job twice. A job that changes meanwhile and no longer matches is left as
it is. The exit code is 5 if no job was changed.`,
		Example: "  stagepost bulk retry --state Failed --cause disk-full --note 'disk replaced'\n" +
			"  stagepost bulk release --state Held --group maps --note 'storage is back' --expect 40\n" +
			"  stagepost bulk priority --priority 10 --parent bat_01J9... --note 'exhibition' --expect 200",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(c.HumanEvents(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			r, err := b.request(cmd, lifecycle.Event(args[0]))
			if err != nil {
				return err
			}
			return c.runBulk(ctx, &b, r)
		},
	}
	b.BindWhich(cmd)
	f := cmd.Flags()
	f.StringVar(&b.before, "before", "", "only jobs that did not change since this time")
	f.StringVarP(&b.note, "note", "m", "", "why; stands in the history of every job")
	f.StringVar(&b.actor, "actor", "", "your name in the histories; defaults to the login name")
	f.IntVar(&b.expect, "expect", 0, "how many jobs match; with another number nothing is done")
	f.IntVar(&b.priority, "priority", job.DefaultPriority, "for the event priority: 0 goes first, 99 last")
	f.BoolVar(&b.confirm, "confirm", false, "yes to what the event loses")
	f.BoolVar(&b.yes, "yes", false, "on a terminal: do not ask, take the number that matches now")
	f.BoolVar(&b.later, "no-wait", false, "print the bulk and do not wait for its end")
	f.BoolVar(&b.dry, "dry-run", false, "only show what it would meet")
	c.CompleteNames(cmd)
	return cmd
}

// request makes the request of the flags.
func (b *bulkFlags) request(cmd *cobra.Command, e lifecycle.Event) (client.Bulk, error) {
	alone := []string{"before"} // open and ended are no filter on their own
	for _, name := range api.BulkFilters() {
		if name != "ended" {
			alone = append(alone, name)
		}
	}
	if !slices.ContainsFunc(alone, cmd.Flags().Changed) {
		return client.Bulk{}, cli.Usagef("it needs a filter: --%s or --%s", strings.Join(alone[1:], ", --"), alone[0])
	}
	q, err := b.Query()
	if err != nil {
		return client.Bulk{}, err
	}
	r := client.Bulk{
		Kinds: q.Kinds, States: q.States, Outcomes: q.Outcomes, Group: q.Group, Owner: q.Owner, Parent: q.Parent,
		Tag: q.Tag, Causes: q.Causes, Worker: q.Worker, Words: strings.Join(q.Words, " "), Ended: q.Ended,
		Event: e, Note: b.note, Actor: cli.Whoami(b.actor), Confirm: b.confirm,
	}
	if b.before != "" {
		if r.Before, err = cli.Past(b.before); err != nil {
			return r, cli.Usagef("--before: %w", err)
		}
	}
	if cmd.Flags().Changed("priority") {
		r.Priority = &b.priority
	}
	if cmd.Flags().Changed("expect") {
		if b.expect < 1 {
			return r, cli.Usagef("--expect must be at least 1")
		}
		r.Expect = &b.expect
	}
	if b.note == "" && !b.dry {
		return r, cli.Usagef("it needs --note: the history of every job has the reason")
	}
	return r, nil
}

// runBulk shows, asks, starts and waits.
func (c *commands) runBulk(ctx context.Context, b *bulkFlags, r client.Bulk) error {
	api, err := c.API()
	if err != nil {
		return err
	}
	if err := c.Resolve(ctx, api, &r.Parent); err != nil {
		return err
	}
	if r.Expect == nil || b.dry {
		p, err := api.BulkPreview(ctx, r)
		if err != nil {
			return err
		}
		if err := c.printPreview(&p); err != nil || b.dry {
			return err
		}
		if err := c.agree(&p, b.yes); err != nil {
			return err
		}
		r.Expect = &p.Count
	}
	j, err := api.StartBulk(ctx, r)
	if err != nil {
		return err
	}
	if b.later {
		return c.PrintOutcome(&j)
	}
	return c.awaitBulk(ctx, api, &j, r.Event)
}

// agree confirms the number of jobs. In a pipe it cannot ask.
func (c *commands) agree(p *client.BulkPreview, yes bool) error {
	if p.Count == 0 {
		return job.Errorf(job.Refused, "bulk", "", "no job matches: there is nothing to do")
	}
	in, ok := c.In.(*os.File)
	if !c.Out.Terminal || !ok || !term.IsTerminal(int(in.Fd())) {
		return job.Errorf(job.Refused, "bulk", "", "nothing was done: add --expect %d if it is to be done to these",
			p.Count)
	}
	if yes {
		return nil
	}
	return c.askNumber(p)
}

// askNumber has the operator type the number.
func (c *commands) askNumber(p *client.BulkPreview) error {
	fmt.Fprintf(c.Out, "To %s these, type their number: ", cli.Clean(string(p.Event)))
	text, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil && text == "" {
		fmt.Fprintln(c.Out)
		return job.Errorf(job.Refused, "bulk", "", "nothing was done")
	}
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || n != p.Count {
		return job.Errorf(job.Refused, "bulk", "", "nothing was done: %q is not %d", strings.TrimSpace(text), p.Count)
	}
	return nil
}

// awaitBulk shows how far a bulk is until it has ended, then what it did.
func (c *commands) awaitBulk(ctx context.Context, api *client.Client, j *client.Job, e lifecycle.Event) error {
	if c.Out.Mode != cli.ModeJSON {
		if err := c.PrintOutcome(j); err != nil {
			return err
		}
	}
	bar, last := &cli.Bar{Out: c.Out}, *j
	err := api.Watch(ctx, j.ID, 0, func(u client.Update) error {
		if u.Job == nil {
			return nil
		}
		last = *u.Job
		if c.Out.Mode == cli.ModeJSON || last.Progress == nil {
			return nil
		}
		done, total, text := jobs.Standing(&last)
		return bar.Show(done, total, text)
	})
	bar.End()
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	result, err := api.BulkResult(ctx, last.ID)
	if err != nil {
		return err
	}
	err = c.printResult(&last, &result, e)
	if last.Outcome != lifecycle.OK {
		err = errors.Join(err, cli.FailedJob{Job: last})
	}
	return err
}

// printPreview prints what a bulk would meet. In a pipe each line begins with what it is: count, state, group, cause,
// sample.
func (c *commands) printPreview(p *client.BulkPreview) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(p)
	}
	if c.Out.Mode == cli.ModeTable {
		refused := ""
		if p.Refused > 0 {
			refused = fmt.Sprintf("; of the %d oldest a rule would refuse %d", len(p.Sample), p.Refused)
		}
		c.Out.Line("%d %s, %s; %s is legal for %d of them%s.", p.Count,
			cli.Plural(int64(p.Count), "job matches", "jobs match"), quantity.Size(p.Bytes), p.Event, p.Legal, refused)
	}
	rows := [][]string{{"count", strconv.Itoa(p.Count), strconv.FormatInt(p.Bytes, 10), strconv.Itoa(p.Legal)}}
	states := make([][]string, len(p.States))
	for i, s := range p.States {
		can := make([]string, len(s.Can))
		for k, e := range s.Can {
			can[k] = string(e)
		}
		states[i] = []string{"state", string(s.Kind), string(s.State), strconv.Itoa(s.Jobs), c.Bytes(s.Bytes),
			strconv.Itoa(s.Legal), strings.Join(can, ",")}
	}
	sample := make([][]string, len(p.Sample))
	for i, j := range p.Sample {
		sample[i] = []string{"sample", c.Out.ID(j.ID), string(j.State), j.Group, j.Owner, j.Cause,
			cmp.Or(j.Refused, j.Message)}
	}
	groups, causes := c.named("group", p.Groups), c.named("cause", p.Causes)
	if c.Out.Mode == cli.ModePlain {
		return c.Out.Table(nil, slices.Concat(rows, states, groups, causes, sample))
	}
	for _, part := range []struct {
		heading []string
		rows    [][]string
	}{
		{[]string{"", "KIND", "STATE", "JOBS", "BYTES", "LEGAL", "AN OPERATOR CAN"}, states},
		{[]string{"", "GROUP", "JOBS", "BYTES"}, groups},
		{[]string{"", "CAUSE", "JOBS", "BYTES"}, causes},
		{[]string{"", "ID", "STATE", "GROUP", "OWNER", "CAUSE", "REFUSED BECAUSE, OR MESSAGE"}, sample},
	} {
		if len(part.rows) == 0 {
			continue
		}
		for i := range part.rows {
			part.rows[i] = part.rows[i][1:]
		}
		if err := c.Out.Rows(part.heading[1:], part.rows, 1, nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *commands) named(what string, counts []client.BulkCount) [][]string {
	rows := make([][]string, len(counts))
	for i, n := range counts {
		rows[i] = []string{what, cmp.Or(n.Name, "-"), strconv.Itoa(n.Jobs), c.Bytes(n.Bytes)}
	}
	return rows
}

// printResult prints what a bulk did. In a pipe each line begins with what it is: done, changed, gone, refused.
func (c *commands) printResult(j *client.Job, r *client.BulkResult, e lifecycle.Event) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(struct {
			Job    *client.Job        `json:"job"`
			Result *client.BulkResult `json:"result"`
		}{j, r})
	}
	if c.Out.Mode == cli.ModeTable {
		c.summary(r, e)
		return nil
	}
	rows := [][]string{
		{"matches", strconv.Itoa(r.Matches), ""}, {"done", strconv.Itoa(r.Done), ""},
		{"changed", strconv.Itoa(r.Changed), ""},
		{"gone", strconv.Itoa(r.Skipped), ""}, {"refused", strconv.Itoa(r.Refused), ""},
	}
	for _, one := range r.Refusals {
		ids := make([]string, min(3, len(one.Sample)))
		for i := range ids {
			ids[i] = string(one.Sample[i])
		}
		rows = append(rows, []string{"refused because", strconv.Itoa(one.Jobs), one.Reason + " (such as " +
			strings.Join(ids, ", ") + ")"})
	}
	return c.Out.Table(nil, rows)
}

// summary prints on a terminal what a bulk did, and why jobs refused.
func (c *commands) summary(r *client.BulkResult, e lifecycle.Event) {
	if r.Matches == 0 {
		return // it did not begin: its message has the reason
	}
	texts := []string{fmt.Sprintf("%s: %d", c.Done(e)(&client.Job{}), r.Done)}
	for _, part := range []struct {
		n    int
		text string
	}{{r.Changed, "changed meanwhile"}, {r.Skipped, "gone meanwhile"}, {r.Refused, "refused"}} {
		if part.n > 0 {
			texts = append(texts, fmt.Sprintf("%s: %d", part.text, part.n))
		}
	}
	c.Out.Line("%s", strings.Join(texts, "; "))
	for _, one := range r.Refusals {
		ids := make([]string, min(3, len(one.Sample)))
		for i := range ids {
			ids[i] = c.Out.ID(one.Sample[i])
		}
		c.Out.Line("  %d refused: %s (such as %s)", one.Jobs, one.Reason, strings.Join(ids, ", "))
	}
}

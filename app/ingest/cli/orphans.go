package ingestcli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stagepost/stagepost/app/ingest/orphans"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) orphans() *cobra.Command {
	var fix, rules bool
	var note, actor string
	var expect int
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List orphaned files, locks and messages; --fix removes them",
		Long: `Lists orphans: work directories, staged payloads and reports without a batch, locks of jobs that have ended, logs without a job, batches
whose jobs never came, versions that a storage location lacks or the inventory does not know, unfinished files. A finding older than an hour is a FAIL,
a younger one a WARN: it may belong to work that is under way.

--fix removes exactly the deletable ones that are a FAIL, after confirmation of their number: on a terminal it asks, else --expect must give the number.
Each is entered in the audit log. Files and directories go to the trash of the data directory. A person has to examine what is not deletable.`,
		Example: "  stagepost ingest orphans\n  stagepost ingest orphans --rules\n  stagepost ingest orphans --fix " +
			"--expect 3 --note 'after the power cut'",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, _ []string) error {
			if rules {
				return c.printOrphanRules()
			}
			if fix && note == "" {
				return cli.Usagef("--fix needs a reason: --note WHY")
			}
			if !fix && cmd.Flags().Lookup("expect").Changed {
				return cli.Usagef("--expect is for --fix")
			}
			if !fix {
				o, err := api.Orphans(ctx)
				return c.printOrphans(&o, err)
			}
			if !cmd.Flags().Lookup("expect").Changed {
				o, err := api.Orphans(ctx)
				if err := c.printOrphans(&o, err); err != nil || o.Deletable == 0 {
					return err
				}
				if err := c.confirm(o.Deletable); err != nil {
					return err
				}
				expect = o.Deletable
			}
			done, err := api.FixOrphans(ctx, client.FixOrphans{Expect: &expect, Actor: cli.Whoami(actor), Note: note})
			return c.printFixed(&done, err)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&fix, "fix", false, "remove the deletable ones that are a FAIL")
	f.BoolVar(&rules, "rules", false, "show the rules instead, and why some orphans cannot exist here")
	f.IntVar(&expect, "expect", 0, "with --fix: how many there are to remove; another number changes nothing")
	f.StringVarP(&note, "note", "m", "", "with --fix: why; is entered in the audit log")
	f.StringVar(&actor, "actor", "", "your name in the audit log; defaults to the login name")
	return cmd
}

// confirm asks on a terminal whether n orphans are to go; elsewhere the number must have been given.
func (c *commands) confirm(n int) error {
	in, ok := c.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || c.Out.Mode == cli.ModeJSON {
		return job.Errorf(job.Refused, "orphans", "", "there is no terminal for the question: --expect %d removes them",
			n)
	}
	fmt.Fprintf(c.Err, "Remove %d of these? [y/N] ", n)
	answer, _ := bufio.NewReader(in).ReadString('\n') // no answer is no
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return job.Errorf(job.Refused, "orphans", "", "nothing was removed")
	}
	return nil
}

// printOrphans prints findings. Columns in a pipe: level, rule, name, age, what, whether --fix removes it.
func (c *commands) printOrphans(o *client.Orphans, err error) error {
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(o)
	}
	if len(o.Orphans) == 0 && c.Out.Mode == cli.ModeTable {
		c.Out.Line("there are no orphans")
	} else if err := c.Out.Rows(orphanColumns, c.orphanRows(o.Orphans), 2, nil); err != nil {
		return err
	}
	for _, cut := range o.Cut {
		c.Note("%s", cli.Clean(cut))
	}
	if o.Deletable > 0 {
		c.Note("%d can be removed: stagepost ingest orphans --fix --expect %d --note WHY", o.Deletable, o.Deletable)
	}
	return nil
}

var orphanColumns = []string{"LEVEL", "RULE", "AGE", "DELETABLE", "NAME", "WHAT"}

func (c *commands) orphanRows(all []client.Orphan) [][]string {
	rows := make([][]string, len(all))
	for i, o := range all {
		age, deletable := c.Span(o.Seconds), strconv.FormatBool(o.Deletable)
		if rows[i] = []string{o.Level, o.Rule, age, deletable, o.Name, o.What}; c.Out.Mode == cli.ModePlain {
			rows[i] = []string{o.Level, o.Rule, o.Name, age, o.What, deletable}
		}
	}
	return rows
}

func (c *commands) printFixed(done *client.FixedOrphans, err error) error {
	if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(done)
	}
	rows := [][]string{}
	for _, o := range done.Removed {
		rows = append(rows, []string{"removed", o.Rule, o.Name})
	}
	for name, why := range done.Failed {
		rows = append(rows, []string{"left", why, name})
	}
	if len(rows) == 0 {
		return c.Out.None("there was nothing to remove")
	}
	if err := c.Out.Rows([]string{"DONE", "RULE", "NAME"}, rows, 2, nil); err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeTable {
		c.Out.Line("removed: %d; left: %d", len(done.Removed), len(done.Failed))
	}
	if len(done.Failed) > 0 {
		return cli.Faults{N: len(done.Failed)}
	}
	return nil
}

// printOrphanRules prints the table of rules. Columns: rule, Merritt's numbers, deletable, what it is, why there can be
// none.
func (c *commands) printOrphanRules() error {
	all := orphans.Rules()
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(all)
	}
	rows := make([][]string, len(all))
	for i, r := range all {
		rows[i] = []string{r.Name, r.Merritt, strconv.FormatBool(r.Deletable), r.Doc, r.Never}
	}
	return c.Out.Table([]string{"RULE", "MERRITT", "DELETABLE", "WHAT", "NEVER, BECAUSE"}, rows) // whole sentences
}

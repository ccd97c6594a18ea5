package jobs

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) stuck() *cobra.Command {
	var kinds []string
	var q client.StuckQuery
	cmd := &cobra.Command{
		Use:   "stuck",
		Short: "Show jobs that are stuck, worst first, and why",
		Long: `Shows open jobs that are longer in their state than usual: longer than 95 of 100 of the last jobs of their kind stayed there, waiting and working
counted together, and longer than a minute. Where fewer than 20 are known, longer than an hour, or a day for a batch; BASIS shows which was used.
It also shows jobs whose timeout has passed, whose worker does not report, or which have been held for more than a week; batches older than a day; and messages that were
abandoned. Each row has the first reason that why gives, and what to do about it.

In a pipe a line begins with job or message.`,
		Example: "  stagepost stuck\n  stagepost stuck --kind ingest.job --factor 3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f := cmd.Flags().Lookup("factor"); f.Changed && !(q.Factor > 0) {
				return cli.Usagef("--factor must be more than 0")
			}
			if err := cli.CheckLimit("--limit", q.Limit); err != nil {
				return err
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			if c.WantsAll(cmd) {
				q.Limit = 1000
			}
			for _, k := range kinds {
				q.Kinds = append(q.Kinds, job.Kind(k))
			}
			s, err := api.Stuck(ctx, q)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				if s.Found > len(s.Stuck) {
					c.Note("%d more are stuck; --kind selects", s.Found-len(s.Stuck))
				}
				return c.Out.JSON(s)
			}
			return c.printStuck(&s)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&kinds, "kind", nil, "only this kind, such as ingest.job")
	f.Float64Var(&q.Factor, "factor", 1, "how many times the usual is too long")
	f.IntVar(&q.Limit, "limit", 100, "at most so many, up to 1000; without it a pipe and -o json get 1000")
	c.CompleteNames(cmd)
	return cmd
}

// printStuck prints stuck jobs and abandoned messages. Columns: id, state, how long, usual, its basis, codes, what,
// why, remedy.
func (c *Commands) printStuck(s *client.Stuck) error {
	rows := [][]string{}
	lead := func(kind string, row []string) []string {
		if c.Out.Mode == cli.ModePlain {
			return append([]string{kind}, row...)
		}
		return row
	}
	for i := range s.Stuck {
		rows = append(rows, lead("job", c.stuckRow(&s.Stuck[i])))
	}
	for _, m := range s.Messages {
		rows = append(rows, lead("message", []string{string(m.Job), "abandoned", c.Out.When(m.Created), "", "",
			"abandoned", m.Topic + " " + m.Key, m.Error,
			remedyOf(&m)}))
	}
	if len(rows) == 0 && c.Out.Mode == cli.ModeTable {
		c.Out.Line("nothing is stuck")
	} else if err := c.Out.Table([]string{"ID", "STATE", "FOR", "USUAL", "BASIS", "CODES", "WHAT", "WHY", "REMEDY"},
		rows); err != nil {
		return err
	}
	if s.Found > len(s.Stuck) {
		c.Note("%d more are stuck; --limit shows more", s.Found-len(s.Stuck))
	}
	for _, cut := range s.Cut {
		c.Note("%s", cli.Clean(cut))
	}
	return nil
}

// remedyOf returns the next step for an abandoned message.
func remedyOf(m *job.Message) string {
	if m.Topic == "webhook" {
		return "mend the reason, then: stagepost ingest hooks replay " + m.Key + " --note WHY"
	}
	return "mend the reason; stagepost ingest report " + string(m.Job) + " shows what the receiver did not get"
}

func (c *Commands) stuckRow(j *client.StuckJob) []string {
	codes, what, why, remedy := []string{}, []string{}, []string{}, ""
	for _, r := range j.Reasons {
		codes, what = append(codes, r.Code), append(what, r.Sentence)
	}
	for _, b := range j.Blockers {
		why = append(why, b.Sentence)
		if remedy == "" {
			remedy = b.Remedy
		}
	}
	if c.Out.Mode == cli.ModeTable {
		why = why[:min(len(why), 1)]
	}
	return []string{string(j.Job), string(j.State), c.Span(j.Seconds), c.Span(j.Usual), j.Basis,
		strings.Join(codes, ","),
		strings.Join(what, "; "), strings.Join(why, "; "), remedy}
}

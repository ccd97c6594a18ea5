package jobs

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *Commands) why() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Tell what a job waits for and what would move it",
		Long: `Tells every reason why a job stands where it stands: what it is, since when, who can end it and how. Then what would move it, and who may.
For a job that has ended it tells how it came to its end. With --at it tells about a moment in the past.`,
		Example:           "  stagepost why ing_01J9...\n  stagepost why ing_01J9... --at 2026-05-04T12:00:00Z",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			var then time.Time
			if at != "" {
				var err error
				if then, err = time.Parse(time.RFC3339, at); err != nil {
					return cli.Usagef("--at must be a time such as 2006-01-02T15:04:05Z, not %q", at)
				}
			}
			api, err := c.API()
			if err != nil {
				return err
			}
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			x, err := api.Why(ctx, id, then)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(x)
			}
			return c.Explain(&x)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "about this moment instead of now")
	return cmd
}

// Explain prints an explanation. In a pipe each line begins with what it is: state, reason, move, not, step.
func (c *Commands) Explain(x *client.Explanation) error {
	if c.Out.Mode == cli.ModePlain {
		rows := [][]string{{"state", string(x.Position.State), string(x.Position.Outcome), x.Attempts}}
		for _, b := range x.Blockers {
			rows = append(rows, []string{"reason", b.Code, b.Sentence, c.Out.When(b.Since), c.Out.When(b.Until), b.Holder, b.Remedy})
		}
		for _, m := range x.Moves {
			rows = append(rows, []string{"move", string(m.Event), string(m.To), strings.Join(m.By, ","), m.Doc, m.Refused})
		}
		for _, e := range x.Chain {
			rows = append(rows, []string{"step", c.Out.When(e.At), string(e.Event.Event), string(e.To), e.Cause, e.Note})
		}
		for _, n := range x.Not {
			rows = append(rows, []string{"not", n})
		}
		return c.Out.Table(nil, rows)
	}
	state := string(x.Position.State)
	if x.Position.Outcome != "" {
		state += " (" + string(x.Position.Outcome) + ")"
	}
	c.Out.Line("%s is %s", x.Job, state)
	if x.Rule != "" {
		c.Out.Line("  ended by: %s", x.Rule)
	}
	if len(x.Blockers) == 0 && len(x.Chain) == 0 {
		c.Out.Line("  nothing keeps it: it moves in a moment")
	}
	for _, b := range x.Blockers {
		c.Out.Line("  - %s [%s]", b.Sentence, b.Code)
		c.detail("since", c.Out.Moment(b.Since))
		c.detail("until", c.Out.Moment(b.Until))
		c.detail("who can end it", b.Holder)
		c.detail("what to do", b.Remedy)
	}
	for _, e := range x.Chain {
		note := e.Note
		if slices.ContainsFunc(x.Blockers, func(b client.Blocker) bool { return note != "" && strings.Contains(b.Sentence, note) }) {
			note = "" // it stands above
		}
		c.Out.Line("  %s ago: %s to %s%s", c.Out.When(e.At), e.Event.Event, e.To, Because(e.Cause, note))
	}
	if len(x.Moves) > 0 {
		c.Out.Line("What would move it:")
	}
	for _, m := range x.Moves {
		c.Out.Line("  %s to %s (%s): %s", m.Event, m.To, strings.Join(m.By, ", "), m.Doc)
		if m.Refused != "" {
			c.Out.Line("      refused now: %s", m.Refused)
		}
	}
	if len(x.Not) > 0 {
		c.Out.Line("Not the reason: %s", strings.Join(x.Not, "; "))
	}
	if x.Attempts != "" {
		c.Out.Line("%s", x.Attempts)
	}
	return nil
}

// Because writes the cause and the note of an entry behind it.
func Because(cause, note string) string {
	text := ""
	if note != "" {
		text = ": " + note
	}
	if cause != "" {
		text += " [" + cause + "]"
	}
	return text
}

func (c *Commands) detail(name, value string) {
	if value != "" {
		c.Out.Line("      %s: %s", name, value)
	}
}

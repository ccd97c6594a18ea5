package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
)

func (c *cli) why() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Tell what a job waits for and what would move it",
		Long: `Tells every reason why a job stands where it stands: what it is, since when, who can end it and how. Then what would move it, and who may.
For a job that has ended it tells how it came to its end. With --at it tells about a moment in the past.`,
		Example:           "  stagepost why ing_01J9...\n  stagepost why ing_01J9... --at 2026-05-04T12:00:00Z",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.patient(cmd)
			defer cancel()
			var then time.Time
			if at != "" {
				var err error
				if then, err = time.Parse(time.RFC3339, at); err != nil {
					return usagef("--at must be a time such as 2006-01-02T15:04:05Z, not %q", at)
				}
			}
			api, err := c.api()
			if err != nil {
				return err
			}
			id, err := c.jobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			x, err := api.Why(ctx, id, then)
			if err != nil {
				return err
			}
			if c.out.mode == modeJSON {
				return c.out.json(x)
			}
			return c.explain(&x)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "about this moment instead of now")
	return cmd
}

// explain prints an explanation. In a pipe each line begins with what it is: state, reason, move, not, step.
func (c *cli) explain(x *client.Explanation) error {
	if c.out.mode == modePlain {
		rows := [][]string{{"state", string(x.Position.State), string(x.Position.Outcome), x.Attempts}}
		for _, b := range x.Blockers {
			rows = append(rows, []string{"reason", b.Code, b.Sentence, c.out.when(b.Since), c.out.when(b.Until), b.Holder, b.Remedy})
		}
		for _, m := range x.Moves {
			rows = append(rows, []string{"move", string(m.Event), string(m.To), strings.Join(m.By, ","), m.Doc, m.Refused})
		}
		for _, e := range x.Chain {
			rows = append(rows, []string{"step", c.out.when(e.At), string(e.Event.Event), string(e.To), e.Cause, e.Note})
		}
		for _, n := range x.Not {
			rows = append(rows, []string{"not", n})
		}
		return c.out.table(nil, rows)
	}
	state := string(x.Position.State)
	if x.Position.Outcome != "" {
		state += " (" + string(x.Position.Outcome) + ")"
	}
	c.out.line("%s is %s", x.Job, state)
	if x.Rule != "" {
		c.out.line("  ended by: %s", x.Rule)
	}
	if len(x.Blockers) == 0 && len(x.Chain) == 0 {
		c.out.line("  nothing keeps it: it moves in a moment")
	}
	for _, b := range x.Blockers {
		c.out.line("  - %s [%s]", b.Sentence, b.Code)
		c.detail("since", c.out.moment(b.Since))
		c.detail("until", c.out.moment(b.Until))
		c.detail("who can end it", b.Holder)
		c.detail("what to do", b.Remedy)
	}
	for _, e := range x.Chain {
		note := e.Note
		if slices.ContainsFunc(x.Blockers, func(b client.Blocker) bool { return note != "" && strings.Contains(b.Sentence, note) }) {
			note = "" // it stands above
		}
		c.out.line("  %s ago: %s to %s%s", c.out.when(e.At), e.Event.Event, e.To, because(e.Cause, note))
	}
	if len(x.Moves) > 0 {
		c.out.line("What would move it:")
	}
	for _, m := range x.Moves {
		c.out.line("  %s to %s (%s): %s", m.Event, m.To, strings.Join(m.By, ", "), m.Doc)
		if m.Refused != "" {
			c.out.line("      refused now: %s", m.Refused)
		}
	}
	if len(x.Not) > 0 {
		c.out.line("Not the reason: %s", strings.Join(x.Not, "; "))
	}
	if x.Attempts != "" {
		c.out.line("%s", x.Attempts)
	}
	return nil
}

// because writes the cause and the note of an entry behind it.
func because(cause, note string) string {
	text := ""
	if note != "" {
		text = ": " + note
	}
	if cause != "" {
		text += " [" + cause + "]"
	}
	return text
}

func (c *cli) detail(name, value string) {
	if value != "" {
		c.out.line("      %s: %s", name, value)
	}
}

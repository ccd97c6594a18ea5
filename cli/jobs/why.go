package jobs

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) why() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Show what a job waits for and what would move it",
		Long: `Shows every reason why a job waits: what it is, since when, who can end it and how. Then what would move it, and who may.
For a job that has ended it shows how it ended. With --at it shows a moment in the past.`,
		Example:           "  stagepost why ing_01J9...\n  stagepost why ing_01J9... --at 2026-05-04T12:00:00Z",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			var then time.Time
			if at != "" {
				var err error
				if then, err = cli.Past(at); err != nil {
					return cli.Usagef("--at: %w", err)
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
			if err := c.Explain(&x); err != nil || c.Out.Mode != cli.ModeTable {
				return err
			}
			return c.pageOf(ctx, api, id)
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "about this moment instead of now: 2h ago is 2h, or 2026-11-22 11:16")
	return cmd
}

// Explain prints an explanation. In a pipe each line begins with what it is: state, next, reason, do, queue, move,
// step, not, unknown.
func (c *Commands) Explain(x *client.Explanation) error {
	if c.Out.Mode == cli.ModePlain {
		return c.explainPlain(x)
	}
	state := string(x.Position.State)
	if x.Position.Outcome != "" && !strings.EqualFold(state, string(x.Position.Outcome)) {
		state += " (" + string(x.Position.Outcome) + ")"
	}
	what := string(x.Job)
	if name := strings.TrimSpace(x.Title + " " + x.Object); name != "" {
		what = name + " (" + what + ")"
	}
	c.Out.Line("%s is %s", what, state)
	switch {
	case x.Next != "":
		c.Out.Line("  %s", c.Out.Local(x.Next))
	case len(x.Blockers) == 0 && len(x.Chain) == 0:
		c.Out.Line("  nothing keeps it: it moves in a moment")
	}
	shown := map[string]bool{}
	for i := range x.Blockers {
		c.blocker(&x.Blockers[i], shown)
	}
	if x.Queue != nil {
		c.Out.Line("  %s", c.Out.Local(x.Queue.Sentence))
	}
	c.chain(x)
	c.moves(x, shown)
	if len(x.Unknown) > 0 {
		c.Out.Line("Not recorded: %s", strings.Join(x.Unknown, "; "))
	}
	if len(x.Not) > 0 {
		c.Out.Line("Not the reason: %s", strings.Join(x.Not, "; "))
	}
	if x.Attempts != "" && x.Position.Outcome == "" {
		c.Out.Line("%s", x.Attempts)
	}
	return nil
}

func (c *Commands) explainPlain(x *client.Explanation) error {
	rows := [][]string{{"state", string(x.Position.State), string(x.Position.Outcome), x.Attempts}}
	if x.Next != "" {
		rows = append(rows, []string{"next", x.Next})
	}
	for _, b := range x.Blockers {
		rows = append(rows, []string{"reason", b.Code, b.Sentence, c.Out.When(b.Since), c.Out.When(b.Until), b.Holder,
			b.Remedy})
		for _, r := range b.Remedies {
			rows = append(rows, []string{"do", r.Command, r.Doc})
		}
	}
	if q := x.Queue; q != nil {
		rows = append(rows, []string{"queue", strconv.FormatInt(q.Ahead, 10), q.Sentence})
	}
	for _, m := range x.Moves {
		rows = append(rows, []string{"move", string(m.Event), string(m.To), m.By.String(), m.Doc, m.Refused})
	}
	for _, e := range x.Chain {
		rows = append(rows, []string{"step", c.Out.When(e.At), string(e.Event), string(e.To), causeOf(&e),
			e.Note})
	}
	for _, n := range x.Not {
		rows = append(rows, []string{"not", n})
	}
	for _, n := range x.Unknown {
		rows = append(rows, []string{"unknown", n})
	}
	return c.Out.Table(nil, rows)
}

// blocker prints one reason with its remedies, and notes their commands in shown.
func (c *Commands) blocker(b *client.Blocker, shown map[string]bool) {
	code := " [" + b.Code + "]"
	if b.Code == codeEnded {
		code = ""
	}
	c.Out.Line("  %s%s", c.Out.Local(b.Sentence), code)
	c.detail("since", c.Out.Moment(b.Since))
	c.detail("until", c.Out.Moment(b.Until))
	c.detail("who can end it", b.Holder)
	c.detail("what to do", b.Remedy)
	for i := range b.Remedies {
		c.remedy(&b.Remedies[i], shown)
	}
}

// codeEnded is the code of the reason of a job that has ended: how it ended.
const codeEnded = "ended"

// remedy prints a command on a line of its own, so that it can be copied, and below it what it does.
func (c *Commands) remedy(r *job.Remedy, shown map[string]bool) {
	if r.Command == "" || shown[r.Command] {
		return
	}
	shown[r.Command] = true
	c.Out.Line("    %s", r.Command)
	c.Out.Line("        %s", r.Doc)
}

// chain prints the last steps of a job that has ended.
func (c *Commands) chain(x *client.Explanation) {
	if len(x.Chain) > 0 {
		c.Out.Line("How it ended:")
	}
	for _, e := range x.Chain {
		note := e.Note
		if slices.ContainsFunc(x.Blockers, func(b client.Blocker) bool {
			return note != "" &&
				strings.Contains(b.Sentence, note)
		}) {
			note = "" // it stands above
		}
		by := ""
		if e.Actor != "" {
			by = " by " + e.Actor
		}
		c.Out.Line("  %s ago: %s to %s%s%s", c.Out.When(e.At), e.Event, e.To, by, because(causeOf(&e), note))
	}
}

// moves prints what would move a job and is not shown as a remedy.
func (c *Commands) moves(x *client.Explanation, shown map[string]bool) {
	heading := "What would move it:"
	for _, m := range x.Moves {
		if m.Remedy != nil && shown[m.Remedy.Command] {
			continue
		}
		if heading != "" {
			c.Out.Line("%s", heading)
			heading = ""
		}
		c.Out.Line("  %s to %s (%s): %s", m.Event, m.To, strings.ReplaceAll(m.By.String(), ",", ", "), m.Doc)
		switch {
		case m.Refused != "":
			c.Out.Line("      refused now: %s", m.Refused)
		case m.Remedy != nil:
			c.Out.Line("      %s", m.Remedy.Command)
		}
	}
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

// BecauseOf is because for an entry.
func BecauseOf(e *client.Event) string { return because(causeOf(e), e.Note) }

// causeOf returns the cause of an entry for people. The first entry of a history has none: there it is the digest of a
// request, which is for programs.
func causeOf(e *client.Event) string {
	if e.Event == job.Create {
		return ""
	}
	return e.Cause
}

// keyed is the note of a first entry that has none, and whose request had an idempotency key.
const keyed = "a request with an idempotency key"

func (c *Commands) detail(name, value string) {
	if value != "" {
		c.Out.Line("      %s: %s", name, value)
	}
}

package jobs

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *Commands) history() *cobra.Command {
	return &cobra.Command{
		Use:               "history ID",
		Short:             "Show what happened to a job, who did it and why",
		Example:           "  stagepost history ing_01J9...",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			entries := []client.Event{}
			for {
				more, err := api.History(ctx, id, int64(len(entries)), 1000)
				if err != nil {
					return err
				}
				entries = append(entries, more...)
				if len(more) < 1000 {
					break
				}
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(entries)
			}
			return c.printHistory(entries)
		}),
	}
}

// printHistory prints entries. Columns in a pipe: see entry. On a terminal FROM is the TO of the line above.
func (c *Commands) printHistory(entries []client.Event) error {
	rows := make([][]string, len(entries))
	for i := range entries {
		e := &entries[i]
		if c.Out.Mode == cli.ModePlain {
			rows[i] = c.entry(e)
			continue
		}
		who := e.Actor
		if who == "" || strings.HasPrefix(who, "engine/") {
			who = e.By.String()
		}
		note := strings.TrimPrefix(BecauseOf(e), ": ")
		if note == "" && e.Event == job.Create && e.Cause != "" {
			note = keyed
		}
		rows[i] = []string{c.Out.When(e.At), string(e.Event), string(e.To), who, note}
	}
	return c.Out.Table([]string{"AGE", "EVENT", "TO", "BY", "NOTE"}, rows)
}

// entry gives the columns of an entry.
func (c *Commands) entry(e *client.Event) []string {
	return []string{strconv.FormatInt(e.Seq, 10), c.Out.When(e.At), string(e.Event), string(e.From), string(e.To),
		string(e.Outcome),
		e.By.String(), e.Actor, causeOf(e), e.Note, e.Address}
}

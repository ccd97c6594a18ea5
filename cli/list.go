package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
)

// Request is a command that sends requests to the server. Its context ends with --timeout.
type Request func(ctx context.Context, api *client.Client, cmd *cobra.Command, args []string) error

// Requests makes the function of a command that sends requests to the server.
func (c *Call) Requests(do Request) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := c.Patient(cmd)
		defer cancel()
		api, err := c.API()
		if err != nil {
			return err
		}
		return do(ctx, api, cmd, args)
	}
}

// Audited adds the flags for the reason and the name that the audit log gets.
func Audited(cmd *cobra.Command, note, actor *string) {
	cmd.Flags().StringVarP(note, "note", "m", "", "why; is entered in the audit log")
	cmd.Flags().StringVar(actor, "actor", "", "your name in the audit log; defaults to the login name")
}

// Recorded adds the flags for the reason and the name that the history of a job gets.
func Recorded(cmd *cobra.Command, note, actor *string) {
	cmd.Flags().StringVarP(note, "note", "m", "", "why; stands in the history")
	cmd.Flags().StringVar(actor, "actor", "", "your name in the history; defaults to the login name")
}

// List prints items: as they are in JSON, else as rows below a heading, with one line a row as [Printer.Rows] prints
// them; the last two columns are cut first. If there are none, it prints the sentence.
func List[T any](p *Printer, items []T, none, heading string, row func(*T) []string) error {
	if p.Mode == ModeJSON {
		return p.JSON(items)
	}
	if len(items) == 0 {
		return p.None(none)
	}
	rows := make([][]string, len(items))
	for i := range items {
		rows[i] = row(&items[i])
	}
	return p.Rows(strings.Split(heading, "|"), rows, 2, nil)
}

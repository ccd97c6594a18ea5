package ingestcli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

// report prints the report that the depositor of a batch gets.
func (c *commands) report() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "report BATCH",
		Short: "Print the report about a batch, as its depositor gets it",
		Long: `Prints the report about a batch as it is now: what happened, what to do, the state of each object, and what is new since the
last report that was sent. As text it is the body of the mail; csv-completed and csv-failed are the tables that are attached to it.`,
		Example: "  stagepost ingest report bat_01J9...\n  stagepost ingest report bat_01J9... --format " +
			"csv-failed > failed.csv",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, remote *client.Client, _ *cobra.Command, args []string) error {
			if format == "" {
				format = "text"
				if c.Out.Mode == cli.ModeJSON {
					format = "json"
				}
			}
			if !slices.Contains(api.ReportFormats(), format) {
				return cli.Usagef("--format must be one of %s, not %q", strings.Join(api.ReportFormats(), ", "), format)
			}
			id, err := c.JobID(ctx, remote, args[0])
			if err != nil {
				return err
			}
			text, err := remote.BatchReportAs(ctx, id, format)
			if err != nil {
				return err
			}
			switch format {
			case "json":
				return c.Out.Indent(text)
			case "text":
				return c.printReport(cleanLines(text))
			}
			_, err = c.Out.Write(text)
			return err
		}),
	}
	cmd.Flags().StringVar(&format, "format", "",
		"text, html, json, csv-completed or csv-failed; defaults to text, with -o json to json")
	c.Complete(cmd, "format", api.ReportFormats()...)
	return cmd
}

// printReport prints clean lines; on a terminal they are wrapped.
func (c *commands) printReport(text string) error {
	if c.Out.Mode != cli.ModeTable || !c.Out.Terminal {
		_, err := c.Out.Write([]byte(text))
		return err
	}
	for line := range strings.Lines(text) {
		c.Out.Line("%s", c.Out.Local(strings.ReplaceAll(strings.TrimRight(line, " \n"), "\t", "    ")))
	}
	return nil
}

// cleanLines cleans each line of a text and keeps the lines and the tabs at their beginning.
func cleanLines(text []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		body := strings.TrimLeft(line, "\t")
		out.WriteString(line[:len(line)-len(body)] + cli.Clean(body) + "\n")
	}
	return out.String()
}

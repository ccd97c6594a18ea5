package ingestcli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) files() *cobra.Command {
	var pages cli.Pages
	cmd := &cobra.Command{
		Use:   "files ID",
		Short: "Show the files of an ingest job",
		Long: `Shows the files of an ingest job in any state of the job, with size, type and origin. STATE is wanted (named by the manifest),
fetched (in the working directory) or stored. For a deleted job it shows the stored files. In a pipe and in JSON each file has its
digests.`,
		Example:           "  stagepost ingest files ing_01J9...\n  stagepost ingest files ing_01J9... --all -o json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, args []string) error {
			if err := c.CheckPages(cmd, &pages); err != nil {
				return err
			}
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			var list client.JobFiles
			fetch := func(after string, limit int) ([]client.JobFile, string, error) {
				page, err := api.JobFiles(ctx, id, after, limit)
				if after == "" { // the rest of the answer is that of the first page
					list = page
				}
				list.Next = page.Next
				return page.Files, page.Next, err
			}
			return cli.ListPages(ctx, pages, fetch, func(files []client.JobFile, _ bool) error {
				list.Files = files
				return c.printFiles(&list)
			})
		}),
	}
	pages.Bind(cmd, 100)
	return cmd
}

// printFiles prints files. Columns in a pipe: state, size, path, type, from, digests.
func (c *commands) printFiles(list *client.JobFiles) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(list)
	}
	rows := make([][]string, len(list.Files))
	for i, f := range list.Files {
		size := ""
		if f.Size >= 0 {
			size = c.Bytes(f.Size)
		}
		digests := []string{}
		for _, name := range slices.Sorted(maps.Keys(f.Digests)) {
			digests = append(digests, name+":"+f.Digests[name])
		}
		if rows[i] = []string{f.State, size, f.Type, f.Path, f.From}; c.Out.Mode == cli.ModePlain {
			rows[i] = []string{f.State, size, f.Path, f.Type, f.From, strings.Join(digests, " ")}
		}
	}
	if err := c.Out.Rows([]string{"STATE", "SIZE", "TYPE", "PATH", "FROM"}, rows, 2, nil); err != nil {
		return err
	}
	if list.Next != "" {
		c.Note("%s", cli.ShownOf(len(rows)))
	}
	if list.Note != "" {
		c.Note("%s", cli.Clean(list.Note))
	}
	return nil
}

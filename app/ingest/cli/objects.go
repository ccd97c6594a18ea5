package ingestcli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) objects() *cobra.Command {
	var q client.ObjectQuery
	var pages cli.Pages
	cmd := &cobra.Command{
		Use:   "objects",
		Short: "List stored objects, by ARK",
		Long: `Lists stored objects in the order of their ARKs: all that match every filter given. A user sees the objects that
the user may update. The columns in a pipe are ARK, newest version, owner, collection, files and bytes of that version,
time of the last change, local ids with commas, and title.`,
		Example: "  stagepost ingest objects --owner ann\n  stagepost ingest objects --local-id map-17 -o json\n" +
			"  stagepost ingest objects --digest 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, _ []string) error {
			if err := c.CheckPages(cmd, &pages); err != nil {
				return err
			}
			fetch := func(after string, limit int) ([]client.Object, string, error) {
				q.After, q.Limit = after, limit
				page, err := api.Objects(ctx, q)
				return page.Objects, page.Next, err
			}
			return cli.ListPages(ctx, pages, fetch, c.printObjects)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&q.ARK, "ark", "", "only this object")
	f.StringVar(&q.LocalID, "local-id", "", "only with this local id")
	f.StringVar(&q.Owner, "owner", "", "only of this owner")
	f.StringVar(&q.Digest, "digest", "", "only with a file of this SHA-256 or SHA-512, in any version")
	pages.Bind(cmd, 50)
	return cmd
}

// printObjects prints a list of objects. On a terminal a row is one line, and the last columns are cut.
func (c *commands) printObjects(objects []client.Object, more bool) error {
	err := cli.List(c.Out, objects, "no object matches", "ARK|VERSION|OWNER|BYTES|CHANGED|LOCAL ID|TITLE",
		func(o *client.Object) []string {
			var newest client.ObjectVersion
			if n := len(o.Versions); n > 0 {
				newest = o.Versions[n-1]
			}
			ids, version := strings.Join(o.LocalIDs, ","), strconv.Itoa(o.Head)
			bytes, changed := c.Bytes(newest.Bytes), c.Out.When(o.Changed)
			if c.Out.Mode == cli.ModePlain {
				return []string{o.ARK, version, o.Owner, o.Collection, strconv.Itoa(newest.Files), bytes, changed, ids,
					o.Title}
			}
			return []string{o.ARK, version, o.Owner, bytes, changed, ids, o.Title}
		})
	c.Out.More(len(objects), more)
	return err
}

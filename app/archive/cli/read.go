package archivecli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) list() *cobra.Command {
	var q client.ArchiveQuery
	var pages cli.Pages
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List archives, newest first",
		Long: `Lists archives, the newest first: all that match every filter given. A user sees the archives of the user. The columns in
a pipe are job, outcome, source, course, owner, time of the request, and name of the course.`,
		Example: "  stagepost archive list --source campus --course 5\n" +
			"  stagepost archive list --outcome failed -o json",
		Args: cobra.NoArgs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, cmd *cobra.Command, _ []string) error {
			if err := c.CheckPages(cmd, &pages); err != nil {
				return err
			}
			fetch := func(after string, limit int) ([]client.Archive, string, error) {
				q.After, q.Limit = after, limit
				page, err := api.Archives(ctx, q)
				return page.Archives, page.Next, err
			}
			return cli.ListPages(ctx, pages, fetch, c.printArchives)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&q.Source, "source", "", "only of this source")
	f.StringVar(&q.Course, "course", "", "only of this course")
	f.StringVar(&q.Activity, "activity", "", "only with this activity")
	f.StringVar(&q.Owner, "owner", "", "only of this owner")
	f.StringVar(&q.Outcome, "outcome", "", "only these: making, complete, failed or deleted")
	pages.Bind(cmd, 50)
	c.Complete(cmd, "outcome", "making", "complete", "failed", "deleted")
	return cmd
}

func (c *commands) printArchives(all []client.Archive, more bool) error {
	err := cli.List(c.Out, all, "no archive matches", "JOB|OUTCOME|SOURCE|COURSE|OWNER|REQUESTED|NAME",
		func(a *client.Archive) []string {
			since := c.Out.When(a.Created)
			return []string{c.Out.ID(a.Job), a.Outcome, a.Source, a.Course, a.Owner, since, a.CourseName}
		})
	c.Out.More(len(all), more)
	return err
}

func (c *commands) show() *cobra.Command {
	var files, copies bool
	cmd := &cobra.Command{
		Use:   "show JOB",
		Short: "Show an archive: activities, copies, time stamps, legal holds",
		Long: `Shows what an archive has of which activity, where its copies are and when they were checked, its time stamps, legal holds
and requests to delete. With --files it lists the files of the archive with their digests instead, and with --copies where each
file is: the state of the copy, the digest that it had when it was read last, and its last fixity check with the result. A copy
that was not checked since it was stored has neither.`,
		Example:           "  stagepost archive show arc_01J9...\n  stagepost archive show arc_01J9... --copies",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			if files && copies {
				return cli.Usagef("name one of --files and --copies: each is a list of its own")
			}
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			if files || copies {
				all, err := artifacts(ctx, api, id)
				if err != nil {
					return err
				}
				if copies {
					return c.printCopies(all)
				}
				return c.printFiles(all)
			}
			d, err := api.Archive(ctx, id)
			if err != nil {
				return err
			}
			return c.printDetails(&d)
		}),
	}
	cmd.Flags().BoolVar(&files, "files", false, "list the files")
	cmd.Flags().BoolVar(&copies, "copies", false, "list the copies of the files")
	return cmd
}

// artifacts gives all files of an archive.
func artifacts(ctx context.Context, api *client.Client, id job.ID) (all []client.ArchiveArtifact, err error) {
	for after := ""; ; {
		page, err := api.ArchiveArtifacts(ctx, id, after, 1000)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Artifacts...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

func (c *commands) printFiles(all []client.ArchiveArtifact) error {
	return cli.List(c.Out, all, "the archive has no files", "ROLE|BYTES|PATH|SHA-256",
		func(a *client.ArchiveArtifact) []string { return []string{a.Role, c.Bytes(a.Size), a.Path, a.SHA256} })
}

// fileCopy is a file in one storage location.
type fileCopy struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	client.ArchiveCopy
}

func (c *commands) printCopies(all []client.ArchiveArtifact) error {
	rows := []fileCopy{}
	for i := range all {
		for _, x := range all[i].Copies {
			rows = append(rows, fileCopy{all[i].Path, all[i].Size, x})
		}
	}
	return cli.List(c.Out, rows, "the archive has no copies", "LOCATION|STATE|CHECKED|RESULT|BYTES|PATH|SHA-256",
		func(x *fileCopy) []string {
			return []string{x.Location, x.State, c.when(x.Checked), x.Result, c.Bytes(x.Size), x.Path, x.SHA256}
		})
}

func (c *commands) printDetails(d *client.ArchiveDetails) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(d)
	}
	keep := "indefinitely"
	if !d.Retain.IsZero() {
		keep = "until " + c.Out.Moment(d.Retain)
	}
	pairs := [][2]string{
		{"job", string(d.Job)}, {"course", d.CourseName + " (" + d.Course + " of " + d.Source + ")"},
		{"outcome", d.Outcome}, {"state", string(d.State)}, {"message", d.Message}, {"owner", d.Owner},
		{"requested", c.Out.Moment(d.Created)}, {"ended", c.Out.Moment(d.Ended)},
		{"files", strconv.Itoa(d.Files)}, {"bytes", c.Bytes(d.Bytes)}, {"kept", keep},
	}
	for _, s := range d.Stamps {
		pairs = append(pairs, [2]string{"stamped", fmt.Sprintf("%s by %s, valid until %s", c.Out.Moment(s.Time),
			s.Authority, c.Out.Moment(s.Expires))})
	}
	for _, h := range d.Holds {
		text := fmt.Sprintf("%s by %s: %s", h.Name, h.By, h.Reason)
		if !h.Released.IsZero() {
			text += "; released by " + h.ReleasedBy
		}
		pairs = append(pairs, [2]string{"legal hold", text})
	}
	for _, x := range d.Deletions {
		pairs = append(pairs, [2]string{"deletion", x.Request + " is " + x.State + ": " + x.Reason},
			[2]string{"next step", x.Remedy})
	}
	if t := d.Tombstone; t != nil {
		pairs = append(pairs, [2]string{"deleted", c.Out.Moment(t.At) + " by " + t.By + ": " + t.Reason})
	}
	for _, s := range d.Stored {
		if text := heldBy[s.LegalHold]; text != "" {
			pairs = append(pairs, [2]string{"held in " + s.Location, text})
		}
	}
	if err := c.Out.Sheet(pairs); err != nil {
		return err
	}
	if err := c.printStored(d.Stored); err != nil || len(d.Activities) == 0 {
		return err
	}
	return c.printActivities(d.Activities)
}

// heldBy explains who enforces legal holds in a location.
var heldBy = map[string]string{
	"location": "by the storage service and Stagepost", "stagepost": "by Stagepost alone: legal_hold is not set there",
	"pending": "by Stagepost; the storage service does not have it for each copy yet",
}

func (c *commands) printStored(all []client.ArchiveStored) error {
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{s.Location, strconv.Itoa(s.Copies), strconv.Itoa(s.Missing), strconv.Itoa(s.Faults),
			c.when(s.Checked), s.Error}
	}
	if len(rows) == 0 {
		return nil
	}
	return c.Out.Rows([]string{"LOCATION", "COPIES", "MISSING", "FAULTS", "OLDEST CHECK", "ERROR"}, rows, 1, nil)
}

func (c *commands) premis() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "premis JOB",
		Short: "Print the preservation metadata of an archive (PREMIS 3.0)",
		Long: `Prints the preservation metadata of an archive as it is now: its files with digests and storage locations, and what
happened since it was stored, such as fixity checks. The package itself has those of what happened before.`,
		Example:           "  stagepost archive premis arc_01J9... > premis.xml",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) (err error) {
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			if format == "" && c.Out.Mode == cli.ModeJSON {
				format = "json"
			}
			if format == "" {
				format = "xml"
			}
			r, err := api.ArchivePREMIS(ctx, id, format)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if format == "json" {
				return c.Out.Indent([]byte(strings.TrimSpace(string(text))))
			}
			_, err = c.Out.Write(text)
			return err
		}),
	}
	cmd.Flags().StringVar(&format, "format", "", "xml or json; defaults to xml, with -o json to json")
	c.Complete(cmd, "format", "xml", "json")
	return cmd
}

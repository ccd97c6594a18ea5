package ingestcli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) metadata() *cobra.Command {
	return &cobra.Command{
		Use:     "metadata ID",
		Example: "  stagepost ingest metadata ing_01J9...",
		Short:   "Show the metadata of an object, or what was submitted with a batch",
		Long: `Of an ingest job it shows ERC and Dublin Core: as they are stored; before that as they were made from the object; at first those of the submission.
Of a batch it shows what was submitted.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(id), "bat_") {
				h, err := api.Submission(ctx, id)
				if err != nil {
					return err
				}
				return c.printHanded(&h)
			}
			m, err := api.Metadata(ctx, id)
			if err != nil {
				return err
			}
			return c.printMetadata(&m)
		}),
	}
}

func (c *commands) printMetadata(m *client.Metadata) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(m)
	}
	version := ""
	if m.Version > 0 {
		version = strconv.Itoa(m.Version)
	}
	if err := c.Out.Sheet([][2]string{{"ark", m.ARK}, {"version", version}, {"source", m.Source},
		{"note", m.Note}}); err != nil {
		return err
	}
	for _, text := range []string{m.ERC, m.DublinCore} {
		for line := range strings.Lines(text) {
			if _, err := fmt.Fprintln(c.Out, strings.TrimRight(cli.Clean(line), " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *commands) printHanded(h *client.Handed) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(h)
	}
	s := &h.Submission
	priority := ""
	if s.Priority != nil {
		priority = strconv.Itoa(*s.Priority)
	}
	return c.Out.Sheet([][2]string{
		{"batch", string(h.Batch)}, {"type", h.Type}, {"profile", s.Profile}, {"submitter", s.Submitter}, {"filename",
			s.Filename}, {"title", s.Title},
		{"creator", s.Creator}, {"date", s.Date}, {"primary id", s.PrimaryID}, {"local ids",
			strings.Join(s.LocalIDs, "; ")}, {"notification", s.Notification},
		{"note", s.Note}, {"key", s.Key}, {"update", strconv.FormatBool(s.Update)}, {"priority", priority}, {"digest",
			strings.TrimSpace(s.DigestType + " " + s.DigestValue)},
		{"size", strconv.FormatInt(h.Size, 10)}, {"sha256", h.SHA256}, {"staged",
			strconv.FormatBool(h.Staged)}, {"jobs", strconv.Itoa(h.Jobs)}, {"what is gone", h.Note},
	})
}

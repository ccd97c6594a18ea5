package ingestcli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/format/bagit"
)

func (c *commands) bag() *cobra.Command {
	return &cobra.Command{
		Use:   "bag PATH",
		Short: "Validate a bag",
		Long: `Validates a bag (BagIt, RFC 8493) that is a directory, a ZIP, TAR or tar.gz file: it is complete if all that its manifests name is there and nothing else is in
its payload, and valid if every checksum is right as well. It needs no server.

Prints each fault on a line: error or warning, code, path, sentence. The exit code is 1 if there is an error.`,
		Example: "  stagepost ingest bag map.zip\n  stagepost ingest bag ./unpacked -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			return c.checkBag(ctx, args[0])
		},
	}
}

// checkBag validates a bag and prints its faults.
func (c *commands) checkBag(ctx context.Context, name string) error {
	r, err := bagit.Validate(ctx, name, bagit.Options{})
	if err != nil {
		return err
	}
	var bad error
	if n := len(r.Errors); n > 0 {
		bad = cli.Faults{N: n}
	}
	if c.Out.Mode == cli.ModeJSON {
		return errors.Join(c.Out.JSON(r), bad)
	}
	var rows [][]string
	for _, f := range r.Errors {
		rows = append(rows, []string{"error", string(f.Code), f.Path, f.Text})
	}
	for _, f := range r.Warnings {
		rows = append(rows, []string{"warning", string(f.Code), f.Path, f.Text})
	}
	if len(rows) > 0 {
		if err := c.Out.Table([]string{"LEVEL", "CODE", "PATH", "WHAT"}, rows); err != nil {
			return err
		}
	}
	valid := "yes"
	if bad != nil {
		valid = "no"
	}
	more := ""
	if r.More > 0 {
		more = strconv.Itoa(r.More)
	}
	return errors.Join(c.Out.Sheet([][2]string{
		{"valid", valid}, {"bagit", r.Version}, {"algorithms", strings.Join(r.Algorithms, ", ")}, {"files",
			strconv.FormatInt(r.Files, 10)},
		{"bytes", c.Bytes(r.Bytes)}, {"more faults", more},
	}), bad)
}

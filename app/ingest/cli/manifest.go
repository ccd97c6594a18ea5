package ingestcli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/cli"
)

func (c *commands) manifest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest ID",
		Short: "Print the manifest of an ingest job or batch as it was received",
		Long: `Prints the manifest of an ingest job or batch as it was received, in every state of the job. In a pipe it is unchanged; on a terminal it has no
control characters. "stagepost ingest manifest check" examines a manifest that was not submitted yet.`,
		Example:           "  stagepost ingest manifest ing_01J9... > object.checkm",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return err
			}
			id, err := c.JobID(ctx, api, args[0])
			if err != nil {
				return err
			}
			text, err := api.Manifest(ctx, id)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, text.Close()) }()
			if !c.Out.Terminal {
				_, err = io.Copy(c.Out, text)
				return err
			}
			in := bufio.NewReader(text)
			for {
				line, err := in.ReadString('\n')
				if line != "" {
					fmt.Fprintln(c.Out, cli.Clean(line))
				}
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
			}
		},
	}
	cmd.AddCommand(c.manifestCheck())
	return cmd
}

func (c *commands) manifestCheck() *cobra.Command {
	var typ, names string
	var strict bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a manifest before it is submitted, without a server",
		Long: `Reads a file as a submission would be read and prints what it would be taken for, how many rows it has, and each problem and warning with its line. It
uses the same code as the server, and fetches nothing: whether the files are there and match their digests, and whether the profile allows their
network, is found out after submission.

The exit code is 1 if the file, or a row of it, would fail. docs/ingest.md describes what is accepted.`,
		Example: "  stagepost ingest manifest check batch.checkm && stagepost submit batch.checkm\n  stagepost " +
			"ingest manifest check rows.txt --type object-manifest",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if typ != "" && !slices.Contains(ingest.Types(), typ) {
				return cli.Usagef("--type %q is none of %s", typ, strings.Join(ingest.Types(), ", "))
			}
			p, err := ingest.ManifestProfile(strict, profile.Names(names))
			if err != nil {
				return cli.Usage(err)
			}
			f, err := os.Open(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			m, err := ingest.CheckManifest(f, filepath.Base(args[0]), typ, p)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			return c.printManifest(&m)
		},
	}
	f := cmd.Flags()
	f.StringVar(&typ, "type", "", "what it would be handed in as; found out if not given")
	f.BoolVar(&strict, "strict", false, "check as a strict profile does")
	f.StringVar(&names, "names", "", "the rules for names of the profile: portable or as-given; defaults to portable")
	c.Complete(cmd, "type", ingest.Types()...)
	c.Complete(cmd, "names", string(profile.NamesPortable), string(profile.NamesAsGiven))
	return cmd
}

// printManifest prints what was found.
func (c *commands) printManifest(m *ingest.ManifestCheck) error {
	var bad error
	if n := len(m.Problems); n > 0 {
		bad = cli.Faults{N: n}
	}
	if c.Out.Mode == cli.ModeJSON {
		return errors.Join(c.Out.JSON(m), bad)
	}
	var rows [][]string
	for _, p := range m.Problems {
		rows = append(rows, []string{"error", p.Cause, p.Text})
	}
	for _, text := range m.Warnings {
		rows = append(rows, []string{"warning", "", text})
	}
	if len(rows) > 0 {
		if err := c.Out.Table([]string{"LEVEL", "CAUSE", "WHAT"}, rows); err != nil {
			return err
		}
	}
	sheet := [][2]string{{"type", m.Type}}
	if m.Rows > 0 {
		sheet = append(sheet, [2]string{"rows", strconv.Itoa(m.Rows)},
			[2]string{"bytes", strconv.FormatInt(m.Bytes, 10)}, [2]string{"rows without a size",
				strconv.Itoa(m.Unknown)})
	}
	return errors.Join(c.Out.Sheet(sheet), bad)
}

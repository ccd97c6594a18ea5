package flowcli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/flowfile"
	"github.com/stagepost/stagepost/cli"
)

func (c *commands) flowLint() *cobra.Command {
	var reverts, strict bool
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check flow files",
		Long: `Checks flow files without a server. Prints one line per finding, FILE:LINE:COLUMN: SEVERITY: message, and on a terminal the line with a mark below. An error is
what a server would refuse; a warning is probably a mistake; a note may be intended.

The exit code is 2 if there is an error, with --strict also for a warning.`,
		Example: "  stagepost flow lint deploy.yaml\n  stagepost flow lint flows/*.yaml --strict --reverts",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			type finding struct {
				File string `json:"file"`
				flowfile.Finding
			}
			var checks []flowfile.Check
			if reverts {
				checks = append(checks, flowfile.CheckReverts)
			}
			findings, bad := []finding{}, 0
			for _, name := range args {
				text, err := readFlowFile(name, c.In)
				if err != nil {
					return err
				}
				for _, f := range flowfile.Lint(text, checks...) {
					findings = append(findings, finding{name, f})
					if f.Severity == flowfile.IsError || strict && f.Severity == flowfile.IsWarning {
						bad++
					}
				}
			}
			if c.Out.Mode == cli.ModeJSON {
				if err := c.Out.JSON(findings); err != nil {
					return err
				}
			} else {
				for _, f := range findings {
					c.printFinding(f.File, &f.Finding)
				}
			}
			if bad > 0 {
				return cli.Usage(cli.Faults{N: bad})
			}
			return c.Out.None(fmt.Sprintf("%d %s checked, no fault found", len(args),
				cli.Plural(int64(len(args)), "file", "files")))
		},
	}
	cmd.Flags().BoolVar(&reverts, "reverts", false,
		"also note tasks with effects and without a revert")
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings count as errors")
	return cmd
}

// printFinding prints a line for a finding, and on a terminal where it is.
func (c *commands) printFinding(file string, f *flowfile.Finding) {
	fmt.Fprintf(c.Out, "%s:%s\n", cli.Clean(file), cli.Clean(f.String()))
	if c.Out.Mode == cli.ModeTable {
		for line := range strings.Lines(f.Excerpt()) {
			fmt.Fprintln(c.Out, cli.Clean(strings.TrimRight(line, "\n")))
		}
	}
}

// mistaken returns an error with a line for each fault of a flow file, as a server reports it, with the name of the
// file; nil if there is none.
func mistaken(name string, text []byte) error {
	var mistakes []error
	for _, f := range flowfile.Lint(text) {
		if f.Severity == flowfile.IsError {
			mistakes = append(mistakes, fmt.Errorf("%s:%d:%d: %s", name, f.Line, f.Column, f.Text))
		}
	}
	if len(mistakes) == 0 {
		return nil
	}
	return cli.Usage(errors.Join(mistakes...))
}

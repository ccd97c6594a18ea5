package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/draw"
	"github.com/stagepost/stagepost/lifecycle/notation"
)

func (c *Commands) lifecycle() *cobra.Command {
	return cli.Group("lifecycle", "List, show, draw, lint, add and remove lifecycles",
		"Lists the lifecycles of this program without a server, adds kinds of jobs to a server and removes them.",
		"  stagepost lifecycle list\n  stagepost lifecycle show ingest.job",
		c.lifecycleAdd(), c.lifecycleRemove(), c.lifecycleList(), c.lifecycleShow(), c.lifecycleDraw(),
		c.lifecycleLint())
}

func (c *Commands) lifecycleList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the lifecycles", Example: "  stagepost lifecycle list", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := c.allLives(cmd.Context())
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all)
			}
			var rows [][]string
			for _, t := range all {
				rows = append(rows, []string{t.Name(), t.Hash(), strconv.Itoa(len(t.Stages())),
					string(t.Start().State)})
			}
			return c.Out.Table([]string{"NAME", "DEFINITION", "STATES", "START"}, rows)
		},
	}
}

// allLives lists the lifecycles of the program, and those that were added to the server if one runs.
func (c *Commands) allLives(ctx context.Context) ([]*lifecycle.Table, error) {
	all := slices.Clone(c.Lives)
	if !c.Served(ctx) {
		return all, nil
	}
	server, err := c.API()
	if err != nil {
		return nil, err
	}
	known, err := server.Lifecycles(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range known {
		if !slices.ContainsFunc(all, func(t *lifecycle.Table) bool { return t.Name() == l.Name }) {
			added, err := c.addedLife(ctx, l.Name)
			if err != nil {
				return nil, err
			}
			all = append(all, added)
		}
	}
	return all, nil
}

// addedLife gets a lifecycle from the server.
func (c *Commands) addedLife(ctx context.Context, name string) (*lifecycle.Table, error) {
	server, err := c.API()
	if err != nil {
		return nil, err
	}
	text, err := server.Drawing(ctx, name, "json")
	if err != nil {
		return nil, err
	}
	var of struct {
		Name   string
		Stages []lifecycle.Stage
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return nil, err
	}
	return lifecycle.New(of.Name, of.Stages...)
}

func (c *Commands) lifecycleShow() *cobra.Command {
	return &cobra.Command{
		Example: "  stagepost lifecycle show flow",
		Use:     "show NAME", Short: "Show a lifecycle: its states and transitions with a sentence each",
		Args: cobra.ExactArgs(1), ValidArgs: c.LifeNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := c.FindLife(args[0])
			if added, _ := c.addedLife(cmd.Context(), args[0]); err != nil && added != nil {
				t, err = added, nil
			}
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(t)
			}
			return c.printLife(t)
		},
	}
}

// printLife prints a lifecycle. Columns in a pipe: state, class, event, targets, actors, sentence.
func (c *Commands) printLife(t *lifecycle.Table) error {
	var rows [][]string
	for _, s := range t.Stages() {
		rows = append(rows, []string{string(s.State), string(s.Kind), "", "", "", s.Doc})
		for _, a := range s.Transitions {
			if a.Class != lifecycle.Loop {
				rows = append(rows, []string{string(s.State), string(a.Class), string(a.Event), targets(a),
					a.By.String(), a.Doc})
			}
		}
	}
	if c.Out.Mode != cli.ModeTable {
		return c.Out.Table(nil, rows)
	}
	for _, row := range rows {
		if row[2] == "" {
			c.Out.Line("%s (%s): %s", row[0], row[1], row[5])
			continue
		}
		c.Out.Line("  %s to %s (%s): %s", row[2], row[3], row[4], row[5])
	}
	return nil
}

func targets(a lifecycle.Transition) string {
	words := []string{}
	for _, s := range a.Targets() {
		words = append(words, string(s))
	}
	return strings.Join(words, ",")
}

func (c *Commands) lifecycleDraw() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "draw NAME", Short: "Draw a lifecycle as SVG, Mermaid or DOT",
		Example: "  stagepost lifecycle draw ingest.job > job.svg\n  stagepost lifecycle draw ingest.job -o mermaid",
		Args:    cobra.ExactArgs(1), ValidArgs: c.LifeNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := c.FindLife(args[0])
			if err != nil {
				return c.drawOfServer(cmd.Context(), args[0], format, err)
			}
			write := map[string]func(*lifecycle.Table, draw.View) string{"svg": draw.SVG, "mermaid": draw.Mermaid,
				"dot": draw.DOT}[format]
			if write == nil {
				return cli.Usagef("-o must be svg, mermaid or dot, not %q", format)
			}
			_, err = io.WriteString(c.Out, write(t, draw.View{}))
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "svg", "how to draw: svg, mermaid or dot")
	c.Complete(cmd, "output", "svg", "mermaid", "dot")
	return cmd
}

func (c *Commands) lifecycleLint() *cobra.Command {
	return &cobra.Command{
		Use:     "lint FILE...",
		Example: "  stagepost lifecycle lint thesis.yaml", Short: "Check lifecycles in YAML or Mermaid files",
		Long: `Checks lifecycles that are written down as YAML or as a Mermaid diagram: unreachable states, dead ends, states without a failure exit.
Prints one line per fault, FILE:LINE:COLUMN: message [rule]. The exit code is 1 if there is any.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			type fault struct {
				File string `json:"file"`
				notation.Problem
			}
			faults := []fault{}
			for _, file := range args {
				text, err := os.ReadFile(file)
				if err != nil {
					return cli.Usage(err)
				}
				for _, p := range c.Lint(file, text) {
					faults = append(faults, fault{file, p})
				}
			}
			if c.Out.Mode == cli.ModeJSON {
				if err := c.Out.JSON(faults); err != nil {
					return err
				}
			} else {
				for _, f := range faults {
					fmt.Fprintf(c.Out, "%s:%s\n", cli.Clean(f.File), cli.Clean(f.String()))
				}
			}
			if len(faults) > 0 {
				return cli.Faults{N: len(faults)}
			}
			return nil
		},
	}
}

package flowcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/flowfile"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
	"github.com/stagepost/stagepost/job"
)

// flowDrawing are the flags of flow draw.
type flowDrawing struct {
	format   string
	timeline bool
	inputs   []string
}

func (c *commands) flowDraw(o *flowFlags) *cobra.Command {
	var d flowDrawing
	cmd := &cobra.Command{
		Use:   "draw FILE | ID",
		Short: "Draw a flow as SVG, DOT, Mermaid or text",
		Long: `Draws the graph of a flow file, or that of a flow with the states of its tasks. With --timeline it draws when each task of a flow began and ended.
What is not the name of a file is taken for the id of a flow. Inputs of a file are only needed where they decide what tasks there are: without its list, a task for each item
is drawn once.`,
		Example: "  stagepost flow draw deploy.yaml > deploy.svg\n" +
			"  stagepost flow draw deploy.yaml --format mermaid\n" +
			"  stagepost flow draw flw_01J9... --timeline --format text",
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			ids, _ := c.completeFlows()(cmd, args, word)
			return ids, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := os.Stat(args[0])
			switch {
			case err == nil || args[0] == "-":
				return c.drawFile(args[0], &d)
			case !errors.Is(err, fs.ErrNotExist):
				return cli.Usage(err)
			case len(d.inputs) > 0:
				return cli.Usagef("--input is for files; there is no file %s", args[0])
			}
			return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
				id, err := c.JobOf(ctx, api, client.FlowKind, args[0])
				if err != nil {
					return err
				}
				return c.drawFlow(ctx, api, id, &d)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.format, "format", "svg", "how to draw: svg, dot, mermaid or text")
	f.BoolVar(&d.timeline, "timeline", false, "along the time: svg or text")
	f.StringArrayVar(&d.inputs, "input", nil, "of a file: name=value or name=@file; may be given again")
	c.Complete(cmd, "format", "svg", "dot", "mermaid", "text")
	// the error for a missing flag cannot occur
	_ = cmd.RegisterFlagCompletionFunc("input", completeInputs)
	return cmd
}

// drawFile draws the structure of a file.
func (c *commands) drawFile(name string, d *flowDrawing) error {
	if d.timeline {
		return cli.Usagef("--timeline is for flows that have begun, by their id")
	}
	text, err := readFlowFile(name, c.In)
	if err != nil {
		return err
	}
	if err := mistaken(name, text); err != nil {
		return err
	}
	given, err := readInputs(d.inputs, c.In)
	if err != nil {
		return err
	}
	values := flow.Values{}
	for input, v := range given {
		var value flow.Value
		if err := json.Unmarshal(v, &value); err != nil {
			return cli.Usagef("--input %s: %w", input, err)
		}
		values[input] = value.Any()
	}
	file, err := flowfile.Inspect(text)
	if err != nil {
		return cli.Usagef("%s: %w", name, err)
	}
	item, err := file.Sketch(values)
	if err != nil {
		return cli.Usagef("%s: %w", name, err)
	}
	outline, err := flow.OutlineOf(item)
	if err != nil {
		return cli.Usagef("%s: %w", name, err)
	}
	return c.drawGraph(outline, nil, d.format, draw.Options{})
}

// drawFlow draws a flow of the server.
func (c *commands) drawFlow(ctx context.Context, api *client.Client, id job.ID, d *flowDrawing) error {
	if d.timeline && d.format != "svg" && d.format != "text" {
		return cli.Usagef("--format must be svg or text with --timeline, not %q", d.format)
	}
	v, err := api.Flow(ctx, id, false)
	if err != nil {
		return err
	}
	records, now := recordsOf(&v), time.Now()
	if !d.timeline {
		outline := outlineOf(&v)
		if outline == nil {
			return job.Errorf(job.Refused, "draw", id,
				"no worker has made the flow yet: it can be drawn when it has begun")
		}
		return c.drawGraph(outline, records, d.format, draw.Options{State: v.Job.State, Now: now})
	}
	spans, o := draw.SpansOf(records, now), draw.TimelineOptions{Width: max(c.Out.Columns(), 40), Unicode: speaksUTF8(),
		Color: c.Out.Terminal && colourful()}
	if d.format == "text" {
		if c.Out.Columns() == 0 {
			o.Width = 0 // the usual one
		}
		return c.Out.Lines(draw.TimelineText(spans, o))
	}
	return draw.Timeline(c.Out, spans, o)
}

// drawGraph writes a drawing of a flow.
func (c *commands) drawGraph(o *flow.Outline, records []flow.Record, format string, opts draw.Options) error {
	var b bytes.Buffer
	var err error
	switch format {
	case "svg":
		err = draw.SVG(&b, o, records, opts)
	case "dot":
		err = draw.DOT(&b, o, records, opts)
	case "mermaid":
		err = draw.Mermaid(&b, o, records, opts)
	case "text":
		return c.Out.Lines(draw.Tree(o, records, draw.TreeOptions{
			State: opts.State, Now: opts.Now, Width: c.Out.Columns(), Color: c.Out.Terminal && colourful(),
			Unicode: speaksUTF8(),
		}))
	default:
		return cli.Usagef("--format must be svg, dot, mermaid or text, not %q", format)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(c.Out, &b)
	return err
}

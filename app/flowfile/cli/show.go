package flowcli

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
)

func (c *commands) flowShow(o *flowFlags) *cobra.Command {
	var watch, values bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a flow with its tasks and their states",
		Long: `Shows a flow as a tree: each task with its state, attempts, times, and what it waits for or why it failed. In a pipe each line begins with what it is: flow, task,
retry, await (a signal that a task waits for), signal (one that was sent), value. With --watch it follows the flow as stagepost flow run does, with the same exit code.`,
		Example: "  stagepost flow show flw_01J9...\n" +
			"  stagepost flow show flw_01J9... --values -o json | jq .values\n" +
			"  stagepost flow show flw_01J9... --watch",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeFlows(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch && o.local {
				return cli.Usagef("with --local no worker runs the flow: there is nothing to --watch")
			}
			return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
				if watch {
					j, err := c.flowOf(ctx, api, args[0])
					if err != nil {
						return err
					}
					return c.followed(ctx, api, &j)
				}
				id, err := c.JobOf(ctx, api, client.FlowKind, args[0])
				if err != nil {
					return err
				}
				v, err := api.Flow(ctx, id, values)
				if err != nil {
					return err
				}
				return c.printFlow(&v)
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "follow it until it has ended or is suspended")
	cmd.Flags().BoolVar(&values, "values", false, "also the values of the flow and what tasks gave; large ones are cut")
	return cmd
}

// printFlow prints a flow.
func (c *commands) printFlow(v *client.Flow) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(v)
	}
	var rows [][]string
	for _, name := range v.Awaits {
		rows = append(rows, []string{"await", name})
	}
	for _, s := range v.Signals {
		rows = append(rows, []string{"signal", s.Name, shownValue(s.Value)})
	}
	for _, name := range v.Remains {
		rows = append(rows, []string{"remains", name})
	}
	for _, name := range sortedNames(v.Values) {
		rows = append(rows, []string{"value", name, shownValue(v.Values[name])})
	}
	if c.Out.Mode == cli.ModePlain {
		all := [][]string{{"flow", c.Out.When(v.Job.Entered), v.Name, string(v.Job.State), v.Job.Message}}
		for i := range v.Atoms {
			all = append(all, c.atomRow(&v.Atoms[i]))
		}
		return c.Out.Table(nil, append(all, rows...))
	}
	if err := c.Out.Lines(c.flowTree(v, c.Out.Columns(), 0, time.Now())); err != nil {
		return err
	}
	if v.Job.Message != "" {
		c.Out.Line("%s", v.Job.Message)
	}
	if len(rows) > 0 {
		if err := c.Out.Rows([]string{"KIND", "NAME", "VALUE"}, rows, 2, nil); err != nil {
			return err
		}
	}
	if can := jobs.Events(v.Job.Can["operator"]); can != "" {
		c.Out.Line("an operator can: %s", can)
	}
	c.Page(v.Job.Links["page"])
	return nil
}

// atomRow is the line of an atom in a pipe: kind, when it came to where it stands, name, state, what there is to state,
// attempts, result.
func (c *commands) atomRow(a *client.FlowAtom) []string {
	result := ""
	if a.Result != nil {
		result = shownValue(*a.Result)
	}
	return []string{a.Kind, c.Out.When(changedAt(a)), a.Name, string(a.State), a.Notes(),
		strconv.Itoa(max(a.Attempts, a.History)), result}
}

// shownValue writes a value on a line.
func shownValue(v client.Seen) string {
	if v.Value != nil {
		return string(v.Value)
	}
	return v.Begin + "... (" + strconv.Itoa(v.Bytes) + " bytes)"
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

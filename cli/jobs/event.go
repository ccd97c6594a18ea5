package jobs

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Act are the flags of every command that causes an event.
type Act struct {
	Note    string
	As      string
	Actor   string
	Version int64
	confirm bool
}

func (a *Act) Bind(cmd *cobra.Command) {
	f := cmd.Flags()
	cli.Recorded(cmd, &a.Note, &a.Actor)
	f.StringVar(&a.As, "as", "", "who asks: operator or owner; defaults to owner if the token is a user's, else to "+
		"operator")
	f.Int64Var(&a.Version, "version", 0, "only if the record still has this version")
	f.BoolVar(&a.confirm, "confirm", false, "yes to what the event loses")
}

func (a *Act) Body() client.Act {
	return client.Act{As: a.As, Actor: cli.Whoami(a.Actor), Note: a.Note, Version: a.Version, Confirm: a.confirm}
}

// event is for events that have no command of their own.
func (c *Commands) event() *cobra.Command {
	var a Act
	cmd := &cobra.Command{
		Use:               "event EVENT ID...",
		Short:             "Cause any event of a lifecycle, such as suspend, resume, kill or requeue",
		Example:           "  stagepost event requeue ing_01J9... --note 'new pool'",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.CompleteEvents,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.causeAll(cmd, lifecycle.Event(args[0]), args[1:], a.Body())
		},
	}
	a.Bind(cmd)
	c.Complete(cmd, "as", "operator", "owner")
	return cmd
}

// EventCommand makes a command of one event, which is its name.
func (c *Commands) EventCommand(e lifecycle.Event, short, long, example string) *cobra.Command {
	cmd, _ := c.eventCommand(e, short, long, example)
	return cmd
}

// eventCommand is EventCommand with the flags of the command.
func (c *Commands) eventCommand(e lifecycle.Event, short, long, example string) (cmd *cobra.Command, a *Act) {
	a = &Act{}
	cmd = &cobra.Command{
		Use:               string(e) + " ID...",
		Short:             short,
		Long:              long,
		Example:           example,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.CompleteIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.causeAll(cmd, e, args, a.Body()) },
	}
	a.Bind(cmd)
	c.Complete(cmd, "as", "operator", "owner")
	return cmd, a
}

// causeAll causes an event on each job and prints the results. It continues after a job that refuses the event.
func (c *Commands) causeAll(cmd *cobra.Command, e lifecycle.Event, ids []string, a client.Act) error {
	return c.actOnEach(cmd, ids, c.Done(e),
		func(ctx context.Context, api *client.Client, id job.ID) (client.Job, error) {
			return c.Cause(ctx, api, id, e, &a)
		})
}

// actOnEach does something to each job and prints the results, which done names. It continues after a job that refuses.
func (c *Commands) actOnEach(cmd *cobra.Command, ids []string, done func(*client.Job) string,
	do func(context.Context, *client.Client, job.ID) (client.Job, error)) error {
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	api, err := c.API()
	if err != nil {
		return err
	}
	one := func(id job.ID) (client.Job, error) {
		if err := c.Resolve(ctx, api, &id); err != nil {
			return client.Job{}, err
		}
		return do(ctx, api, id)
	}
	return c.Each(ids, one, done, "OUTCOME", func(j *client.Job) string { return string(j.Outcome) })
}

// Done returns what an event did to a job, for a summary.
func (c *Commands) Done(e lifecycle.Event) func(*client.Job) string {
	words := map[lifecycle.Event]string{
		"retry": "sent back", "cancel": "cancelled", "stop": "stopped", "hold": "held", "release": "released",
		"delete": "deleted",
		"update": "reported again", "suspend": "suspended", "resume": "resumed", "reset": "reset", "clean": "cleaned",
		"run":      "resumed",
		"priority": "moved",
	}
	return func(j *client.Job) string {
		for _, p := range c.Parts {
			if p.Done != nil {
				if text := p.Done(e, j); text != "" {
					return text
				}
			}
		}
		return cmp.Or(words[e], string(e))
	}
}

// Each calls do for each job, and prints its id, its state and a column. On a terminal a summary follows: for each
// result of did, the number of jobs; nil: none. Errors are printed at once, except the last one, which is returned.
func (c *Commands) Each(ids []string, do func(job.ID) (client.Job, error), did func(*client.Job) string, heading string,
	column func(*client.Job) string) error {
	var failed error
	var results []string
	headings, done, refused := []string{"ID", "STATE", heading}, map[string]int{}, 0
	for _, id := range ids {
		j, err := do(job.ID(id))
		if err != nil {
			if failed != nil {
				c.Exit(failed)
			}
			failed, refused = err, refused+1
			continue
		}
		if did != nil {
			result := did(&j)
			if done[result]++; done[result] == 1 {
				results = append(results, result)
			}
		}
		if err := c.outcome(&j, headings, column(&j)); err != nil {
			return err
		}
		headings = nil
	}
	if len(results) == 0 || c.Out.Mode != cli.ModeTable {
		return failed
	}
	for i, result := range results {
		results[i] = fmt.Sprintf("%s: %d", result, done[result])
	}
	if refused > 0 {
		results = append(results, fmt.Sprintf("refused: %d", refused))
	}
	c.Out.Line("%s", strings.Join(results, "; "))
	return failed
}

// PrintOutcome prints a job in short, and on a terminal the address of its page.
func (c *Commands) PrintOutcome(j *client.Job) error {
	err := c.outcome(j, []string{"ID", "STATE", "OUTCOME"}, string(j.Outcome))
	c.Page(j.Links["page"])
	return err
}

// outcome prints one of several jobs in short. The first one has headings: ids have one length, states up to 15
// letters.
func (c *Commands) outcome(j *client.Job, headings []string, column string) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(j)
	}
	state := string(j.State)
	if c.Out.Mode == cli.ModeTable {
		state = fmt.Sprintf("%-15s", state)
	}
	return c.Out.Table(headings, [][]string{{string(j.ID), state, column}})
}

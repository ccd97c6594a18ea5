package jobs

import (
	"cmp"
	"fmt"

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
	f.StringVarP(&a.Note, "note", "m", "", "why; stands in the history")
	f.StringVar(&a.As, "as", "", "who asks: operator or owner; defaults to owner if the token is a user's, else to operator")
	f.StringVar(&a.Actor, "actor", "", "your name in the history; defaults to the login name")
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
	var a Act
	cmd := &cobra.Command{
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
	return cmd
}

// causeAll causes an event on each job and tells what came of it. It goes on after a job that refuses, and ends with the first error.
func (c *Commands) causeAll(cmd *cobra.Command, e lifecycle.Event, ids []string, a client.Act) error {
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	api, err := c.API()
	if err != nil {
		return err
	}
	one := func(id job.ID) (client.Job, error) {
		return c.Cause(ctx, api, id, e, &a)
	}
	return c.Each(ids, one, Done(e), "OUTCOME", func(j *client.Job) string { return string(j.Outcome) })
}

// Done gives what an event did, as its summary says it.
func Done(e lifecycle.Event) string {
	words := map[lifecycle.Event]string{
		"retry": "sent back", "cancel": "cancelled", "stop": "stopped", "hold": "held", "release": "released", "delete": "deleted",
		"update": "reported again", "suspend": "suspended", "resume": "resumed", "reset": "reset", "clean": "cleaned", "run": "resumed",
	}
	return cmp.Or(words[e], string(e))
}

// Each does something to every job and prints id, state and what came of it, and on a terminal how many it was done to.
// Errors of all but the last to fail are printed at once.
func (c *Commands) Each(ids []string, do func(job.ID) (client.Job, error), did, heading string,
	what func(*client.Job) string) error {
	var failed error
	n := 0
	headings := []string{"ID", "STATE", heading}
	for _, id := range ids {
		j, err := do(job.ID(id))
		if err != nil {
			if failed != nil {
				c.Exit(failed)
			}
			failed = err
			continue
		}
		n++
		if err := c.tell(&j, headings, what(&j)); err != nil {
			return err
		}
		headings = nil
	}
	if n > 0 && c.Out.Mode == cli.ModeTable {
		refused := ""
		if n < len(ids) {
			refused = fmt.Sprintf("; not: %d", len(ids)-n)
		}
		c.Out.Line("%s: %d%s", did, n, refused)
	}
	return failed
}

// Told prints what became of a job, in short.
func (c *Commands) Told(j *client.Job) error {
	return c.tell(j, []string{"ID", "STATE", "OUTCOME"}, string(j.Outcome))
}

// tell is told for several jobs one after the other, of which the first has headings: ids are of one length, states of up to 15 letters.
func (c *Commands) tell(j *client.Job, headings []string, what string) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(j)
	}
	state := string(j.State)
	if c.Out.Mode == cli.ModeTable {
		state = fmt.Sprintf("%-15s", state)
	}
	return c.Out.Table(headings, [][]string{{string(j.ID), state, what}})
}

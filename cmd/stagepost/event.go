package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// act are the flags of every command that causes an event.
type act struct {
	note    string
	as      string
	actor   string
	version int64
	confirm bool
}

func (a *act) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&a.note, "note", "m", "", "why; stands in the history")
	f.StringVar(&a.as, "as", "", "who asks: operator or owner; defaults to owner if the token is a user's, else to operator")
	f.StringVar(&a.actor, "actor", "", "your name in the history; defaults to the login name")
	f.Int64Var(&a.version, "version", 0, "only if the record still has this version")
	f.BoolVar(&a.confirm, "confirm", false, "yes to what the event loses")
}

func (a *act) body() client.Act {
	return client.Act{As: a.as, Actor: whoami(a.actor), Note: a.note, Version: a.version, Confirm: a.confirm}
}

// event is for events that have no command of their own.
func (c *cli) event() *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:               "event EVENT ID...",
		Short:             "Cause any event of a lifecycle, such as suspend, resume, kill or requeue",
		Example:           "  stagepost event requeue ing_01J9... --note 'new pool'",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeEvents,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.causeAll(cmd, lifecycle.Event(args[0]), args[1:], a.body())
		},
	}
	a.bind(cmd)
	c.complete(cmd, "as", "operator", "owner")
	return cmd
}

// eventCommand makes a command of one event, which is its name.
func (c *cli) eventCommand(e lifecycle.Event, short, long, example string) *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:               string(e) + " ID...",
		Short:             short,
		Long:              long,
		Example:           example,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.causeAll(cmd, e, args, a.body()) },
	}
	a.bind(cmd)
	c.complete(cmd, "as", "operator", "owner")
	return cmd
}

// causeAll causes an event on each job and tells what came of it. It goes on after a job that refuses, and ends with the first error.
func (c *cli) causeAll(cmd *cobra.Command, e lifecycle.Event, ids []string, a client.Act) error {
	ctx, cancel := c.patient(cmd)
	defer cancel()
	api, err := c.api()
	if err != nil {
		return err
	}
	one := func(id job.ID) (client.Job, error) {
		return c.cause(ctx, api, id, e, &a)
	}
	return c.each(ids, one, "OUTCOME", func(j *client.Job) string { return string(j.Outcome) })
}

// each does something to every job and prints id, state and what came of it; errors of all but the last to fail are told at once.
func (c *cli) each(ids []string, do func(job.ID) (client.Job, error), heading string, what func(*client.Job) string) error {
	var failed error
	headings := []string{"ID", "STATE", heading}
	for _, id := range ids {
		j, err := do(job.ID(id))
		if err != nil {
			if failed != nil {
				c.exit(failed)
			}
			failed = err
			continue
		}
		if err := c.tell(&j, headings, what(&j)); err != nil {
			return err
		}
		headings = nil
	}
	return failed
}

// told prints what became of a job, in short.
func (c *cli) told(j *client.Job) error {
	return c.tell(j, []string{"ID", "STATE", "OUTCOME"}, string(j.Outcome))
}

// tell is told for several jobs one after the other, of which the first has headings: ids are of one length, states of up to 15 letters.
func (c *cli) tell(j *client.Job, headings []string, what string) error {
	if c.out.mode == modeJSON {
		return c.out.json(j)
	}
	state := string(j.State)
	if c.out.mode == modeTable {
		state = fmt.Sprintf("%-15s", state)
	}
	return c.out.table(headings, [][]string{{string(j.ID), state, what}})
}

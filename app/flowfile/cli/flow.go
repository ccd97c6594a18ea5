package flowcli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	flowserve "github.com/stagepost/stagepost/app/flowfile/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// flowFlags are the flags of all commands about flows.
type flowFlags struct {
	local   bool
	sandbox string // of commands, with local
}

// confine takes over the flag --sandbox, for commands that work on flows in this process: the user's own files run
// there, so that the server's setting does not count.
func (o *flowFlags) confine(c *commands) error {
	s := c.settings
	if o.sandbox != "" && !o.local {
		return cli.Usagef("--sandbox is for --local: on a server the setting flow.sandbox confines commands")
	}
	s.Sandbox, s.Dirs = flowserve.NoSandbox, "/"
	if o.sandbox == "" {
		return nil
	}
	for _, one := range c.Settings.All() {
		if one.Name == "flow.sandbox" {
			return one.Set(o.sandbox)
		}
	}
	return nil
}

// bindSandbox adds the flag --sandbox to a command that runs flows.
func (c *commands) bindSandbox(cmd *cobra.Command, o *flowFlags) {
	cmd.Flags().StringVar(&o.sandbox, "sandbox", "",
		"with --local: what confines commands: auto, native, bwrap, none, require or off; defaults to off")
	c.Complete(cmd, "sandbox", "auto", "native", "bwrap", "none", "require", "off")
}

func (c *commands) flow() *cobra.Command {
	var o flowFlags
	cmd := cli.Group("flow", "Run task graphs with rollback, suspend and resume", `A flow is a graph of tasks that pass values on. When a task fails, the tasks before it are rolled back, or a retry
controller tries them again. A flow can be suspended and resumed, and continues after a crash with the tasks that are
left.

Flows are jobs: list, show, why, history, logs, watch, priority and hold work on them as on all others. In the API and in histories resuming a flow is the event run,
because that is also what makes one that failed go on.

With --local a command works on the flows in the data directory by itself, without a server; then no server may be at work there.`,
		"  stagepost flow run backup.yaml\n  stagepost flow list --open",
		c.flowRun(&o), c.flowLint(), c.flowDraw(&o), c.flowShow(&o), c.flowList(&o), c.flowSuspend(&o),
		c.flowResume(&o), c.flowCancel(&o), c.flowReset(&o),
		c.flowDelete(&o), c.flowMark(&o), c.flowSignal(&o))
	for _, sub := range cmd.Commands() {
		if sub.Name() != "lint" {
			sub.Flags().BoolVar(&o.local, "local", false,
				"do it in this process, on the data directory, without a server")
		}
	}
	return cmd
}

// flows returns the client of the server, or of one in this process if the flows are local: no worker runs there. The
// caller calls stop when it is done.
func (c *commands) flows(ctx context.Context, o *flowFlags) (api *client.Client, stop func() error, err error) {
	if !o.local {
		api, err = c.API()
		return api, func() error { return nil }, err
	}
	c.settings.Sandbox = flowserve.NoSandbox // no command is going to run
	l, err := c.openLocal(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	c.Server = l.client // completion and hints ask it too
	return l.client, l.stop, nil
}

// withFlows calls do with the client that flows gives.
func (c *commands) withFlows(cmd *cobra.Command, o *flowFlags,
	do func(context.Context, *client.Client) error) (err error) {
	ctx, cancel := c.Patient(cmd)
	defer cancel()
	api, stop, err := c.flows(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return do(ctx, api)
}

func (c *commands) flowList(o *flowFlags) *cobra.Command {
	var f jobs.Filter
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List flows, newest first",
		Long:    "Lists flows, newest first: all that match every filter given. It is stagepost list --kind flow.",
		Example: "  stagepost flow list --state SUSPENDED\n  stagepost flow list --open",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.CheckPages(cmd, &f.Pages); err != nil {
				return err
			}
			f.Kinds = []string{string(client.FlowKind)}
			q, err := f.Query()
			if err != nil {
				return err
			}
			return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
				return c.List(ctx, api, q, f.Pages)
			})
		},
	}
	f.Bind(cmd)
	_ = cmd.Flags().MarkHidden("kind") // there is one kind; the error for a missing flag cannot occur
	c.Complete(cmd, "state", flowStates()...)
	c.Complete(cmd, "outcome", "ok", "failed")
	return cmd
}

// flowStates lists the states of flows.
func flowStates() []string {
	var states []string
	for _, s := range flow.Life.Stages() {
		states = append(states, string(s.State))
	}
	return states
}

func (c *commands) flowSuspend(o *flowFlags) *cobra.Command {
	return c.flowEvent(o, flow.Suspend, &cobra.Command{
		Use: "suspend ID...", Short: "Pause flows when their running tasks have ended",
		Long: `Asks flows to pause: no task is started, and those that run end and are stored. The flow is SUSPENDING until then and SUSPENDED afterwards; if these
were the last tasks, it has ended. stagepost flow resume goes on with it.`,
		Example:           "  stagepost flow suspend flw_01J9... --note 'the array is being replaced'",
		ValidArgsFunction: c.completeFlows("RUNNING"),
	})
}

func (c *commands) flowReset(o *flowFlags) *cobra.Command {
	return c.flowEvent(o, flow.Reset, &cobra.Command{
		Use: "reset ID...", Short: "Remove all results of flows, and begin anew",
		Long: `Resets flows and all their tasks to PENDING, in one commit: results, failures and the histories of retry controllers are removed. Nothing is reverted by this:
what tasks have done outside stays done. A worker begins the flow anew at once. It needs --confirm.

It is for flows that have ended or are SUSPENDED. A REVERTED flow can be run again in no other way.`,
		Example:           "  stagepost flow reset flw_01J9... --confirm --note 'with the new license file'",
		ValidArgsFunction: c.completeFlows("SUCCESS", "FAILURE", "REVERTED", "SUSPENDED"),
	})
}

func (c *commands) flowCancel(o *flowFlags) *cobra.Command {
	keep, now := false, false
	cmd := c.flowEvents(o, func(a *client.Act) lifecycle.Event {
		if a.Now = now; keep {
			return flow.Halt
		}
		return flow.Cancel
	}, &cobra.Command{
		Use: "cancel ID...", Short: "End flows, and roll back what they have done",
		Long: `Ends flows: nothing new is started, running tasks end, and what was done is reverted. A flow is REVERTED then, or in FAILURE if a revert fails. One in FAILURE is rolled
back as far as it remains. The request is stored: it survives a crash of the worker.

With --keep nothing is reverted: the flow ends in FAILURE, and stagepost flow resume goes on from there. In the API and in histories this is the event stop. With --now running
commands are interrupted; otherwise they end by themselves first. A second request replaces the first.`,
		Example: "  stagepost flow cancel flw_01J9... --note 'the wrong image'\n" +
			"  stagepost flow cancel flw_01J9... --keep --now",
		ValidArgsFunction: c.completeFlows("PENDING", "RUNNING", "SUSPENDING", "SUSPENDED", "RESUMING", "FAILURE"),
	})
	cmd.Flags().BoolVar(&keep, "keep", false, "revert nothing: what was done stays")
	cmd.Flags().BoolVar(&now, "now", false, "interrupt running commands")
	return cmd
}

func (c *commands) flowMark(o *flowFlags) *cobra.Command {
	var a jobs.Act
	cmd := &cobra.Command{
		Use:   "mark-reverted ID TASK",
		Short: "Record that a task was rolled back manually",
		Long: `Records that a person has manually rolled back what a task of a flow in FAILURE did, such as one whose revert fails each time. It needs a --note. The task is REVERTED
then; stagepost flow resume or flow cancel goes on with the tasks before it.`,
		Example: "  stagepost flow mark-reverted flw_01J9... release --note 'freed the address in the console'\n" +
			"  stagepost flow resume flw_01J9...",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.Note == "" {
				return cli.Usagef("--note must state how and why it was done")
			}
			return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
				id, err := c.JobOf(ctx, api, client.FlowKind, args[0])
				if err != nil {
					return err
				}
				j, err := api.MarkReverted(ctx, id, client.FlowMark{Task: args[1], Note: a.Note, As: a.As,
					Actor: cli.Whoami(a.Actor), Version: a.Version})
				if err != nil {
					return err
				}
				return c.PrintOutcome(&j)
			})
		},
		ValidArgsFunction: c.completeFlows("FAILURE"),
	}
	a.Bind(cmd)
	_ = cmd.Flags().MarkHidden("confirm") // nothing is lost by it
	c.Complete(cmd, "as", "operator", "owner")
	return cmd
}

func (c *commands) flowDelete(o *flowFlags) *cobra.Command {
	return c.flowEvent(o, flow.Delete, &cobra.Command{
		Use: "delete ID...", Short: "Delete flows that have ended; their history stays",
		Long: `Deletes flows that have ended. Their large values are removed; record and history stay as a tombstone until records.keep has passed. What the flows did outside stays: a flow in
FAILURE whose effects were not all reverted is deleted only with --confirm.`,
		Example:           "  stagepost flow delete flw_01J9... --note 'a test'",
		ValidArgsFunction: c.completeFlows("SUCCESS", "FAILURE", "REVERTED"),
	})
}

// flowEvent completes a command whose call is an event of flows.
func (c *commands) flowEvent(o *flowFlags, e lifecycle.Event, cmd *cobra.Command) *cobra.Command {
	return c.flowEvents(o, func(*client.Act) lifecycle.Event { return e }, cmd)
}

// flowEvents completes a command whose call is the event that its flags choose.
func (c *commands) flowEvents(o *flowFlags, choose func(*client.Act) lifecycle.Event,
	cmd *cobra.Command) *cobra.Command {
	var a jobs.Act
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
			body := a.Body()
			e := choose(&body)
			do := func(id job.ID) (client.Job, error) {
				j, err := c.flowOf(ctx, api, string(id))
				if err != nil {
					return j, err
				}
				return api.Do(ctx, j.ID, e, body)
			}
			return c.Each(args, do, c.Done(e), "OUTCOME", func(j *client.Job) string { return string(j.Outcome) })
		})
	}
	a.Bind(cmd)
	c.Complete(cmd, "as", "operator", "owner")
	return cmd
}

// flowOf returns the record of the flow that a person names and refuses other jobs: an event of the same name may have
// another meaning for them.
func (c *commands) flowOf(ctx context.Context, api *client.Client, name string) (client.Job, error) {
	id, err := c.JobOf(ctx, api, client.FlowKind, name)
	if err != nil {
		return client.Job{}, err
	}
	j, err := api.Job(ctx, id)
	if err == nil && j.Kind != client.FlowKind {
		err = job.Errorf(job.NotFound, "flow", id, "it is no flow but of kind %s", j.Kind)
	}
	return j, err
}

func (c *commands) flowResume(o *flowFlags) *cobra.Command {
	var a jobs.Act
	var watch bool
	var workers int
	cmd := &cobra.Command{
		Use:   "resume ID",
		Short: "Continue a flow that is suspended or failed",
		Long: `Continues a flow. A SUSPENDED flow runs its remaining tasks. A flow in FAILURE repeats what could not be done or reverted. A flow in SUCCESS runs tasks that
are new in it. A REVERTED flow must be reset. In the API and in histories this is the event run.

With --local it runs the flow in this process until it ends or is suspended, also one that a killed process left RUNNING.`,
		Example: "  stagepost flow resume flw_01J9... --note 'the array is back'\n" +
			"  stagepost flow resume flw_01J9... --local --data /tmp/stagepost-flow-17",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeFlows("SUSPENDED", "FAILURE", "SUCCESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.confine(c); err != nil {
				return cli.Usage(err)
			}
			if o.local {
				return c.resumeLocal(cmd, args[0], a.Body(), workers)
			}
			return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
				j, err := c.flowOf(ctx, api, args[0])
				if err == nil {
					j, err = api.Do(ctx, j.ID, flow.Run, a.Body())
				}
				if err != nil {
					return err
				}
				if !watch {
					return c.PrintOutcome(&j)
				}
				return c.followed(ctx, api, &j)
			})
		},
	}
	a.Bind(cmd)
	c.Complete(cmd, "as", "operator", "owner")
	f := cmd.Flags()
	f.BoolVar(&watch, "watch", false, "follow it until it has ended or is suspended")
	f.IntVar(&workers, "workers", 0, "with --local: tasks at once")
	c.bindSandbox(cmd, o)
	return cmd
}

// followed follows a flow from its last event to its end, prints its state, and returns the error for it.
func (c *commands) followed(ctx context.Context, api *client.Client, j *client.Job) error {
	id := j.ID
	v, err := c.followFlow(ctx, api, id, max(j.Seq-1, 0), nil)
	if errors.Is(err, errLeft) {
		return leftFlow{id}
	}
	if err != nil {
		return err
	}
	return c.endedFlow(&v)
}

// leftFlow is the error after Ctrl-C: the flow goes on, and the next command of a script does not run.
type leftFlow struct{ id job.ID }

func (l leftFlow) Error() string {
	return string(l.id) + " continues: stagepost flow show " + string(l.id) +
		" --watch follows it again, stagepost flow suspend " + string(l.id) +
		" --note WHY lets it pause"
}

func (c *commands) flowSignal(o *flowFlags) *cobra.Command {
	var actor, note string
	var early bool
	cmd := &cobra.Command{
		Use:   "signal ID NAME [VALUE | @FILE]",
		Short: "Send a signal to a flow",
		Long: `Sends a signal with a value to a flow. A task that waits for it continues; a task that waits later gets it at once. Signals of one name are a queue: each is taken by one
task, in the order in which they came. The value is JSON, or else text; @FILE is what a file holds, @- standard input. Without a value it is null.

A name that no task of the flow waits for is refused, and so is a value of another type than the task declares. With --early a name is accepted that no task waits for yet.

A flow that runs with --local can be reached by no other process: pause it with Ctrl-C, signal it with --local, and resume it.`,
		Example: "  stagepost flow signal flw_01J9... approved true\n" +
			"  stagepost flow signal flw_01J9... config @config.json",
		Args: cobra.RangeArgs(2, 3),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return c.completeFlows("RUNNING", "SUSPENDED", "PENDING")(cmd, args, word)
			case 1:
				return c.completeSignals(cmd, args[0], word)
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s := client.FlowSignal{Name: args[1], Actor: cli.Whoami(actor), Note: note, Early: early}
			if len(args) > 2 {
				v, err := readValue(args[2], c.In)
				if err != nil {
					return cli.Usage(err)
				}
				s.Value = v
			}
			return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
				id, err := c.JobOf(ctx, api, client.FlowKind, args[0])
				if err != nil {
					return err
				}
				j, err := api.SignalFlow(ctx, id, s)
				if err != nil {
					return err
				}
				return c.PrintOutcome(&j)
			})
		},
	}
	cmd.Flags().StringVar(&actor, "actor", "", "your name in the history; defaults to the login name")
	cmd.Flags().StringVarP(&note, "note", "m", "", "why; is entered in the audit log")
	cmd.Flags().BoolVar(&early, "early", false, "accept a name that no task of the flow waits for yet")
	return cmd
}

// completeFlows offers flows in some states, newest first.
func (c *commands) completeFlows(states ...lifecycle.State) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return c.CompleteJobs(cmd, toComplete, job.Query{Kinds: []job.Kind{client.FlowKind}, States: states,
			Limit: 200})
	}
}

// completeSignals offers the signals that a flow waits for now, and then those that its tasks declare.
func (c *commands) completeSignals(cmd *cobra.Command, name, toComplete string) ([]string, cobra.ShellCompDirective) {
	return c.Ask(cmd, toComplete, func(ctx context.Context, api *client.Client) ([]string, error) {
		id, err := c.JobOf(ctx, api, client.FlowKind, name)
		if err != nil {
			return nil, err
		}
		v, err := api.Flow(ctx, id, false)
		if v.Outline == nil {
			return v.Awaits, err
		}
		names := slices.Clone(v.Awaits)
		for _, name := range v.Outline.Declared() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names, err
	})
}

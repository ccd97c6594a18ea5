package flowcli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// flowOrder are the flags of flow run.
type flowOrder struct {
	client.FlowOrder
	inputs        []string
	args          string
	priority      int
	due, deadline string
	serial        bool
	detach        bool
}

func (c *commands) flowRun(o *flowFlags) *cobra.Command {
	var r flowOrder
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a flow, and follow it",
		Long: `Submits a flow to the server and follows it: on a terminal as a tree that is updated, in a pipe with a line for each change (what, when, name, state, message),
with -o json with a line of JSON for each entry of the history, each change of a task, and at the end for the whole flow. What changes more than once within two
tenths of a second is printed once. FILE may be - for standard input. With --factory the server makes the flow, and there is no FILE.

Values are given with --input: JSON, or else text; name=@file takes the content of a file. The file declares its inputs, and which of them are paths: relative ones are
below the current directory. Other texts are not changed, and commands run elsewhere.

Ctrl-C stops the following, not the flow. With --local the flow runs in this process, with its commands allowed, and everything about it is kept in --data, or
else in a new directory that is removed when the flow has ended well; then Ctrl-C suspends the flow, a second one ends the process at once, and stagepost flow resume
--local goes on either way. Commands then run as they would from your shell; with --sandbox they are confined, as on a server: without the network, and with no files but
those of the system, to be read, and the directory that they run in.

The exit code is 0 when the flow ended in SUCCESS, also when it was suspended, which standard error shows; 5 when it ended REVERTED or in FAILURE; 1 after Ctrl-C, so that
a script ends there; 6 if --timeout passed first.`,
		Example: `  stagepost flow run deploy.yaml --input host=web1 --input config=@config.json
  stagepost flow run deploy.yaml --detach
  stagepost flow run deploy.yaml --local --workers 4`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			order, err := r.order(cmd, args, c.In)
			if err != nil {
				return err
			}
			if err := o.confine(c); err != nil {
				return cli.Usage(err)
			}
			if o.local {
				return c.runLocal(cmd, order, r.detach)
			}
			return c.withFlows(cmd, o, func(ctx context.Context, api *client.Client) error {
				j, err := api.SubmitFlow(ctx, order)
				if err != nil {
					return err
				}
				if r.detach {
					return c.PrintOutcome(&j)
				}
				if err := c.begunFlow(&j); err != nil {
					return err
				}
				return c.followed(ctx, api, &j)
			})
		},
	}
	r.bind(cmd)
	c.bindSandbox(cmd, o)
	// the error for a missing flag cannot occur
	_ = cmd.RegisterFlagCompletionFunc("input", completeInputs)
	return cmd
}

// begunFlow prints the id of a flow that will be followed.
func (c *commands) begunFlow(j *client.Job) error {
	switch c.Out.Mode {
	case cli.ModeJSON:
		return c.Message(struct {
			Job *client.Job `json:"job"`
		}{j})
	case cli.ModePlain:
		return c.Out.Table(nil, [][]string{{"id", string(j.ID)}})
	}
	c.Out.Line("%s", j.ID)
	c.Page(j.Links["page"])
	return nil
}

func (r *flowOrder) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&r.inputs, "input", nil, "a value of the flow: name=value or name=@file; may be given again")
	f.BoolVar(&r.detach, "detach", false, "print the flow and do not follow it")
	f.BoolVar(&r.serial, "serial", false, "one task after another")
	f.IntVar(&r.Workers, "workers", 0, "tasks at once; defaults to flow.workers")
	f.BoolVar(&r.DeferReverts, "defer-reverts", false,
		"a retry controller with exhausted attempts has the flow above reverted, too")
	f.BoolVar(&r.NeverResolve, "never-resolve", false, "leave a failure as it is: nothing is reverted or tried again")
	f.BoolVar(&r.RevertErrors, "revert-errors", false,
		"errors of the flow itself, such as a missing value, revert it, too")
	f.StringVar(&r.Factory, "factory", "", "in place of FILE: what makes the flow at the server")
	f.StringVar(&r.args, "args", "", "of the factory, as JSON; @file takes what a file holds")
	f.StringVar(&r.Key, "key", "", "idempotency key: a second order with it gives the flow of the first")
	f.IntVar(&r.priority, "priority", job.DefaultPriority, "0 goes first, 99 last")
	f.StringVar(&r.Group, "group", "", "what holds and limits name it by")
	f.StringSliceVar(&r.Requires, "requires", nil,
		"labels that a server must have to work on it, with commas between: NAME or NAME=VALUE")
	f.StringVar(&r.Owner, "owner", "", "whose it is; defaults to the login name")
	f.StringVar(&r.due, "due", "", "not to be begun before this time, or for this long, such as 2h")
	f.StringVar(&r.deadline, "deadline", "",
		"to have ended by this time, or within this long, such as 2h; else it is rolled back")
	f.BoolVar(&r.KeepAtDeadline, "keep-at-deadline", false, "the deadline ends it without rolling it back")
	cli.Recorded(cmd, &r.Note, &r.Actor)
}

// order makes the order of the flags.
func (r *flowOrder) order(cmd *cobra.Command, args []string, in io.Reader) (client.FlowOrder, error) {
	o := r.FlowOrder
	switch {
	case len(args) == 0 && o.Factory == "":
		return o, cli.Usagef("it needs a FILE, or --factory")
	case len(args) > 0 && o.Factory != "":
		return o, cli.Usagef("either a FILE or --factory")
	case r.serial && cmd.Flags().Changed("workers"):
		return o, cli.Usagef("either --serial or --workers")
	case r.Workers < 0:
		return o, cli.Usagef("--workers must not be negative")
	}
	if len(args) > 0 {
		text, err := readFlowFile(args[0], in)
		if err != nil {
			return o, err
		}
		if err := mistaken(args[0], text); err != nil {
			return o, err
		}
		o.File = string(text)
	}
	if r.serial {
		o.Workers = 1
	}
	if cmd.Flags().Changed("priority") {
		o.Priority = &r.priority
	}
	o.Actor = cli.Whoami(r.Actor)
	if o.Owner == "" {
		o.Owner = o.Actor
	}
	var err error
	if r.args != "" {
		if o.Args, err = readValue(r.args, in); err != nil {
			return o, cli.Usagef("--args: %w", err)
		}
	}
	for _, t := range []struct {
		name, text string
		to         *time.Time
	}{{"due", r.due, &o.Due}, {"deadline", r.deadline, &o.Deadline}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = cli.Future(t.text); err != nil {
			return o, cli.Usagef("--%s: %w", t.name, err)
		}
	}
	if o.Inputs, err = readInputs(r.inputs, in); err != nil || o.File == "" {
		return o, err
	}
	return o, absolutePaths([]byte(o.File), o.Inputs)
}

// readFlowFile reads a flow file; - is standard input.
func readFlowFile(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, cli.Usage(err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, largestInput+1))
	if err == nil && len(text) > largestInput {
		err = errors.New(name + " is too large for a flow file")
	}
	if err != nil {
		return nil, cli.Usage(err)
	}
	return text, nil
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// cli is one call of the program.
type cli struct {
	in       io.Reader
	out      *printer
	err      *printer
	settings *settings
	host     *hostSettings // those of a server, with settings in them
	wait     time.Duration // --timeout
	server   *client.Client
	called   *cobra.Command // set when the command has ended
	local    string         // " --local --data DIR" if flows are worked on in this process

	lives   []*lifecycle.Table
	makers  []func(*cli) Part
	parts   []Part
	addLogs func() // called when all parts are there
}

// newCLI makes a call with the default settings.
func newCLI(in io.Reader, out, errs *printer) *cli {
	s := newSettings()
	return &cli{in: in, out: out, err: errs, settings: s.settings, host: s, lives: lives(), makers: commandLine()}
}

// run does one call and gives its exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	c := newCLI(in, newPrinter(out), newPrinter(errs))
	return c.call(args)
}

// call does the call.
func (c *cli) call(args []string) int {
	root := c.root()
	root.SetArgs(args)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var err error
	c.called, err = root.ExecuteContextC(ctx)
	if c.server != nil {
		c.server.Close()
	}
	n := c.exit(err)
	if err := errors.Join(c.out.flush(), c.err.flush()); err != nil && n == exitOK {
		n = exitOther
	}
	return n
}

// root makes the tree of commands.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "stagepost",
		Short: "Runs jobs through their lifecycles, and tells why they stand where they stand",
		Long: `Stagepost keeps jobs in a durable store and moves them through lifecycles that are tables.

  stagepost serve --data DIR        starts a server on this machine
  stagepost list                    shows the jobs of that server
  stagepost why ID                  tells what a job waits for and what would move it

Tables are for terminals; in a pipe the same commands print one line per item with tabs between the fields, and -o json prints what the API gives.

Exit codes: 0 done; 1 anything else; 2 wrong usage; 3 not found; 4 refused, or changed meanwhile; 5 the job failed; 6 timeout.`,
		Version:       build.Version(),
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.settings.load(cmd.Flags(), os.LookupEnv); err != nil {
				return usage(err)
			}
			if cmd.LocalNonPersistentFlags().Lookup("output") != nil { // the command has output forms of its own
				return c.out.use("")
			}
			return c.out.use(c.settings.Output)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args: cobra.NoArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.SetHelpFunc(c.help)
	root.SetVersionTemplate("stagepost {{.Version}}\n")
	flags := root.PersistentFlags()
	c.settings.bind(flags, shared)
	flags.StringVar(&c.settings.Named, "config", "", "the configuration file; defaults to stagepost.yaml here or in the data directory")
	durationFlag(flags, &c.wait, "timeout", 0, "unlimited", "give up after this time, with exit code 6; unlimited: never")
	c.complete(root, "output", "table", "plain", "json")
	root.AddGroup(&cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "act", Title: "Act:"}, &cobra.Group{ID: "run", Title: "Run:"})
	root.SetHelpCommandGroupID("run")
	root.SetCompletionCommandGroupID("run")
	c.parts = nil
	for _, part := range c.makers {
		p := part(c)
		c.parts = append(c.parts, p)
		for group, commands := range map[string][]*cobra.Command{"look": p.Look, "act": p.Act, "run": p.Run, "": p.Hidden} {
			for _, cmd := range commands {
				cmd.GroupID = group
				root.AddCommand(cmd)
			}
		}
	}
	if c.addLogs != nil {
		c.addLogs()
	}
	c.completeParts(root)
	wrapArgs(root)
	return root
}

// help prints the help of a command, broken for a terminal.
func (c *cli) help(cmd *cobra.Command, _ []string) {
	text := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n\n" + cmd.UsageString()
	if c.out.terminal {
		text = wrapHelp(text, c.out.width)
	}
	fmt.Fprint(c.out, text)
}

// wrapArgs makes wrong numbers of arguments and unknown commands usage errors, everywhere.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			cmd.SuggestionsMinimumDistance = 2
			switch {
			case err == nil:
				return nil
			case !cmd.HasSubCommands():
				return usagef("it takes other arguments: %s", cmd.UseLine())
			case len(cmd.SuggestionsFor(args[0])) > 0:
				return usagef("%w; did you mean %s?", err, strings.Join(cmd.SuggestionsFor(args[0]), " or "))
			}
			return usage(err)
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// api gives the client of the server that the settings name or the data directory knows.
func (c *cli) api() (*client.Client, error) {
	if c.server != nil {
		return c.server, nil
	}
	base, err := c.settings.findServer()
	if err != nil {
		return nil, err
	}
	secret, err := c.settings.secret(os.LookupEnv)
	if err != nil {
		return nil, usage(err)
	}
	c.server, err = client.New(base, client.Options{Agent: "stagepost/" + build.Version(), Token: secret, Retrying: c.retrying})
	return c.server, err
}

// retrying says on standard error that the server does not answer at the moment.
func (c *cli) retrying(err error) {
	text := "connection lost, retrying"
	if client.ProblemOf(err) != nil {
		text = "the server is busy, retrying"
	}
	if c.out.mode == modeJSON {
		c.writeOwn(ownProblem{Kind: job.Unavailable, Detail: text + ": " + err.Error()})
		return
	}
	if c.err.terminal {
		_ = c.err.own("\r\x1b[K") // a progress line may stand there
	}
	c.err.line("stagepost: %s: %v", text, err)
}

// patient gives a context that ends with --timeout.
func (c *cli) patient(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	if c.wait <= 0 {
		return context.WithCancel(cmd.Context())
	}
	return context.WithTimeoutCause(cmd.Context(), c.wait, errTimeout)
}

package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/client/credential"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Call is one call of the program.
type Call struct {
	In       io.Reader
	Out      *Printer
	Err      *Printer
	Settings *Common
	wait     time.Duration // --timeout
	Server   *client.Client
	Called   *cobra.Command // set when the command has ended
	Local    string         // " --local --data DIR" if flows are worked on in this process

	Lives  []*lifecycle.Table
	makers []func(*Call) Part
	Parts  []Part

	credential *credential.Credential // read once
}

// New makes a call with settings, the lifecycles of the program, and the parts of the command line.
func New(in io.Reader, out, errs *Printer, s *Common, lives []*lifecycle.Table, makers ...func(*Call) Part) *Call {
	return &Call{In: in, Out: out, Err: errs, Settings: s, Lives: lives, makers: makers}
}

// Run does the call.
func (c *Call) Run(args []string) int {
	root := c.Root()
	checkHelp(root)
	root.SetArgs(args)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var err error
	c.Called, err = root.ExecuteContextC(ctx)
	if c.Server != nil {
		c.Server.Close()
	}
	n := c.Printed(err)
	if err := c.Err.Flush(); err != nil && n == ExitOK {
		n = exitOther
	}
	return n
}

// Root makes the tree of commands.
func (c *Call) Root() *cobra.Command {
	root := c.program()
	root.SetIn(c.In)
	root.SetOut(c.Out) // before the command completion is added, which takes it
	root.SetErr(c.Err)
	c.addParts(root)
	linkShort(root)
	root.InitDefaultCompletionCmd()
	completion(root)
	for _, p := range c.Parts {
		if p.Ready != nil {
			p.Ready()
		}
	}
	c.completeParts(root)
	wrapArgs(root)
	return root
}

// program makes the command that all others are below, with the flags that every command takes.
func (c *Call) program() *cobra.Command {
	root := &cobra.Command{
		Use:   "stagepost",
		Short: "Stagepost runs jobs through their lifecycles and explains what they wait for.",
		Long: `Stagepost keeps jobs in a durable store and moves them through lifecycles that are tables.

  stagepost serve --data DIR        starts a server on this machine
  stagepost list                    shows the jobs of that server
  stagepost why ID                  shows what a job waits for and what would move it

Tables are for terminals; in a pipe the same commands print one line per item with tabs between the fields, and -o json prints what the API gives.

A job may be named by its id, by the beginning of the id or at least four characters of its end (among the newest 10,000 jobs), by KIND/NUMBER, by the
number alone, or by a name of an application, such as an ARK. A name of several jobs is refused.

Exit codes: 0 done; 1 anything else; 2 wrong usage; 3 not found; 4 refused, or changed meanwhile; 5 the job failed; 6 timeout.`,
		Version:       build.Version(),
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Settings.Load(cmd.Flags(), os.LookupEnv); err != nil {
				return Usage(err)
			}
			if cmd.LocalNonPersistentFlags().Lookup("output") != nil { // the command has output forms of its own
				return c.Out.Use("")
			}
			return c.Out.Use(c.Settings.Output)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args: cobra.NoArgs,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(c.help)
	root.SetUsageTemplate(usageTemplate)
	root.SetVersionTemplate("stagepost {{.Version}}\n")
	flags := root.PersistentFlags()
	c.Settings.Bind(flags, config.Shared)
	flags.StringVar(&c.Settings.Named, "config", "",
		"the configuration file; defaults to stagepost.yaml here or in the data directory")
	DurationFlag(flags, &c.wait, "timeout", 0, "unlimited",
		"stop waiting after this time, with exit code 6; unlimited: never")
	c.Complete(root, "output", "table", "plain", "json")
	return root
}

// addParts makes the parts anew and adds their commands.
func (c *Call) addParts(root *cobra.Command) {
	c.Parts = nil
	for _, part := range c.makers {
		p := part(c)
		c.Parts = append(c.Parts, p)
		addGroups(root, p.Groups)
		for section, commands := range map[string][]*cobra.Command{daily: p.Daily, more: p.More, server: p.Server,
			"": p.Hidden} {
			for _, cmd := range commands {
				mark(cmd, sectionKey, section)
				root.AddCommand(cmd)
			}
		}
	}
}

// API returns the client of the server that the settings or the data directory name.
func (c *Call) API() (*client.Client, error) {
	if c.Server != nil {
		return c.Server, nil
	}
	base, err := c.Settings.findServer()
	if err != nil {
		return nil, err
	}
	secret, err := c.Settings.secret(os.LookupEnv)
	if err != nil {
		return nil, Usage(err)
	}
	transport, err := c.transport()
	if err != nil {
		return nil, Usage(err)
	}
	c.Server, err = client.New(base, client.Options{Agent: "stagepost/" + build.Version(), Token: secret,
		HTTP: transport, Retrying: c.retrying})
	return c.Server, err
}

// retrying prints on standard error that the server does not answer at the moment.
func (c *Call) retrying(err error) {
	text := "connection lost, retrying"
	if client.ProblemOf(err) != nil {
		text = "the server cannot do it now, retrying"
	}
	if c.Out.Mode == ModeJSON {
		c.WriteOwn(OwnProblem{Kind: job.Unavailable, Detail: text + ": " + err.Error()})
		return
	}
	if c.Err.Terminal {
		_ = c.Err.Own("\r\x1b[K") // a progress line may stand there
	}
	c.Err.Line("stagepost: %s: %v", text, err)
}

// Patient gives a context that ends with --timeout.
func (c *Call) Patient(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	if c.wait <= 0 {
		return context.WithCancel(cmd.Context())
	}
	return context.WithTimeoutCause(cmd.Context(), c.wait, ErrTimeout)
}

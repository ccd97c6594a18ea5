package agentcli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute/agent"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// agentSettings are the flags of stagepost compute agent, completed by the environment variables of the module.
type agentSettings struct {
	module                       serviceconfig.Module
	data, listen, server, name   string
	store                        string // directory of the database
	tokenFile, services, sandbox string
	memory                       string
	slots                        int
	labels                       []string
	cores                        float64
	grace, keep, records         time.Duration
	anyone                       bool
	env                          serviceconfig.Environment
}

func (c *commands) agent() *cobra.Command {
	a := &agentSettings{module: c.settings.Module}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run users' jobs on this machine, for a server",
		Long: `Starts an agent: it takes payloads from servers, runs each one's run.sh confined, and keeps the results until the server has them.

With --server it dials the server and is reached through that connection; with --listen it waits for servers on an address: those of Stagepost under /v1/, and those
of job-orchestrator, which it answers as the original client does. Both may be given.

It prints one line with its address and its data directory when it is ready. On SIGINT or SIGTERM it takes nothing new, gives payloads that run the time of --grace, then
ends them: they fail with the cause agent-stopped and keep their output. Those that wait are run after the next start. A second signal ends it at once; then, as after
kill -9, payloads that ran end with it, are never run again, and fail with the cause agent-died.

The environment variables PORT, DB_PATH, DATA_PATH, MAX_AGE, SANDBOX, SCRIPT_POLICY, COMPAT and SERVICE_<NAME>_BIND_RO of job-orchestrator are used where no flag is given.`,
		Example: "  stagepost compute agent --server https://jobs.example.org --data /srv/agent --token-file " +
			"/etc/stagepost/agent.token\n" +
			"  stagepost compute agent --server https://jobs.example.org --certificate /srv/agent/identity\n" +
			"  stagepost compute agent --listen 127.0.0.1:9000 --data /srv/agent --services " +
			"/etc/stagepost/services.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.complete(c.Settings, cmd.Flags().Changed); err != nil {
				return err
			}
			return c.runAgent(cmd, a)
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.listen, "listen", "",
		"the address to listen on; port 0 takes a free one; defaults to none with --server, else to PORT if that is "+
			"set: of all addresses with --agent-token-file or --anyone, otherwise of 127.0.0.1")
	f.StringVar(&a.name, "name", "", "the name of this agent; defaults to that of the machine")
	f.IntVar(&a.slots, "slots", 0, "payloads that run at once; defaults to the number of processors")
	f.StringSliceVar(&a.labels, "labels", nil,
		"what this machine has, for services and jobs that require it: NAME or NAME=VALUE, several with commas")
	f.Float64Var(&a.cores, "cores", 0,
		"processors that payloads together may ask for; defaults to all, negative: any number")
	f.StringVar(&a.memory, "memory", "", "memory that payloads together may ask for; defaults to that of the machine")
	f.StringVar(&a.tokenFile, "agent-token-file", "",
		"file with the token that callers of --listen must bring; defaults to none")
	f.StringVar(&a.services, "services", "",
		"file of services (YAML), the same as the server's; defaults to none: any service")
	f.StringVar(&a.sandbox, "sandbox", "",
		"how payloads are confined: auto, native, bwrap, none, or require: whatever works but none; defaults to "+
			"require")
	cli.DurationFlag(f, &a.grace, "grace", 30*time.Second, "off",
		"that running payloads get when the agent stops; off: they are ended at once")
	cli.DurationFlag(f, &a.keep, "keep", 48*time.Hour, "unlimited",
		"how long results are kept after a payload's end if no server confirms that it has them; unlimited: until "+
			"one does")
	cli.DurationFlag(f, &a.records, "records", 30*24*time.Hour, "unlimited",
		"how long it is remembered that a payload was here; unlimited: as long as the agent's data is")
	f.BoolVar(&a.anyone, "anyone", false,
		"listen beyond loopback without a token: every caller that reaches the address can run commands on this "+
			"machine")
	c.Complete(cmd, "sandbox", "auto", "native", "bwrap", "none", "require")
	c.CertificateFlag(cmd)
	cmd.AddCommand(c.agentDoctor(), c.agentDrain(), c.agentResume())
	return cmd
}

// complete takes what no flag sets from the environment, and checks it.
func (a *agentSettings) complete(s *cli.Common, flag func(string) bool) error {
	env, err := a.module.Environment(os.Environ(), serviceconfig.ForAgent)
	if err != nil {
		return cli.Usage(err)
	}
	a.data, a.server, a.env = s.Data, s.Server, env
	if !flag("data") && env.Data != "" {
		a.data = env.Data
	}
	a.store = cmp.Or(env.Store, a.data)
	if !flag("keep") && env.Keep > 0 {
		a.keep = env.Keep
	}
	if !flag("sandbox") {
		a.sandbox = cmp.Or(env.Sandbox, sandbox.Require)
	}
	if a.listen == "" && a.server == "" && env.Port != "" {
		host := "127.0.0.1" // every caller that reaches it can run commands: other addresses are opened on purpose only
		if a.anyone || a.tokenFile != "" {
			host = ""
		}
		a.listen = host + ":" + env.Port
	}
	if a.name == "" {
		host, _ := os.Hostname()
		a.name = strings.ToLower(cmp.Or(host, "agent"))
	}
	if a.listen == "" && a.server == "" {
		return cli.Usagef("an agent is reached by --listen ADDRESS or through --server URL: give one of them")
	}
	return a.checkListen()
}

// checkListen refuses to let strangers run commands by mistake.
func (a *agentSettings) checkListen() error {
	if a.listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(a.listen)
	if err != nil {
		return cli.Usagef("--listen %q: it must be HOST:PORT", a.listen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && a.tokenFile == "" &&
		!a.anyone {
		return cli.Usagef("--listen %q is not a loopback address: every caller that reaches it could run commands "+
			"here; give --agent-token-file FILE, or --anyone if that is meant", a.listen)
	}
	return nil
}

// token reads the token of callers, or gives none.
func (a *agentSettings) token() (string, error) { return readAgentToken(a.tokenFile) }

// confined is the part of a sandbox that defines what its commands may read.
type confined interface {
	ShowsAll() bool
	Hide() error
}

// keepToken keeps the agent's tokens from its jobs. Jobs that run as the agent's user, unconfined, could read every
// file of it, so that such an agent has its token from the environment, which is closed to them,
// or none; it has no certificate.
func (a *agentSettings) keepToken(box confined, server, certificate string) error {
	if !box.ShowsAll() {
		return nil
	}
	if os.Getenv(cli.TokenVariable) != "" {
		server = ""
	}
	for _, name := range []string{a.tokenFile, server, certificate} {
		if name != "" {
			return cli.Usagef("jobs without confinement could read the secrets in %s: use --sandbox require, run the "+
				"agent as root (its jobs then have user ids of their own), or give the token of --server as %s",
				name, cli.TokenVariable)
		}
	}
	return box.Hide()
}

// readAgentToken reads a token file: the first line, at least 16 characters, readable by its owner alone.
func readAgentToken(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	text, err := secretfile.Read(name)
	if err != nil {
		return "", cli.Usage(err)
	}
	line, _, _ := strings.Cut(text, "\n")
	if line = strings.TrimSpace(line); len(line) < 16 {
		return "", cli.Usagef("%s: a token has 16 characters or more", name)
	}
	return line, nil
}

// options makes the agent's options.
func (a *agentSettings) options(log *slog.Logger) (agent.Options, error) {
	o := agent.Options{Dir: a.data, Name: a.name, Slots: a.slots, Cores: a.cores, Keep: cmp.Or(a.keep, job.Unlimited),
		Log: log, Labels: a.labels,
		Check: a.env.Check, Setting: a.env.Setting}
	var mistakes []error
	for _, l := range a.labels {
		if _, err := job.Required(l); err != nil {
			mistakes = append(mistakes, fmt.Errorf("--labels: %s", job.Reason(err)))
		}
	}
	if a.memory != "" {
		n, err := quantity.ParseBytes(a.memory)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("--memory: %w", err))
		}
		o.Memory = n
	}
	if a.services != "" {
		s, err := a.module.Read(a.services)
		if err != nil {
			mistakes = append(mistakes, err)
		} else {
			o.Services = s.Agent()
			mistakes = append(mistakes, a.exposed(o.Services), computeserve.FileBinds(s, a.services, a.name))
		}
	}
	mistakes = append(mistakes, a.show(&o), computeserve.ShownBinds(a.env.Shown, true))
	if err := errors.Join(mistakes...); err != nil {
		return o, cli.Usage(err)
	}
	return o, nil
}

// show adds the directories that the environment shows. Without a file of services all others are served as well.
func (a *agentSettings) show(o *agent.Options) error {
	var wrong []error
	for _, one := range a.env.Shown {
		s, known := o.Services[one.Service]
		switch {
		case a.services != "" && !known:
			wrong = append(wrong, fmt.Errorf("%s: %s names no service %s", one.From, a.services, one.Service))
			continue
		case o.Services == nil:
			o.Services, o.Others = map[string]agent.Service{}, true
		}
		for _, dir := range one.Dirs {
			s.Binds = append(s.Binds, sandbox.Bind{From: dir})
		}
		o.Services[one.Service] = s
	}
	return errors.Join(wrong...)
}

// exposed refuses an address that scripts on the machine's network could use to order the agent about.
func (a *agentSettings) exposed(services map[string]agent.Service) error {
	if a.listen == "" || a.tokenFile != "" || a.anyone {
		return nil
	}
	for name, s := range services {
		if s.Network == "host" {
			return fmt.Errorf("the service %s has network: host: its scripts could order this agent about; give it "+
				"--agent-token-file, or --server in place of --listen", name)
		}
	}
	return nil
}

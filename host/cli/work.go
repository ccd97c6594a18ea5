package hostcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/internal/systemd"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/worker"
)

// workFlags are the flags of stagepost work.
type workFlags struct {
	kinds, labels       []string
	name, temp, sandbox string
	concurrency         int
	lease, grace, drain time.Duration
}

// work is the command of a worker on another machine than the server.
func (c *commands) work() *cobra.Command {
	s := &workFlags{}
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Work on jobs of a server on this machine",
		Long: `Claims jobs of a server, does their work on this machine, and reports. Any number of workers may serve one server. When
one crashes, another one continues its jobs when their leases expire.

Work that can be done elsewhere:
` + c.remoteDocs() + `
Jobs of all other kinds are worked on by servers alone: their steps use databases, locks and signals of the server's
process.

With a certificate (stagepost work enrol, --certificate DIR) the worker has the name and the kinds of that, and renews it by itself.
With tokens on the server, the worker has one of the role worker that names its kinds; it takes that token's owner as
its name. On SIGINT or SIGTERM it claims nothing new; jobs that have not ended within --grace return to their queue. A
second signal ends it at once. stagepost workers shows it, stagepost workers drain stops it from taking jobs.`,
		Example: "  stagepost admin token new --owner lab-1 --role worker --work lab.check \\\n" +
			"      /srv/stagepost/tokens > lab-1.token\n" +
			"  stagepost work --server https://jobs.example.org --token-file lab-1.token \\\n" +
			"      --kinds lab.check --concurrency 8\n" +
			"  stagepost work --kinds lab.render/Rendering --labels gpu,zone=b",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runWork(cmd, s) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&s.kinds, "kinds", nil, "what to work on: KIND or KIND/STATE, several with commas")
	f.IntVar(&s.concurrency, "concurrency", 4, "jobs at once")
	f.StringSliceVar(&s.labels, "labels", nil,
		"what this machine has, for states that require it: NAME or NAME=VALUE, several with commas")
	f.StringVar(&s.name, "name", "",
		"the name of this worker, where the server has no tokens; defaults to that of the machine")
	f.StringVar(&s.temp, "temp", "", "directory of working files; defaults to that of the system")
	f.StringVar(&s.sandbox, "sandbox", "require", "what confines commands: auto, native, bwrap, none or require")
	cli.DurationFlag(f, &s.lease, "lease", time.Minute, "",
		"after which other workers continue a job if this one crashed; 1s to 1h")
	cli.DurationFlag(f, &s.grace, "grace", 30*time.Second, "off",
		"that jobs get when the worker stops; off: they return to their queue at once")
	cli.DurationFlag(f, &s.drain, "drain-after", 0, "off",
		"after which the worker takes no more jobs, and ends when it has none; off: never")
	c.Complete(cmd, "sandbox", "auto", "native", "bwrap", "none", "require")
	c.CertificateFlag(cmd)
	cmd.AddCommand(c.enrol())
	return cmd
}

// remoteDocs lists the work of the modules that can be done elsewhere.
func (c *commands) remoteDocs() string {
	var text strings.Builder
	for _, m := range c.host.Modules {
		if m.Remote == nil {
			continue
		}
		names := "kinds of lifecycle files"
		if len(m.Remote.Kinds) > 0 {
			names = joined(m.Remote.Kinds)
		}
		fmt.Fprintf(&text, "  %s: %s\n", names, m.Remote.Doc)
	}
	return text.String()
}

func joined(kinds []job.Kind) string {
	var words []string
	for _, k := range kinds {
		words = append(words, string(k))
	}
	return strings.Join(words, ", ")
}

// runWork works until a signal comes or the server refuses the worker.
func (c *commands) runWork(cmd *cobra.Command, s *workFlags) (err error) {
	ctx, stop := cli.UntilSignal(cmd.Context())
	defer stop()
	from, err := parseFrom(s.kinds)
	if err != nil {
		return cli.Usage(err)
	}
	api, err := c.API()
	if err != nil {
		return err
	}
	defer api.Close()
	host, _ := os.Hostname() // the default is enough without
	s.name = cmp.Or(s.name, strings.ToLower(cmp.Or(host, "worker")))
	temp, remove, err := cli.TempDir(s.temp, "stagepost-work-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	log := slog.New(slog.NewTextHandler(c.Err, nil))
	if err := c.RenewCredential(ctx, log); err != nil {
		return err
	}
	r, err := c.openRemote(ctx, from, module.RemoteHost{API: api, Name: s.name, Temp: temp, Sandbox: s.sandbox,
		Log: log})
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return err
	}
	w, err := worker.New(api, r.works, r.wanted(from), worker.Options{
		Name: s.name, Slots: s.concurrency, Lease: s.lease, Grace: cmp.Or(s.grace, job.Off),
		DrainAfter: max(s.drain, 0),
		Labels:     s.labels, Host: host, Version: build.Version(), Refresh: r.refresh, Log: log,
	})
	if err != nil {
		return cli.Usage(err)
	}
	if err := c.announce(w, s.name, api); err != nil {
		return err
	}
	manager, err := systemd.Find()
	if err != nil {
		return cli.Usage(err)
	}
	if err := manager.Notify("READY=1"); err != nil {
		log.Warn("service manager", "error", err)
	}
	return w.Run(ctx)
}

// announce prints the line by which scripts know that the worker has begun.
func (c *commands) announce(w *worker.Worker, name string, api *client.Client) error {
	var states []string
	for _, p := range w.From() {
		states = append(states, string(p.Kind)+"/"+string(p.State))
	}
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(map[string]any{"name": name, "server": api.Base(), "from": states})
	}
	_, err := fmt.Fprintf(c.Out, "stagepost work %s: server %s, takes %s\n", name, api.Base(), strings.Join(states,
		", "))
	return err
}

// parseFrom reads KIND and KIND/STATE.
func parseFrom(words []string) ([]job.KindState, error) {
	var from []job.KindState
	for _, word := range words {
		kind, state, both := strings.Cut(word, "/")
		if kind == "" || both && state == "" {
			return nil, fmt.Errorf("--kinds: %q is not KIND or KIND/STATE", word)
		}
		from = append(from, job.KindState{Kind: job.Kind(kind), State: lifecycle.State(state)})
	}
	if len(from) == 0 {
		return nil, errors.New("name the work with --kinds KIND or KIND/STATE")
	}
	return from, nil
}

// remoteWorks are the works of the modules whose kinds a worker takes.
type remoteWorks struct {
	works []engine.Work
	by    map[job.Kind]module.RemoteWork
	all   []module.RemoteWork
}

// openRemote opens the work of the modules for kinds. The caller closes what is returned, after an error too.
func (c *commands) openRemote(ctx context.Context, from []job.KindState, h module.RemoteHost) (*remoteWorks, error) {
	r := &remoteWorks{by: map[job.Kind]module.RemoteWork{}}
	kinds := map[*module.Remote][]job.Kind{}
	for _, p := range from {
		m, err := c.remoteOf(p.Kind)
		if err != nil {
			return r, err
		}
		if !slices.Contains(kinds[m], p.Kind) {
			kinds[m] = append(kinds[m], p.Kind)
		}
	}
	for i := range c.host.Modules {
		m := c.host.Modules[i].Remote
		if m == nil || len(kinds[m]) == 0 {
			continue
		}
		own := h
		own.Kinds = kinds[m]
		opened, err := m.Open(ctx, &own)
		if err != nil {
			return r, err
		}
		r.all = append(r.all, opened)
		for _, w := range opened.Works() {
			r.works, r.by[job.Kind(w.Life.Name())] = append(r.works, w), opened
		}
	}
	return r, nil
}

// remoteOf returns the remote work that has a kind.
func (c *commands) remoteOf(k job.Kind) (*module.Remote, error) {
	var files *module.Remote
	for i := range c.host.Modules {
		m := &c.host.Modules[i]
		switch {
		case m.Remote != nil && slices.Contains(m.Remote.Kinds, k):
			return m.Remote, nil
		case slices.ContainsFunc(m.Lives, func(t *lifecycle.Table) bool { return t.Name() == string(k) }):
			return nil, cli.Usage(fmt.Errorf("jobs of %s are worked on by servers alone; elsewhere can be done:\n%s", k,
				strings.TrimRight(c.remoteDocs(), "\n")))
		case m.Remote != nil && len(m.Remote.Kinds) == 0:
			files = m.Remote
		}
	}
	if files == nil {
		return nil, cli.Usage(fmt.Errorf("this program has no work of the kind %s", k))
	}
	return files, nil
}

// wanted replaces kinds without a state by all their states with steps.
func (r *remoteWorks) wanted(from []job.KindState) []job.KindState {
	var all []job.KindState
	for _, p := range from {
		if p.State != "" {
			all = append(all, p)
			continue
		}
		for i := range r.works {
			if r.works[i].Life.Name() == string(p.Kind) {
				all = append(all, r.works[i].RemoteStates()...)
			}
		}
	}
	return all
}

func (r *remoteWorks) refresh(ctx context.Context, k job.Kind) (*engine.Work, error) {
	return r.by[k].Refresh(ctx, k)
}

func (r *remoteWorks) close() error {
	var errs []error
	for _, one := range r.all {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

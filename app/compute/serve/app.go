package computeserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/app/compute/slurm"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/metrics"
)

// App is what brings compute into a server: the application, the agent that the server has in itself, and the listener
// for users of the module.
type App struct {
	*compute.App
	config  *serviceconfig.Config
	agents  map[string]compute.Executor
	local   *agent.App // nil: none
	Sandbox *sandbox.Sandbox
	uploads *uploadStore
	h       *module.Host
	s       *Settings
	env     serviceconfig.Environment
	tunnels *tunnels // of agents that come by themselves
	engine  *engine.Engine
	tes     *tes.Adapter // nil: no tasks of GA4GH TES are taken
}

// ServiceConfig reads the services: from the file, and from the variables of the module. All mistakes in both are
// reported.
func ServiceConfig(s *Settings) (*serviceconfig.Config, serviceconfig.Environment, error) {
	return ReadServiceConfig(s, s.Module.Read)
}

func ReadServiceConfig(s *Settings, file func(name string) (*serviceconfig.Config, error)) (*serviceconfig.Config,
	serviceconfig.Environment, error) {
	all := &serviceconfig.Config{}
	var wrong error
	if s.Services != "" {
		if all, wrong = file(s.Services); wrong != nil {
			if unread := new(fs.PathError); errors.As(wrong, &unread) { // mistakes in the file have lines of their own
				wrong = fmt.Errorf("compute.services: %w", wrong)
			}
			all = &serviceconfig.Config{}
		}
	}
	reader := serviceconfig.ForServer
	if s.address("") != "" {
		reader = serviceconfig.ForListening
	}
	env, err := s.Module.Environment(os.Environ(), reader)
	if err == nil && len(env.Services) > 0 {
		err = all.Add(env.Services)
	}
	if wrong = errors.Join(wrong, err, serverBinds(s, all, &env)); wrong != nil {
		return nil, env, cli.Usage(wrong)
	}
	if len(all.Services) == 0 && (s.Local > 0 || len(all.Agents) > 0) {
		all.Services = []serviceconfig.Service{{Name: "default", RunsPerUser: new(max(5, s.Local)),
			MaxRuns: new(max(10, s.Local))}}
	}
	return all, env, nil
}

// Open makes the application, or gives nil if there is nothing to compute with.
func Open(h *module.Host, s *Settings) (*App, error) {
	all, env, err := ReadServiceConfig(s, s.Module.ReadServer)
	if err != nil {
		return nil, err
	}
	if len(all.Services) == 0 {
		if address := s.address(env.Port); address != "" {
			return nil, cli.Usagef("%s at %s: there is nothing to run jobs with; give --compute-local N, "+
				"--compute-services FILE or variables SERVICE_...", s.Module.Users.Title(), address)
		}
		return nil, nil
	}
	if err := aloneOnly(h, s, all); err != nil {
		return nil, err
	}
	meters := NewMeters(h.Metrics)
	o := compute.Options{
		Dir: h.Dir, Installation: h.Installation, Services: all.Compute(), AgentLabels: labelsOf(all),
		Retries: s.Retries, RetryFor: s.RetryFor, Lost: s.Lost, Keep: cmp.Or(s.Keep, job.Unlimited),
		UserBytes: s.UserBytes, NeedScript: env.NeedScript, Check: env.Check, Resend: env.Resend, Log: h.Log,
		Ended: meters.Ended, Moved: meters.Moved,
	}
	if env.Sandbox != "" && h.Config.IsDefault("compute.sandbox") {
		s.Sandbox = env.Sandbox
	}
	if env.Keep > 0 && h.Config.IsDefault("compute.keep") {
		o.Keep = env.Keep
	}
	if env.Retries > 0 && h.Config.IsDefault("compute.retries") {
		o.Retries = env.Retries
	}
	c := &App{config: all, agents: map[string]compute.Executor{}, h: h, s: s, env: env}
	for i := range o.Services {
		s := &o.Services[i]
		s.Unlimited = func() string { return c.unlimited(s.Name, s.Agents) }
	}
	if c.tes, err = openTES(h, s, o.Services); err != nil {
		return nil, err
	}
	if c.tes != nil {
		o.Source = c.tes
	}
	o.Space = h.Admit
	if c.App, err = compute.New(o); err != nil {
		return nil, err
	}
	if err := errors.Join(c.openLocal(h, s), c.openAgents(h, &env), c.openTunnels(h), c.openUploads()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// labelsOf gives the labels that agents have by the file of services.
func labelsOf(all *serviceconfig.Config) map[string][]string {
	labels := map[string][]string{}
	for _, a := range all.Agents {
		labels[a.Name] = a.Labels
	}
	return labels
}

// openLocal makes the agent that the server has in itself.
func (c *App) openLocal(h *module.Host, s *Settings) error {
	if s.Local == 0 {
		return nil
	}
	box, err := sandbox.Open(context.Background(),
		sandbox.Options{Tier: s.Sandbox, Name: "stagepost-" + serviceconfig.Local, Log: h.Log})
	if err != nil {
		return err
	}
	c.Sandbox = box
	if box.Tier() == sandbox.None {
		h.Log.Warn("jobs run without a sandbox", "remedy", "stagepost compute agent doctor")
	}
	if err := box.Hide(); err != nil {
		return err
	}
	if box.Tier() == sandbox.None && os.Geteuid() == 0 {
		// jobs have users of their own, who pass through to their directories
		if err := os.Chmod(h.Own, 0o711); err != nil {
			return err
		}
	}
	o := agent.Options{Dir: filepath.Join(h.Own, "agent"), Name: serviceconfig.Local, Slots: s.Local, Labels: h.Labels,
		Services: c.config.Agent(), Runner: box, Sandbox: box.Tier(), Keep: cmp.Or(s.Keep, job.Unlimited), Log: h.Log,
		Cores: max(float64(runtime.NumCPU()), float64(s.Local))}
	if err := durable.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	if c.local, err = agent.New(o); err != nil {
		return err
	}
	c.agents[serviceconfig.Local] = c.local.Local()
	return nil
}

// openAgents makes the executors that the service configuration names.
func (c *App) openAgents(h *module.Host, env *serviceconfig.Environment) error {
	for _, a := range c.config.Agents {
		var x compute.Executor
		var err error
		switch {
		case a.URL != "":
			x, err = remoteAgent(a.Name, a.URL, a.TokenFile)
		case a.Slurm != nil:
			x, err = slurm.New(slurm.Options{Name: a.Name, Dir: a.Slurm.Dir, Partition: a.Slurm.Partition,
				Account: a.Slurm.Account, QOS: a.Slurm.QOS, Bin: a.Slurm.Bin, Extra: a.Slurm.Extra,
				Services: a.Services, Poll: a.Slurm.Poll.Duration, Log: h.Log})
		case a.Legacy != "" || a.Added:
			x, err = env.Dial(&a, serviceconfig.Server{Record: c.record, Service: c.service})
		case a.Tunnel:
			c.Expect(a.Name) // it comes by itself
			continue
		}
		if err != nil {
			return cli.Usagef("agent %s: %v", a.Name, err)
		}
		c.agents[a.Name] = x
	}
	return nil
}

func remoteAgent(name, url, tokenFile string) (compute.Executor, error) {
	o := agent.DialOptions{Name: name, URL: url}
	if tokenFile != "" {
		text, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, err
		}
		o.Token = strings.TrimSpace(string(text))
	}
	return agent.Dial(o)
}

// record returns the server's record of a job.
func (c *App) record(ctx context.Context, id job.ID) (job.Job, error) {
	return c.engine.Store().Get(ctx, id)
}

// service gives a service by its name, or nothing of it.
func (c *App) service(name string) compute.Service {
	all := c.Services()
	if i := slices.IndexFunc(all, func(s compute.Service) bool { return s.Name == name }); i >= 0 {
		return all[i]
	}
	return compute.Service{}
}

// unlimited names the executors that serve a service if none of them has limits, as far as they answered: named are its
// agents, none: all.
func (c *App) unlimited(service string, named []string) (only string) {
	if c.s.Module.Limitless == nil {
		return ""
	}
	if slices.ContainsFunc(c.config.Agents, func(a serviceconfig.Agent) bool {
		// it may be away now: what it could run is not refused permanently
		return a.Tunnel && (len(named) == 0 || slices.Contains(named, a.Name)) &&
			(len(a.Services) == 0 || slices.Contains(a.Services, service))
	}) {
		return ""
	}
	for _, a := range c.Agents() {
		if len(named) > 0 && !slices.Contains(named, a.Name) ||
			len(a.Services) > 0 && !slices.Contains(a.Services, service) {
			continue
		}
		if only = c.s.Module.Limitless(a.Kind); only == "" {
			return ""
		}
	}
	return only
}

// Join puts an agent on the registry. With each parcel it learns which paths and which network the server's services
// count on.
func (c *App) Join(name string, x compute.Executor) {
	if t, ok := x.(telling); ok {
		if _, cluster := x.(*slurm.Slurm); !cluster {
			x = &asking{t, c.config.Services}
		}
	}
	c.App.Join(name, x)
}

// telling is an executor that reports when something changes: our agents, and addresses at which one may be.
type telling interface {
	compute.Executor
	compute.Notifier
}

// asking sends an agent what the service of a parcel counts on. What the agent's owner does not allow it refuses.
type asking struct {
	telling
	services []serviceconfig.Service
}

// Submit is part of compute.Executor.
func (x *asking) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	q := *p
	if i := slices.IndexFunc(x.services, func(s serviceconfig.Service) bool { return s.Name == p.Service }); i >= 0 {
		q.Binds = x.services[i].Binds
		if q.Network = x.services[i].Network; q.Network == "none" {
			q.Network = ""
		}
	}
	return x.telling.Submit(ctx, &q)
}

// Ticketless is part of compute.Ticketed.
func (x *asking) Ticketless() bool {
	t, ok := x.telling.(compute.Ticketed)
	return ok && t.Ticketless()
}

// Works are the kinds that the engine is to be made with.
func (c *App) Works() []engine.Work {
	works := c.announceTES(c.App.Works())
	if c.local != nil {
		works = append(works, c.local.Works()...)
	}
	return works
}

// Deliver gives the topics of the outbox that the application delivers.
func (c *App) Deliver() map[string]engine.Deliver {
	all := c.App.Deliver()
	if c.tes != nil {
		all[tes.Topic] = c.deliverTES
	}
	return all
}

// Bind joins everything to the engine, the agents last: they begin to take jobs.
func (c *App) Bind(e *engine.Engine) {
	c.engine = e
	if c.local != nil {
		c.local.Bind(e)
	}
	c.App.Bind(e)
	for name, x := range c.agents {
		c.Join(name, x)
	}
}

// Listen is part of module.Listener: the address of the module's users.
func (c *App) Listen(ctx context.Context, sv *server.Server) (*module.Endpoint, error) {
	address := c.s.address(c.env.Port)
	if address == "" {
		return nil, nil
	}
	l, err := c.h.Listen(ctx, "compute.listen", address)
	if err != nil {
		return nil, err
	}
	users := c.s.Module.Users
	handler := users.Handler(c.App, c.engine.Store(), serviceconfig.UsersOptions{
		Who: c.caller(), Strict: c.env.Strict, Hosts: c.h.Hosts, Log: c.h.Log, Refused: sv.Refused,
		IsDefault: c.h.Config.IsDefault,
	})
	return &module.Endpoint{Name: "compute", Title: users.Title(), Listener: l, Server: &http.Server{
		Handler: sv.UnderIdentities(handler), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}}, nil
}

// caller gives who sends a request of the module's users, or nil without authentication.
func (c *App) caller() func(*http.Request) (serviceconfig.Caller, error) {
	if c.h.Identities == nil {
		return nil
	}
	return func(q *http.Request) (serviceconfig.Caller, error) {
		who, err := c.h.Identities.Identify(q)
		if err == nil && (who.Role == identity.Worker || who.Role == identity.Auditor || who.Groups != "") {
			err = fmt.Errorf("this address is not for the role %s", identity.WriteScope(who.Role, who.Groups, ""))
		}
		return serviceconfig.Caller{Owner: who.Name, All: who.Role.Staff(), Files: who.Role == identity.Admin}, err
	}
}

// Close ends the application.
func (c *App) Close() error {
	var err error
	if c.uploads != nil {
		err = c.uploads.Close()
	}
	err = errors.Join(err, c.App.Close())
	if c.tunnels != nil {
		err = errors.Join(err, c.tunnels.Close())
	}
	if c.tes != nil {
		c.tes.Close()
	}
	if c.local != nil {
		err = errors.Join(err, c.local.Close())
	}
	if c.Sandbox != nil {
		err = errors.Join(err, c.Sandbox.Close())
	}
	return err
}

// Part gives the routes. A nil app refuses every request.
func Part(s *server.Server, app module.App) server.Part {
	c, ok := app.(*App)
	if !ok {
		return computehttp.Part(s, computehttp.Options{})
	}
	return computehttp.Part(s, computehttp.Options{Compute: c.App, ComputeUploads: c.uploads, ComputeTunnel: c.tunnels,
		TES: c.tes})
}

// Measure is part of module.Measurer.
func (c *App) Measure(from *metrics.Sources) {
	from.More = append(from.More, AgentGauges(c.h.Metrics, func() []compute.Agent { return c.Agents() }))
}

// Tier is the confinement of the jobs that the server runs itself.
func (c *App) Tier() string { return c.Sandbox.Tier() }

// CheckDir compares the records of jobs with the results in a data directory.
func CheckDir(ctx context.Context, d module.Directory) (module.Findings, error) {
	found, err := compute.Compare(ctx, d.Store, d.Dir)
	return module.Findings{Faults: found.Faults, More: found.More, About: "results of compute jobs"}, err
}

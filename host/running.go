package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/internal/pacer"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/authority"
	"github.com/stagepost/stagepost/server/grants"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/server/token"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/access"
)

// Server is a server in this process.
type Server struct {
	URL        string // where it answers
	MetricsURL string // where the metrics are, if they have an address of their own
	Data       string // absolute path of the data directory
	Shared     string // absolute path of the directory with the files of jobs
	Engine     *engine.Engine
	Open       int64 // jobs that had not ended when it started

	Log       *slog.Logger
	grace     time.Duration
	stalls    time.Duration // of the engine's sweep, beyond which the server is ailing
	metrics   *metrics.Metrics
	store     *stores.Store
	space     *space
	server    *server.Server
	http      *http.Server
	apps      []module.App          // in the order in which they were opened
	named     map[string]module.App // by the name of the module
	endpoints []*module.Endpoint

	addresses addresses // closed by the servers that accept from them
	dropped   bool      // the ballast is used for this start

	anchors    *history.Anchors     // nil: none are made
	signed     *history.Checkpoints // nil: none are signed
	backups    *schedule            // nil: the store keeps nothing
	tokens     *token.Tokens        // nil: none
	authority  *authority.Authority // nil: none
	signIn     *signin.SignIn       // nil: people do not sign in by a page
	grants     *grants.Files        // nil: no file gives access
	identities identity.Sources     // none: each client may do everything
	closers    []io.Closer          // closed in reverse order at the end
	stop       context.CancelFunc
	stopped    sync.WaitGroup // engine, HTTP server, the watch over the store
	failed     chan struct{}  // closed when it cannot continue
	failOnce   sync.Once
	failure    error // read it after failed is closed
}

// countOpen counts the jobs that have not ended, whose work this server continues.
func (r *Server) countOpen() (n int64, err error) {
	counts, err := r.store.Jobs.Count(context.Background())
	for _, t := range counts {
		if life := r.Engine.Life(t.Kind); life == nil || !life.Ended(t.State) {
			n += t.Jobs
		}
	}
	return n, err
}

// Start starts a server in this process: store, logs, applications, engine, API. It works until Stop is called; the end
// of ctx only ends the start. The caller calls Stop once.
func Start(ctx context.Context, s *Settings, log *slog.Logger) (*Server, error) {
	if err := listen.CheckNames(s.hosts(), config.List(s.Labels), s.PublicURL); err != nil {
		return nil, cli.Usage(err)
	}
	dir, err := filepath.Abs(s.Data)
	if err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, cli.Usagef("data: %w (--data DIR names a directory that this user can write)", err)
	}
	shared, err := s.sharedDir(dir)
	if err != nil {
		return nil, err
	}
	r := &Server{Data: dir, Shared: shared, Log: log, grace: s.Grace, stalls: stalledFor(s.Sweep),
		failed: make(chan struct{}), named: map[string]module.App{}}
	r.metrics = newMetrics(r, s)
	if err := r.assemble(ctx, s); err != nil {
		return nil, errors.Join(stores.StartError(dir, err), r.addresses.close(), r.close())
	}
	r.run()
	if err := r.openEndpoints(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	if err := r.leaveAddresses(s); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	r.reportSpace(ctx)
	return r, nil
}

// reportSpace keeps the ballast for the next start, and logs why storage accepts no writes.
func (r *Server) reportSpace(ctx context.Context) {
	if err := keepBallast(r.Data, r.dropped); err != nil && !job.IsFull(err) {
		r.Log.Warn("ballast", "error", err)
	}
	if err := r.space.Writable(ctx); err != nil {
		r.Log.Error("the server reads and does not write", "error", err)
	}
}

// assemble opens the parts and joins them. What is open when it fails is in closers.
func (r *Server) assemble(ctx context.Context, s *Settings) (err error) {
	if err := r.openIdentities(s); err != nil {
		return err
	}
	if err := r.open(ctx, s); err != nil {
		return err
	}
	r.space = &space{dir: r.Shared, reserve: s.reserve(), store: r.store}
	logs, err := joblog.Open(filepath.Join(r.Shared, "logs"),
		joblog.Options{MaxBytes: s.JobLogBytes, OpenFiles: s.JobLogFiles})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, logs)
	host := r.hostOf(s, logs)
	if host.Mail, err = s.mail(r.Shared, r.Log); err != nil {
		return err
	}
	for _, warning := range s.mailWarnings() {
		r.Log.Warn(warning)
	}
	for _, m := range s.Modules {
		if m.Open == nil {
			continue
		}
		a, err := m.Open(host)
		if err != nil {
			return err
		}
		if a != nil {
			r.apps, r.named[m.Name], r.closers = append(r.apps, a), a, append(r.closers, a)
		}
	}
	if r.Engine, err = engine.New(r.store.Jobs, r.works(), r.engineOptions(s, logs)); err != nil {
		return err
	}
	for _, a := range r.apps {
		a.Bind(r.Engine)
		if l, ok := a.(module.Loader); ok {
			if err := l.Load(context.Background()); err != nil {
				return cli.Usage(err)
			}
		}
	}
	if r.Open, err = r.countOpen(); err != nil { // with the lifecycles that the applications have loaded
		return err
	}
	return r.openServer(s, &server.Options{Engine: r.Engine, Logs: logs, Topics: r.topics()})
}

// hostOf makes what the applications get.
func (r *Server) hostOf(s *Settings, logs *joblog.Logs) *module.Host {
	pace := &pacer.Pacer{Rate: s.FixityRate}
	h := &module.Host{
		Dir: r.Shared, Own: r.Data, Postgres: r.store.Postgres, Nodes: r.store.Nodes, Config: s.Set,
		Store: r.store.Jobs, Installation: r.store.Installation, Log: r.Log, Logs: logs,
		Metrics: r.metrics, Hosts: s.hosts(), Labels: config.List(s.Labels),
		UploadBytes: s.UploadBytes, Admit: r.space.Admit, FixityPace: pace.Wait,
		Engine: func() *engine.Engine { return r.Engine },
		Listen: func(ctx context.Context, setting, address string) (net.Listener, error) {
			return openAddress(ctx, s, setting, address, r.Log)
		},
	}
	if len(r.identities) > 0 {
		h.Identities = r.source()
		h.Valid = func() []string {
			all := []string{""} // of people who signed in without a token
			if r.tokens != nil {
				for _, hash := range r.tokens.All() {
					all = append(all, hash.String())
				}
			}
			return all
		}
	}
	return h
}

// openServer makes the server. It adds to its options the settings and the maintenance of the data.
func (r *Server) openServer(s *Settings, o *server.Options) error {
	o.Lives, o.Storage, o.Alive, o.Version, o.Log = s.Lives(), r.space, r.serves, build.Version(), r.Log
	o.Answers = filepath.Join(r.Shared, answersDir)
	o.Presence, o.Entries = r.store.Presence, r.store.Histories
	o.Hosts, o.MaxUpload, o.Watchers = s.hosts(), s.UploadBytes, s.Watchers
	o.Metrics, o.MetricsElsewhere, o.ReasonsRequired = r.metrics, s.MetricsListen != "", s.ReasonsRequired()
	if err := r.identityOptions(s, o); err != nil {
		return err
	}
	if err := r.openMaintenance(s, o); err != nil {
		return err
	}
	o.Fixity = map[string]server.Fixity{}
	for name, a := range r.named {
		if f, ok := a.(module.FixityChecker); ok {
			o.Fixity[name] = f
		}
	}
	for _, a := range r.apps {
		if l, ok := a.(module.Locker); ok {
			o.Locks = l.Locker()
		}
	}
	o.Workers, o.Warn = r.workers, func() []string { return r.warnings(s) }
	r.server = server.New(*o)
	r.server.Add(server.Part{Health: r.describeStore})
	r.server.Add(web.Part(r.server))
	r.server.Add(access.Part(r.server))
	r.server.Add(signin.Part(r.server, r.signIn), authority.Part(r.server, r.authority))
	for _, m := range s.Modules {
		if m.Part != nil {
			r.server.Add(m.Part(r.server, r.named[m.Name]))
		}
	}
	r.bindMetrics()
	r.http = listen.HTTP(r.server, r.Log)
	return nil
}

// openMaintenance opens backups, anchors and checkpoints of a store that keeps its jobs.
func (r *Server) openMaintenance(s *Settings, o *server.Options) error {
	if !r.store.Durable() {
		return nil
	}
	d := &Maintenance{Store: r.store, Dir: r.Shared, Settings: s, Apps: r.named}
	if err := r.openBackups(s, d); err != nil {
		return err
	}
	o.Maintenance = d
	if s.CheckpointEvery > 0 {
		r.signed = s.Checkpoints(r.Shared, r.store, r.Log, func() bool { return r.Engine.Leads() })
	}
	return r.openAnchors(s)
}

// workers lists the workers of applications that do not claim over the API.
func (r *Server) workers() (all []api.WorkerInfo) {
	for _, a := range r.apps {
		if l, ok := a.(module.WorkerLister); ok {
			all = append(all, l.Workers()...)
		}
	}
	return all
}

// openEndpoints opens the addresses of applications.
func (r *Server) openEndpoints(ctx context.Context) error {
	for _, a := range r.apps {
		l, ok := a.(module.Listener)
		if !ok {
			continue
		}
		endpoint, err := l.Listen(ctx, r.server)
		if err != nil {
			return err
		}
		if endpoint == nil {
			continue
		}
		r.endpoints = append(r.endpoints, endpoint)
		r.stopped.Go(func() {
			if err := endpoint.Server.Serve(endpoint.Listener); !errors.Is(err, http.ErrServerClosed) {
				r.fail(err)
			}
		})
	}
	return nil
}

// Endpoints are the addresses of applications.
func (r *Server) Endpoints() []*module.Endpoint { return r.endpoints }

// Address gives the URL of the application's address with a name, or "".
func (r *Server) Address(name string) string {
	for _, endpoint := range r.endpoints {
		if endpoint.Name == name {
			return endpoint.URL()
		}
	}
	return ""
}

// App gives the application of a module, or nil if the settings leave it out.
func (r *Server) App(name string) module.App { return r.named[name] }

// open opens the store and the addresses.
func (r *Server) open(ctx context.Context, s *Settings) (err error) {
	o, err := s.storeOptions(r.Data, r.Shared)
	if err != nil {
		return err
	}
	o.OnCommit = r.metrics.Committed
	o.OnFailure = func(err error) { r.Log.Warn("the store tries an operation again", "error", err) }
	o.OnLock = func() (string, error) { err := r.listen(ctx, s); return r.URL, err }
	o.OnDamage = func(err error) {
		r.Log.Error("a record is damaged: no list shows it and no worker gets it", "err", err)
	}
	r.store, err = stores.Open(ctx, o)
	if err == nil && r.store.Closer != nil {
		r.closers = append(r.closers, r.store.Closer)
	}
	return err
}

func (r *Server) works() []engine.Work {
	var works []engine.Work
	for _, a := range r.apps {
		works = append(works, a.Works()...)
	}
	return works
}

func (r *Server) engineOptions(s *Settings, logs engine.JobLogs) engine.Options {
	deliver, receivers := map[string]engine.Deliver{}, map[string]engine.Receiver{}
	for _, a := range r.apps {
		maps.Copy(deliver, a.Deliver())
		if x, ok := a.(module.Receiving); ok {
			maps.Copy(receivers, x.Receivers())
		}
	}
	return engine.Options{
		Name: s.serverName(r.Data), Leads: r.store.Leads, Slots: s.Slots, Labels: config.List(s.Labels), Lease: s.Lease,
		Sweep: s.Sweep, Grace: s.Grace, Log: r.Log, Meter: r.metrics,
		JobLogs: logs, Deliver: deliver, Receivers: receivers,
		Attempts: s.Attempts, Retain: r.retention(s), Impaired: r.space.impaired,
	}
}

// run starts the long-lived parts.
func (r *Server) run() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.serveMetrics(ctx, r.addresses.metrics)
	if r.backups != nil {
		r.stopped.Go(func() { r.backups.run(ctx) })
	}
	if r.anchors != nil {
		r.stopped.Go(func() { r.anchors.Run(ctx) })
	}
	if r.signed != nil {
		r.stopped.Go(func() { r.signed.Run(ctx) })
	}
	r.stopped.Go(func() {
		if err := r.Engine.Run(ctx); err != nil && ctx.Err() == nil { // stopped before it had begun is stopped
			r.fail(fmt.Errorf("engine: %w", err))
		}
	})
	r.stopped.Go(func() {
		if err := r.http.Serve(r.addresses.main); !errors.Is(err, http.ErrServerClosed) {
			r.fail(fmt.Errorf("listen: %w", err))
		}
	})
	if r.tokens != nil {
		r.stopped.Go(func() { r.flushUses(ctx) })
	}
	if r.grants != nil {
		r.stopped.Go(func() { r.enterGrants(ctx) })
	}
	r.watch(ctx, r.store.Dead)
	for _, a := range r.apps {
		if f, ok := a.(module.Failing); ok {
			r.watch(ctx, f.Dead())
		}
	}
}

// watch ends the server when a part of it reports that it cannot continue.
func (r *Server) watch(ctx context.Context, dead <-chan error) {
	r.stopped.Go(func() {
		select {
		case err := <-dead:
			r.fail(fmt.Errorf("the data directory cannot be written to any more: %w", err))
		case <-ctx.Done():
		}
	})
}

// fail notes why the server cannot continue. Only the first reason counts.
func (r *Server) fail(err error) {
	r.failOnce.Do(func() {
		r.Log.Error("the server cannot continue", "error", err)
		r.failure = err
		close(r.failed)
	})
}

// Failed is closed when the server cannot continue; Stop then gives the reason.
func (r *Server) Failed() <-chan struct{} { return r.failed }

// alive is what /healthz asks.
func (r *Server) alive() error {
	select {
	case <-r.failed:
		return r.failure
	default:
		return nil
	}
}

// Stop ends the server: the engine takes no new jobs and running steps get their grace, the API answers what is under
// way, then applications and store are closed. It gives the reason if the server had failed.
func (r *Server) Stop() error {
	r.stop()
	r.server.Close()
	err := r.shutdown(r.grace)
	if err != nil { // what is still being uploaded is refused, with an answer
		r.server.CutUploads()
		err = r.shutdown(5 * time.Second)
	}
	if err != nil {
		err = r.http.Close()
		for _, endpoint := range r.endpoints {
			err = errors.Join(err, endpoint.Server.Close())
		}
	}
	r.stopped.Wait()
	r.lastCheckpoint()
	err = errors.Join(r.alive(), err, r.close())
	names := []string{"address"}
	for _, endpoint := range r.endpoints {
		names = append(names, endpoint.Name+"-address")
	}
	for _, name := range names {
		if gone := os.Remove(filepath.Join(r.Data, name)); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// shutdown waits so long for the answers under way. New connections are not taken from its beginning on.
func (r *Server) shutdown(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	err := r.http.Shutdown(ctx)
	for _, endpoint := range r.endpoints {
		err = errors.Join(err, endpoint.Server.Shutdown(ctx))
	}
	return err
}

// close closes what was opened, the last first.
func (r *Server) close() error {
	var errs []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		errs = append(errs, r.closers[i].Close())
	}
	r.closers = nil
	return errors.Join(errs...)
}

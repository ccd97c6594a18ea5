package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/bulk"
	"github.com/stagepost/stagepost/app/ingest/access"
	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/server/token"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// application is what brings kinds of jobs into a server.
type application interface {
	Works() []engine.Work
	Deliver() map[string]engine.Deliver
	Bind(e *engine.Engine)
	Close() error
}

// mortal is what cannot go on after a failure of its disk: the store, and the inventory of ingest.
type mortal interface {
	Dead() <-chan error // gives the error once
}

// Server is a server in this process.
type Server struct {
	URL        string // where it answers
	ComputeURL string // where users of job-orchestrator find it, if they do
	MetricsURL string // where the metrics are, if they have an address of their own
	Data       string // absolute path of the data directory
	Engine     *engine.Engine

	Log      *slog.Logger
	grace    time.Duration
	stalls   time.Duration // of the engine's sweep, beyond which the server is ailing
	metrics  *metrics.Metrics
	space    *space
	server   *server.Server
	http     *http.Server
	apps     []application
	Compute  *Compute  // nil: none
	backups  *schedule // nil: the store keeps nothing
	fixity   func(context.Context) (metrics.Fixity, error)
	tokens   *token.Tokens // nil: none
	closers  []io.Closer   // closed in reverse order at the end
	stop     context.CancelFunc
	stopped  sync.WaitGroup // engine, HTTP server, the watch over the store
	failed   chan struct{}  // closed when it cannot go on
	failOnce sync.Once
	failure  error // read it after failed is closed
}

// Start starts a server in this process: store, logs, applications, engine, API. It works until Stop is called; the end of ctx only
// ends the start. The caller calls Stop once.
func Start(ctx context.Context, s *Settings, log *slog.Logger) (*Server, error) {
	dir, err := filepath.Abs(s.Data)
	if err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dropped, err := dropBallast(dir)
	if dropped || err != nil {
		log.Warn("the disk is full: the ballast is removed for the start", "file", filepath.Join(dir, ballast), "error", err)
	}
	listener, err := listen(ctx, s, s.Listen, log)
	if err != nil {
		return nil, err
	}
	r := &Server{URL: URLOf(listener.Addr()), Data: dir, Log: log, grace: s.Grace, stalls: stalledFor(s.Sweep), failed: make(chan struct{})}
	r.metrics = newMetrics(r, s)
	aside, err := r.listenMetrics(ctx, s)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if err := r.assemble(s); err != nil {
		if aside != nil {
			err = errors.Join(err, aside.Close())
		}
		return nil, errors.Join(err, listener.Close(), r.close())
	}
	r.run(listener, aside)
	if err := r.listenCompute(ctx, s, r.Compute); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	if err := r.leaveAddresses(s); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	r.tellSpace(ctx, dropped)
	return r, nil
}

// leaveAddresses writes the files that name the server's addresses. A full disk is logged, not an error: the server works without.
func (r *Server) leaveAddresses(s *Settings) error {
	addresses := map[string]string{s.AddressFile(): r.URL}
	if r.ComputeURL != "" {
		addresses[filepath.Join(r.Data, computeAddress)] = r.ComputeURL
	}
	for name, url := range addresses {
		switch err := WriteAddress(name, url); {
		case job.IsFull(err):
			r.Log.Warn("the address cannot be written: commands need --server", "file", name, "url", url, "error", r.space.Full(err))
		case err != nil:
			return err
		}
	}
	return nil
}

// tellSpace keeps the ballast for the next start, and logs why storage accepts no writes.
func (r *Server) tellSpace(ctx context.Context, used bool) {
	if err := keepBallast(r.Data, used); err != nil && !job.IsFull(err) {
		r.Log.Warn("ballast", "error", err)
	}
	if err := r.space.Writable(ctx); err != nil {
		r.Log.Error("the server reads and does not write", "error", err)
	}
}

// listen opens an address for whoever has a token, or without tokens for this machine.
func listen(ctx context.Context, s *Settings, address string, log *slog.Logger) (net.Listener, error) {
	l, err := server.Listen(ctx, address, s.Connections, s.Tokens != "")
	if err != nil {
		return nil, cli.Usage(err)
	}
	if !server.Loopback(address) {
		log.Warn("tokens and data cross the network unencrypted to this address: put a proxy with TLS in front of it, or keep the network to yourself", "address", l.Addr().String())
	}
	return l, nil
}

// URLOf gives the URL under which this machine reaches an address that is listened on.
func URLOf(address net.Addr) string {
	if a, ok := address.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", a.Port)
	}
	return "http://" + address.String()
}

// assemble opens the parts and joins them. What is open when it fails is in closers.
func (r *Server) assemble(s *Settings) (err error) {
	if s.Tokens != "" {
		if r.tokens, err = token.Open(s.Tokens); err != nil {
			return cli.Usage(err)
		}
	}
	store, files, err := r.open(s)
	if err != nil {
		return err
	}
	r.space = &space{dir: r.Data, reserve: s.IngestReserve, store: files}
	logs, err := joblog.Open(filepath.Join(r.Data, "logs"), joblog.Options{MaxBytes: s.JobLogBytes, OpenFiles: s.JobLogFiles})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, logs)
	installation := "" // a store that keeps nothing has none: the inventory keeps one of its own
	if files != nil {
		installation = files.Installation()
	}
	ingest, err := r.openApps(s, store, installation, logs)
	if err != nil {
		return err
	}
	var packages *access.App
	if i, ok := ingest.(submissions); ok {
		if packages, err = r.openAccess(s, i.app); err != nil {
			return err
		}
	}
	flows, err := OpenFlows(s, r.Data, r.metrics.Flows(), r.Log)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, flows)
	jobs, err := r.openCompute(s)
	if err != nil {
		return err
	}
	if jobs != nil {
		r.closers, r.apps, r.Compute = append(r.closers, jobs), append(r.apps, jobs), jobs
	}
	lifecycles, err := r.openCustom(&s.customSettings)
	if err != nil {
		return err
	}
	bulks := bulk.New(bulk.Options{})
	r.apps = append(r.apps, bulks, flows, lifecycles)
	if r.Engine, err = engine.New(store, r.works(), r.engineOptions(s, logs)); err != nil {
		return err
	}
	for _, a := range r.apps {
		a.Bind(r.Engine)
	}
	if err := lifecycles.Load(context.Background()); err != nil {
		return cli.Usage(err)
	}
	routes := routes{bulk: bulks, flows: flows, custom: lifecycles, ingest: ingesthttp.Options{Ingest: ingest}}
	if i, ok := ingest.(submissions); ok {
		routes.ingest.Sight, routes.ingest.Profiles, routes.ingest.Hooks, routes.ingest.Access = i.app, i.app, i.app, packages
	}
	if err := r.serveCompute(s, &routes.compute); err != nil {
		return err
	}
	return r.openServer(s, &server.Options{Engine: r.Engine, Logs: logs}, routes, files)
}

// openServer makes the server. It adds to its options the settings, and who looks after the data.
func (r *Server) openServer(s *Settings, o *server.Options, routes routes, files *sqlite.Store) error {
	o.Lives, o.Storage, o.Alive, o.Version, o.Log = Lives(), r.space, r.healthy, build.Version(), r.Log
	o.Hosts, o.MaxUpload, o.Watchers = s.hosts(), s.UploadBytes, s.Watchers
	o.Metrics, o.MetricsElsewhere, o.ReasonsRequired = r.metrics, s.MetricsListen != "", s.ReasonsRequired()
	if r.tokens != nil {
		o.Tokens = r.tokens
	}
	i, stores := routes.ingest.Ingest.(submissions)
	if files != nil {
		k := &Keeper{Store: files, Lives: LifeOf, Dir: r.Data, Settings: s}
		if err := r.openBackups(s, k); err != nil {
			return err
		}
		if stores {
			k.Compare = i.app.Compare
		}
		o.Keeper, o.Warn = k, func() []string { return r.backups.warnings(time.Now()) }
	}
	if stores {
		o.Locks = lockList(i)
		others := o.Warn
		o.Warn = func() []string {
			all := i.fixityWarnings()
			if others != nil {
				all = append(all, others()...)
			}
			return all
		}
		r.fixity = i.fixityMetrics(s.FixityEvery)
	}
	r.server = server.New(*o)
	r.server.Add(routes.parts(r.server)...)
	r.bindMetrics(files)
	r.http = server.HTTP(r.server, r.Log)
	return nil
}

// open opens the store; files is nil for one that keeps nothing.
func (r *Server) open(s *Settings) (store job.Store, files *sqlite.Store, err error) {
	switch s.Store {
	case "mem":
		return mem.New(), nil, nil
	case "sqlite":
		files, err := sqlite.Open(r.Data, sqlite.Options{Address: r.URL, OnCommit: r.metrics.Committed, Space: disk.Space, OnDamage: func(err error) {
			r.Log.Error("a record is damaged: no list shows it and no worker gets it", "err", err)
		}})
		if err != nil {
			return nil, nil, err
		}
		r.closers = append(r.closers, files)
		return files, files, nil
	}
	return nil, nil, cli.Usagef("store must be sqlite or mem, not %q", s.Store)
}

func (r *Server) works() []engine.Work {
	var works []engine.Work
	for _, a := range r.apps {
		works = append(works, a.Works()...)
	}
	return works
}

func (r *Server) engineOptions(s *Settings, logs engine.JobLogs) engine.Options {
	deliver := map[string]engine.Deliver{}
	for _, a := range r.apps {
		for topic, d := range a.Deliver() {
			deliver[topic] = d
		}
	}
	return engine.Options{
		Name: s.Name, Slots: s.Slots, Lease: s.Lease, Sweep: s.Sweep, Grace: s.Grace, Log: r.Log, Meter: r.metrics, JobLogs: logs, Deliver: deliver,
		Attempts: s.Attempts, Retain: r.retention(s), Impaired: r.space.impaired,
	}
}

// run starts the long-lived parts.
func (r *Server) run(l, aside net.Listener) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.serveMetrics(ctx, aside)
	if r.backups != nil {
		r.stopped.Go(func() { r.backups.run(ctx) })
	}
	r.stopped.Go(func() {
		if err := r.Engine.Run(ctx); err != nil && ctx.Err() == nil { // stopped before it had begun is stopped
			r.fail(fmt.Errorf("engine: %w", err))
		}
	})
	r.stopped.Go(func() {
		if err := r.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.fail(fmt.Errorf("listen: %w", err))
		}
	})
	for _, c := range r.closers {
		if s, ok := c.(mortal); ok {
			r.stopped.Go(func() {
				select {
				case err := <-s.Dead():
					r.fail(fmt.Errorf("the data directory cannot be written to any more: %w", err))
				case <-ctx.Done():
				}
			})
		}
	}
}

// fail notes why the server cannot go on. Only the first reason counts.
func (r *Server) fail(err error) {
	r.failOnce.Do(func() {
		r.Log.Error("the server gives up", "error", err)
		r.failure = err
		close(r.failed)
	})
}

// Failed is closed when the server cannot go on; Stop then gives the reason.
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

// Stop ends the server: the engine takes no new jobs and running steps get their grace, the API answers what is under way, then
// applications and store are closed. It gives the reason if the server had failed.
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
	}
	r.stopped.Wait()
	err = errors.Join(r.alive(), err, r.close())
	for _, name := range []string{"address", computeAddress} {
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
	if r.Compute != nil && r.Compute.http != nil {
		return errors.Join(r.http.Shutdown(ctx), r.Compute.http.Shutdown(ctx))
	}
	return r.http.Shutdown(ctx)
}

// close closes what was opened, the last first.
func (r *Server) close() error {
	var mistakes []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		mistakes = append(mistakes, r.closers[i].Close())
	}
	r.closers = nil
	return errors.Join(mistakes...)
}

// computeAddress is the file in the data directory that says where users of job-orchestrator find the server.
const computeAddress = "compute-address"

// WriteAddress leaves the address for the commands that know the data directory: whole or not at all.
func WriteAddress(name, url string) error { return durable.Replace(name, []byte(url+"\n")) }

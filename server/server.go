package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/hub"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/kept"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/session"
	"github.com/stagepost/stagepost/server/transfer"
	"github.com/stagepost/stagepost/server/workers"
)

// Options of a server. Engine is required.
type Options struct {
	Engine      *engine.Engine
	Locks       Locks              // defaults to none: its routes are unavailable
	Fixity      map[string]Fixity  // by application; defaults to none: its routes are unavailable
	Logs        Logs               // defaults to none: logs are empty
	Maintenance Maintenance        // defaults to none: the admin routes are unavailable
	Lives       []*lifecycle.Table // shown beside those of the engine: of tasks, of other programs
	Topics      []string           // of messages that are delivered
	Metrics     Metrics            // counts answers, and is shown at /metrics; defaults to none
	Identities  identity.Source    // who sends a request; defaults to none: each client may do everything
	Presence    Presence           // of the other servers of the store; defaults to none: they are not known
	Entries     Entries            // of the store's histories; defaults to none: jobs that end are counted from now on
	SignIn      bool               // there is a page to sign in, to which browsers are sent
	Storage     Storage            // space of the data directory; defaults to none: it is not checked
	// what is wrong without keeping the server from its work, for /healthz; defaults to none
	Warn         func() []string
	Alive        func() error   // why the server cannot work any more; defaults to nil always
	Version      string         // shown by /healthz
	TLS          bool           // browsers use TLS, though a proxy in front may end it
	URL          string         // its address as browsers use it; defaults to that of the request
	RateIdentity int64          // requests in a second of one identity; 0: unlimited
	RateAddress  int64          // requests in a second from one address without identity; 0: unlimited
	Proxies      []netip.Prefix // addresses of proxies, whose X-Forwarded-For is believed
	Hosts        []string       // names beside localhost under which requests may come
	MaxBody      int64          // bytes of a JSON body; defaults to 8 MiB
	MaxUpload    int64          // bytes of a payload; defaults to 64 GiB
	Leases       int            // records of leased jobs kept at hand for workers' reports; defaults to 100,000
	Watchers     int            // event streams at once; defaults to 1000. One owner of tokens has a quarter
	Requests     int            // requests of one owner of tokens at once; defaults to 1024
	PollAgain    time.Duration  // between claims of a long poll for what no change reports; defaults to 1 s
	Log          *slog.Logger   // defaults to none
	// directory of the answers under idempotency keys of operations that create no job, which servers of one store
	// share; defaults to one of the server's own, which it removes
	Answers string

	// Workers lists the workers of applications that do not claim over the API; defaults to none.
	Workers func() []api.WorkerInfo

	MetricsElsewhere bool // the metrics have an address of their own
	ReasonsRequired  bool // staff must give a reason for everything that it changes

}

// Logs reads the logs of jobs; *joblog.Logs is one.
type Logs interface {
	Read(id job.ID, offset int64, n int) (api.Log, error)
	// Tail returns the last n lines, as far as they can be read at once.
	Tail(id job.ID, n int) (api.Log, error)
	// Size returns the length in bytes.
	Size(id job.ID) (int64, error)
}

// Storage is the file system of the data directory.
type Storage interface {
	// Writable tries whether the store and the directory accept writes.
	Writable(ctx context.Context) error
	// Admit returns an error of kind Unavailable with a [job.Full] unless so many more bytes fit beside the reserve.
	Admit(bytes int64) error
	// Full returns an error that reports a full disk with the directory and the bytes free, and any other error
	// as it is.
	Full(err error) error
}

// Maintenance checks and backs up the data of a store while the server runs.
type Maintenance interface {
	Verify(ctx context.Context, id job.ID) (api.Checkup, error)
	Fsck(ctx context.Context, f api.Fsck) (api.Checkup, error)
	Backup(ctx context.Context, b api.Backup) (api.BackedUp, error)
	Export(ctx context.Context, w io.Writer) error
}

// Server answers requests. Close it when it is not needed any more.
type Server struct {
	Options
	Store     job.Store
	explainer *explain.Explainer
	mux       *http.ServeMux
	exact     map[string]exact // by path: POST routes without wildcards, which need no search in mux
	parts     []Part
	all       []Route // of the server and its parts
	chain     http.Handler
	hub       *hub.Hub
	endings   *ended
	leases    *leases
	registry  *workers.Registry
	announced announced
	kept      *kept.Answers
	watching  atomic.Int64 // open event streams
	uploads   transfer.Uploads
	requests  *session.Quota
	streams   *session.Quota
	sessions  session.Sessions // requests under way, by their tokens
	rates     rates
	refusals  *refusals
	assets    sync.Map               // in gzip, by name: []byte
	host      atomic.Pointer[string] // the last Host header that named this server
	close     context.CancelFunc

	description func() []byte // of all routes, as JSON
}

// New makes a server. It begins to listen to the store's hints.
func New(o Options) *Server {
	if o.MaxBody <= 0 {
		o.MaxBody = 8 << 20
	}
	if o.MaxUpload <= 0 {
		o.MaxUpload = 64 << 30
	}
	if o.Leases <= 0 {
		o.Leases = 100_000
	}
	if o.Watchers <= 0 {
		o.Watchers = 1000
	}
	if o.PollAgain <= 0 {
		o.PollAgain = time.Second
	}
	if o.Requests <= 0 {
		o.Requests = 1024
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o, Store: o.Engine.Store(), explainer: explain.New(o.Engine), mux: http.NewServeMux(),
		exact: map[string]exact{}, hub: hub.New(o.Engine.Releases),
		endings:  newEnded(o.Engine.Clock().Now, o.Entries),
		leases:   newLeases(o.Leases),
		registry: workers.New(o.Engine.Clock().Now),
		requests: session.NewQuota("requests", o.Requests), streams: session.NewQuota("event streams",
			max(1, o.Watchers/4))}
	if s.kept = (&kept.Answers{Dir: o.Answers}); o.Answers == "" {
		s.kept.Dir = filepath.Join(os.TempDir(), "stagepost-answers-"+rand.Text())
	}
	s.rates, s.refusals = newRates(&o), newRefusals(time.Now)
	s.description = sync.OnceValue(func() []byte {
		text, err := json.Marshal(Describe(s.all))
		if err != nil {
			panic(err) // all in it can be marshalled
		}
		return text
	})
	s.Add(Part{Routes: s.routes()})
	s.chain = s.guard(http.HandlerFunc(s.route))
	ctx, cancel := context.WithCancel(context.Background())
	s.close = cancel
	s.explainer.UseWorkers(s.takes)
	s.Store.Watch(ctx, s.hub.Notify)
	if s.endings.lives = s.Life; s.Entries == nil {
		s.Store.Watch(ctx, s.endings.count)
	}
	if s.Presence != nil {
		go s.announces(ctx)
	}
	if s.Identities != nil {
		go s.watchIdentities(ctx)
	}
	return s
}

// Close ends all event streams and long polls.
func (s *Server) Close() {
	s.close()
	s.hub.Close()
	if s.Answers == "" {
		if err := os.RemoveAll(s.kept.Dir); err != nil {
			s.Log.Warn("temporary files of the server remain", "error", err)
		}
	}
	for _, p := range s.parts {
		if p.Close != nil {
			p.Close()
		}
	}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.chain.ServeHTTP(w, r) }

// route passes a request to its handler; what has none is a problem like any other.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if one := s.exact[r.URL.Path]; one.handler != nil && one.method == r.Method {
		r.Pattern = one.pattern
		one.handler.ServeHTTP(w, r)
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r) // not h: only the mux sets the path values
		return
	}
	probe := &allowed{header: http.Header{}}
	h.ServeHTTP(probe, r)
	switch probe.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", probe.header.Get("Allow"))
		s.fail(w, r, problem.Refuse(http.StatusMethodNotAllowed, job.Invalid, "%s is not for %s (allowed: %s)",
			r.URL.Path, r.Method, probe.header.Get("Allow")))
	default:
		s.fail(w, r, job.Errorf(job.NotFound, "route", "", "there is no %s %s; GET / lists what there is", r.Method,
			r.URL.Path))
	}
}

// exact is a route without wildcards.
type exact struct {
	method, pattern string
	handler         http.Handler
}

// allowed takes the answer of the mux to a request that has no route.
type allowed struct {
	header http.Header
	status int
}

func (a *allowed) Header() http.Header         { return a.header }
func (a *allowed) WriteHeader(status int)      { a.status = status }
func (a *allowed) Write(b []byte) (int, error) { return len(b), nil }

// attend carries out a request that was admitted, if its sender has not too many open.
func (s *Server) attend(route *Route, w http.ResponseWriter, r *http.Request) error {
	leave, err := s.requests.Enter(OwnerOf(r.Context()))
	if err != nil {
		return err
	}
	defer leave()
	if err := s.reasoned(route, r); err != nil {
		return err
	}
	return s.once(route, w, s.withAddress(r))
}

// sender returns who sent an admitted request; ok is false where no token is needed.
func (s *Server) sender(r *http.Request) (who identity.Identity, ok bool) {
	if r == nil {
		return who, false
	}
	return Who(r.Context())
}

// handler makes an http.Handler of a route.
func (s *Server) handler(r Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !r.Upload {
			q.Body = http.MaxBytesReader(w, q.Body, s.MaxBody)
		}
		admitted, err := s.admit(w, &r, q)
		if who, ok := s.sender(admitted); ok {
			var over func()
			w, admitted, over = s.sessions.Open(w, admitted, who)
			defer over()
		}
		who, _ := s.sender(admitted)
		if slow := s.pace(w, q, who.Name); slow != nil {
			err = slow
		}
		if err == nil {
			err = s.attend(&r, w, admitted)
			s.logAct(&r, admitted, err)
		}
		if denied(err) {
			s.Refused(cmp.Or(admitted, q), err)
		}
		if err != nil && r.Fault != nil {
			err = r.Fault(w, q, err)
		}
		if err != nil {
			s.fail(w, q, err)
		}
	})
}

// Part is what an application adds to a server. Every field but Routes may be nil.
type Part struct {
	Routes []Route
	// removes from a record what must not leave the server
	Redact func(job.Job) job.Job
	// adds to the answer of why what the engine does not know
	Explain func(context.Context, *api.Explanation) error
	// what a job is about, and the path of its page; empty: not known
	About func(*job.Job) (title, object, page string)
	// kinds whose jobs people call by their number alone
	Numbers []job.Kind
	Named   func(ctx context.Context, name string) ([]job.ID, error) // the jobs that have a name of the application's
	// what the other servers of the store get of the application, by names of its own: see [Server.Announced]
	Announce map[string]func() any
	// adds warnings and facts to the answer of /healthz
	Health func(context.Context, *api.Health)
	// pages/*.css, pages/*.js and pages/*.svg are served below /assets/
	Assets fs.FS
	Pages  Pages
	Close  func() // is called once, when the server is closed
}

// All lists the routes of the server and its parts.
func (s *Server) All() []Route { return s.all }

// redact returns a record as it may leave the server, with its title.
func (s *Server) redact(j job.Job) job.Job {
	j, _ = s.presented(j)
	return j
}

// presented returns a record as it may leave the server, with its title, and the path of its page if it has one.
func (s *Server) presented(j job.Job) (of job.Job, page string) {
	for _, p := range s.parts {
		if p.About != nil {
			title, object, path := p.About(&j)
			j.Title, j.Object, page = cmp.Or(j.Title, title), cmp.Or(j.Object, object), cmp.Or(page, path)
		}
		if p.Redact != nil {
			j = p.Redact(j)
		}
	}
	return j, page
}

// explainParts adds to an explanation what the applications know.
func (s *Server) explainParts(ctx context.Context, x *api.Explanation) error {
	for _, p := range s.parts {
		if p.Explain == nil {
			continue
		}
		if err := p.Explain(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// Add adds the parts of applications. Call it before the first request.
func (s *Server) Add(parts ...Part) {
	for _, p := range parts {
		s.parts = append(s.parts, p)
		s.announced.add(p.Announce)
		for _, r := range p.Routes {
			s.all = append(s.all, r)
			h, pattern := s.handler(r), r.Method+" "+r.Pattern
			s.mux.Handle(pattern, h)
			if r.Method == http.MethodPost && !strings.Contains(r.Pattern, "{") {
				s.exact[r.Pattern] = exact{r.Method, pattern, h}
			}
		}
	}
}

// Package module defines what an application registers with a program: lifecycles, settings, commands, routes, durable
// data, and how a server opens it. A program is a list of modules (cmd/stagepost); no generic package names an
// application.
package module

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/store/zookeeper"
)

// Module is an application as a program lists it. Only Name is required.
type Module struct {
	Name     string
	Lives    []*lifecycle.Table
	Settings any                        // pointer to a struct of settings; package config explains its tags
	Commands []func(*cli.Call) cli.Part // what it adds to the command line
	Open     func(*Host) (App, error)   // opens it in a server; a nil App: the settings leave it out

	// Part gives its routes and pages. app is what Open returned; nil: the routes refuse every request. A nil server
	// is enough to list the routes.
	Part func(s *server.Server, app App) server.Part

	Remote *Remote // its work that other machines can do ([Remote]); nil: none

	LivesIn   func(dir string) ([]*lifecycle.Table, error) // its lifecycles in the files of a data directory
	Data      []backup.Entry                               // its entries of the data directory
	Omissible []string                                     // parts that a backup may omit ([backup.Entry.Part])
	Copies    func(dir string) (backup.Databases, error)   // its databases in a backup set; nil: it has none
	Reserve   func() int64                                 // bytes of the disk that uploads leave free; nil: none
	Schemas   map[string]int                               // versions of its databases by file

	// Migrate copies its databases into empty ones, or with replace in place of what those have, while no server works
	// on either, and compares them. It may be repeated after an interruption. nil: it has none.
	Migrate func(ctx context.Context, from, to Databases, replace bool) (Copied, error)
	Count   func(ctx context.Context, d Databases) (rows int64, err error) // of what Migrate copies; nil: it has none

	// Several lists what servers that share a store refuse of its settings, or do not continue of the jobs of a store
	// that one server has. nil: nothing.
	Several func(ctx context.Context, jobs job.Store) ([]string, error)

	Storage  func(ctx context.Context, dir string) (Storage, error)   // what it has outside its entries
	Check    func(ctx context.Context, d Directory) (Findings, error) // compares records with its files
	CheckDoc string                                                   // what Check compares, for the help of fsck
}

// Several lists what servers that share a store refuse of the settings of modules, or do not continue of their jobs.
func Several(ctx context.Context, all []Module, jobs job.Store) (texts []string, err error) {
	for _, m := range all {
		if m.Several == nil {
			continue
		}
		more, err := m.Several(ctx, jobs)
		if err != nil {
			return nil, err
		}
		texts = append(texts, more...)
	}
	return texts, nil
}

// Host is what a server gives to the applications in it.
type Host struct {
	Dir          string // the directory with the files of jobs, absolute; all servers of a store have the same
	Own          string // the data directory of this server alone, absolute; Dir if no other server shares the store
	Postgres     string // the URL of the database of a store in PostgreSQL, which is secret; empty: another store
	Config       *config.Set
	Store        job.Store
	Nodes        *zookeeper.Store // the same store, if it is in ZooKeeper, whose nodes another system may share
	Installation string           // empty: the store keeps nothing
	Log          *slog.Logger
	Logs         *joblog.Logs
	Metrics      *metrics.Metrics
	Hosts        []string // names by which requests may come
	Labels       []string // of the machine of this server, that jobs can require
	UploadBytes  int64    // most bytes of an upload
	Mail         Mail

	// FixityPace waits until bytes that a fixity check read fit the rate of all applications together.
	FixityPace func(ctx context.Context, n int) error

	Admit      func(bytes int64) error // refuses what does not fit the disk
	Identities identity.Source         // nil: there is no authentication
	Valid      func() []string         // hashes of the valid tokens; nil without tokens
	Engine     func() *engine.Engine   // nil until the engine is made

	// Listen opens an address with the server's limits. Its errors name the setting.
	Listen func(ctx context.Context, setting, address string) (net.Listener, error)
}

// App is an opened application. It may also be a [Loader], [Clearer], [Reloader], [Failing], [Warner], [WorkerLister],
// [StorageLister], [Receiving],
// [Locker], [Measurer], [Listener], [TimeStamper], [Checker] or [FixityChecker].
type App interface {
	Works() []engine.Work
	Deliver() map[string]engine.Deliver
	Bind(e *engine.Engine)
	io.Closer
}

// Loader reads its stored data after it is bound to the engine and before the server answers.
type Loader interface {
	Load(ctx context.Context) error
}

// Clearer removes the application's data of a job before the job's record is purged.
type Clearer interface {
	Clear(ctx context.Context, j *job.Job) error
}

// Reloader reads its own files again.
type Reloader interface{ Reload() error }

// Failing cannot continue after its disk fails. Dead returns the error once.
type Failing interface{ Dead() <-chan error }

// WorkerLister lists workers that do not claim over the API, such as agents.
type WorkerLister interface{ Workers() []api.WorkerInfo }

// Warner lists problems for /healthz.
type Warner interface{ Warn() []string }

// StorageLister lists the directories of storage locations, for the measurement of free space.
type StorageLister interface{ StorageLocations() []string }

// Locker has locks that people can see and break. One application of a server may have them.
type Locker interface{ Locker() server.Locks }

// FixityChecker has stored objects, and checks their fixity.
type FixityChecker interface{ server.Fixity }

// Receiving has several receivers of the messages of a topic.
type Receiving interface {
	Receivers() map[string]engine.Receiver
}

// Measurer adds its sources of metrics.
type Measurer interface{ Measure(*metrics.Sources) }

// Checker compares the records with its files, as [Module.Check] does without a server.
type Checker interface {
	Check(ctx context.Context) (Findings, error)
}

// TimeStamper has time-stamp authorities, which the server also asks for the histories, in this order. They may change.
type TimeStamper interface {
	Authorities() []*timestamp.Authority
}

// Listener has an address of its own. Listen is called when the server answers. The host runs and stops the HTTP
// server that it returns; nil is none.
type Listener interface {
	Listen(ctx context.Context, s *server.Server) (*Endpoint, error)
}

// Endpoint is an address of an application.
type Endpoint struct {
	Name     string // of the address, such as compute: the file NAME-address in the data directory has its URL
	Title    string // for people: whose address it is
	Listener net.Listener
	Server   *http.Server
}

// URL gives the URL under which this machine reaches the address.
func (e *Endpoint) URL() string { return URLOf(e.Listener.Addr()) }

// URLOf gives the URL under which this machine reaches an address that is listened on.
func URLOf(address net.Addr) string {
	if a, ok := address.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", a.Port)
	}
	return "http://" + address.String()
}

// Directory is a data directory that no server works on.
type Directory struct {
	Dir          string // with the files of jobs
	Postgres     string // as in [Host]
	Installation string
	Store        job.Store
}

// Databases is where the databases of applications are.
type Databases struct {
	Dir      string // the data directory, in which they are files
	Postgres string // the URL of the PostgreSQL database in which they are schemas; empty: they are files
}

// Copied is what a migration copied.
type Copied struct {
	Rows   int64
	Digest string // of all rows, which is the same for both databases; empty: there was nothing to copy
}

// Findings are the faults that a check found.
type Findings struct {
	Objects, Versions int // that were compared
	Faults            []string
	More              int    // faults that Faults leaves out
	About             string // what More is about, such as "stored objects"
}

// Storage is what an application has outside its entries of the data directory.
type Storage struct {
	Locations []string          // OCFL storage roots: absolute, or relative to the data directory
	Stores    []string          // other directories of stored files, none of which is changed after it was written
	Files     map[string]string // configuration that a backup copies: name in the set, and path; an empty path is none
	Outside   []backup.Location // what a backup names and does not copy
}

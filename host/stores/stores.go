// Package stores opens the store of a server as the setting store names it. Each kind of store is one entry of a table.
package stores

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
)

// Store is an open store with what only some kinds of stores have. A nil field: this kind does not have it.
type Store struct {
	Jobs   job.Store
	Closer io.Closer

	// Installation is the id of the installation; empty: the store keeps nothing.
	Installation string

	// Leads reports whether this server leads those that share the store; Leader names the one that does, by
	// [Options.Name].
	Leads  func() bool
	Leader func(ctx context.Context) (name string, leads bool, err error)

	Presence    Presence                // of the other servers of the store; nil: there are none
	Waiting     func() int              // operations that wait for a commit
	Retries     func() int64            // operations that were tried again
	Fault       func() error            // why the store refuses operations at present; nil: it does not
	Connections func() (used, most int) // to the database
	Location    string                  // of the database, for people
	Postgres    string                  // the URL of the database with the password, for databases of applications

	// Full returns since when the disk of the store is full, or zero; Writable tests whether it accepts writes.
	Full     func() time.Time
	Writable func(ctx context.Context) error
	Dead     <-chan error // delivers why the store cannot continue, once

	// Verify checks histories against records; see [client.Verify]. Fsck checks what is derived from records.
	Verify func(ctx context.Context, id job.ID, lives Lives, wrong func(job.ID, error)) (jobs, entries int64,
		err error)
	Fsck func(ctx context.Context, lives Lives, repair bool) (client.Checkup, error)

	// Content is what a migration reads and writes, of a store that was opened for one. Files returns the registered
	// id of the directory with the files that records refer to, and SetFiles replaces it; nil: the store is in it.
	Content  transfer.Target
	Files    func(ctx context.Context) (id string, err error)
	SetFiles func(ctx context.Context, id string) error

	// Nodes is the store as nodes of ZooKeeper, which another system may share.
	Nodes *zookeeper.Store

	Histories Histories
	Named     cli.JobStore

	// Freeze runs a function between two commits, in which a backup pins the databases of the data directory. Without
	// it, Instead is how the store is backed up.
	Freeze  func(ctx context.Context, do func() error) error
	Instead string
}

// Presence is what the servers of a store announce to each other; see [server.Presence].
type Presence interface {
	Announce(ctx context.Context, server string, text []byte) error
	Announced(ctx context.Context, each func(server string, text []byte, age time.Duration)) error
}

// Lives finds lifecycles by kind.
type Lives = func(job.Kind) *lifecycle.Table

// Histories are what anchors, exports and the throughput read.
type Histories interface {
	history.Source
	history.Whole

	// Moved is that of [server.Entries].
	Moved(ctx context.Context, after, through int64) ([]job.Moved, error)
}

// Durable reports whether the store keeps jobs beyond the process.
func (s *Store) Durable() bool { return s.Jobs.Properties().Durable }

// Options of [Open]. Where and Dir are required.
type Options struct {
	Where string // the setting store
	Dir   string // the data directory of the server, absolute
	Files string // the directory with the files that records refer to, absolute; defaults to Dir

	Name     string        // of the server among those on the store
	Password string        // of the database; defaults to that of Where
	Patience time.Duration // see [postgres.Options]

	Connections int // see [postgres.Options]

	// OnLock is called when no other server can have the data directory any more, before the store is read. It returns
	// the address of the server. Defaults to none.
	OnLock func() (address string, err error)

	OnCommit  func(operations int, took time.Duration) // after each commit; defaults to none
	OnDamage  func(error)                              // for each damaged record; defaults to none
	OnFailure func(error)                              // for each operation that is tried again; defaults to none
	NoLog     bool                                     // see [sqlite.Options]

	// Migrates opens a store for a migration, which no server may use meanwhile: [Store].Content is used, and the
	// directory with the files is not compared.
	Migrates bool

	// ReadOnly writes nothing into a database in PostgreSQL, and refuses one without tables with kind NotFound. It is
	// used with Migrates.
	ReadOnly bool

	// Existing refuses a store that does not exist yet, with kind NotFound, in place of creating it.
	Existing bool
}

func (o *Options) locked() error {
	_, err := o.OnLock()
	return err
}

// kind is one kind of stores.
type kind struct {
	name    string // what the setting is, or its beginning before "://"
	located bool   // it is a URL
	shared  bool   // several servers use it at once
	moves   bool   // jobs can be migrated to it and from it
	open    func(ctx context.Context, o *Options) (*Store, error)
}

// kinds are the kinds of stores.
var kinds = []kind{
	{name: "sqlite", moves: true, open: openSQLite},
	{name: "mem", open: openMem},
	{name: "postgres", located: true, shared: true, moves: true, open: openPostgres},
	{name: "postgresql", located: true, shared: true, moves: true, open: openPostgres},
	{name: "zookeeper", located: true, open: openNodes},
}

// Open opens a store. The caller closes it.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.OnLock == nil {
		o.OnLock = func() (string, error) { return "", nil }
	}
	if o.Files == "" {
		o.Files = o.Dir
	}
	name, _, located := strings.Cut(o.Where, "://")
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 || located != kinds[i].located {
		return nil, cli.Usagef("store must be sqlite, mem, postgres://USER@HOST/DATABASE or zookeeper://HOSTS, not %q",
			shown(o.Where))
	}
	if o.Migrates && !kinds[i].moves {
		return nil, cli.Usagef("jobs are migrated between sqlite and postgres://USER@HOST/DATABASE, not %q",
			shown(o.Where))
	}
	if !kinds[i].shared && o.Files != o.Dir {
		return nil, cli.Usagef("shared is for a store of several servers: the store %s has one, whose files are "+
			"in its data directory", name)
	}
	return kinds[i].open(ctx, &o)
}

// shown is a setting without a password.
func shown(where string) string {
	if u, err := url.Parse(where); err == nil {
		return u.Redacted()
	}
	return "a URL that cannot be read"
}

// Refuses lists which settings servers refuse with the store that the setting store names: scheduled backups, or a
// directory with the files of jobs beside the data directory.
func Refuses(where string, backups, files bool) []string {
	all := []string{}
	if backups && Shared(where) {
		all = append(all, "backup.every must be off: "+instead)
	}
	if files && !Shared(where) {
		all = append(all, "shared must not be set: the files of jobs are in the data directory of the server")
	}
	return all
}

// Shared reports whether several servers may share the store that a setting names.
func Shared(where string) bool { return strings.Contains(where, "://") }

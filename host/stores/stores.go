// Package stores opens the store of a server as the setting store names it. Each kind of store is one entry of a table.
package stores

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/history"
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

	Leads   func() bool // whether this server leads those that share the store
	Waiting func() int  // operations that wait for a commit

	// Full returns since when the disk of the store is full, or zero; Writable tests whether it accepts writes.
	Full     func() time.Time
	Writable func(ctx context.Context) error
	Dead     <-chan error // delivers why the store cannot continue, once

	// Verify checks histories against records; see [client.Verify]. Fsck checks what is derived from records.
	Verify func(ctx context.Context, id job.ID, lives Lives, wrong func(job.ID, error)) (checked int64, err error)
	Fsck   func(ctx context.Context, lives Lives, repair bool) (client.Checkup, error)

	// Nodes is the store as nodes of ZooKeeper, which another system may share.
	Nodes *zookeeper.Store

	Histories Histories
	Named     cli.JobStore

	// Freeze runs a function between two commits, in which a backup pins the databases of the data directory. Without
	// it, Instead says how the store is backed up.
	Freeze  func(ctx context.Context, do func() error) error
	Instead string
}

// Lives finds lifecycles by kind.
type Lives = func(job.Kind) *lifecycle.Table

// Histories are what anchors and exports read.
type Histories interface {
	history.Source
	history.Whole
}

// Durable reports whether the store keeps jobs beyond the process.
func (s *Store) Durable() bool { return s.Jobs.Properties().Durable }

// Options of [Open]. Where and Dir are required.
type Options struct {
	Where string // the setting store
	Dir   string // the data directory, absolute

	// OnLock is called when no other server can have the data directory any more, before the store is read. It returns
	// the address of the server. Defaults to none.
	OnLock func() (address string, err error)

	OnCommit func(operations int, took time.Duration) // after each commit; defaults to none
	OnDamage func(error)                              // for each damaged record; defaults to none
	NoLog    bool                                     // see [sqlite.Options]

	// Existing refuses a store that does not exist yet, with kind NotFound, in place of creating it.
	Existing bool
}

func (o *Options) locked() error {
	_, err := o.OnLock()
	return err
}

// kind is one kind of stores.
type kind struct {
	name string // what the setting is, or its beginning before "://"
	open func(ctx context.Context, o *Options) (*Store, error)
}

// kinds are the kinds of stores.
var kinds = []kind{
	{"sqlite", openSQLite},
	{"mem", openMem},
	{"zookeeper", openNodes},
}

// Open opens a store. The caller closes it.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.OnLock == nil {
		o.OnLock = func() (string, error) { return "", nil }
	}
	name, _, _ := strings.Cut(o.Where, "://")
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil, cli.Usagef("store must be sqlite, mem or zookeeper://HOSTS, not %q", o.Where)
	}
	return kinds[i].open(ctx, &o)
}

// Package merritt shows records of a store in the nodes of a Merritt ingest queue, which the Java and Ruby programs of
// that system read and change at the same time, and reads what those programs did.
//
// A [Link] is the [zookeeper.Mirror] of a store. Each commit of a record that nodes show has the operations on these
// nodes in its multi, with the versions that were read: a batch, job or access request is created, locked, moved,
// released and removed in both at once. A commit is refused, with kind Conflict or Stale, if a program of Merritt has
// changed or locked the node since: the record is then behind, and [Link.Read] returns what the nodes have, for the
// caller to move the record by its lifecycle. Such a move names [Actor]: it writes no nodes, because they have the
// state already.
//
// The package has Merritt's nodes and the three kinds of records that they show. What a kind of the application has
// in its specification and data is translated by its [Mapping].
package merritt

import (
	"context"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Actor is the actor of changes that programs of Merritt made.
const Actor = "merritt"

// keyPrefix begins the idempotency key of a record that is made of nodes of Merritt.
const keyPrefix = Actor + ":"

// KeyOf returns the idempotency key of a record that is made of the nodes of a batch, job or access request. The record
// is shown by these nodes.
func KeyOf(node string) string { return keyPrefix + node }

// Values are the keys of a JSON object: texts, numbers, truth values and lists of texts.
type Values map[string]any

func (v Values) object(base layout.Object) layout.Object {
	o := base.Clone()
	for key, value := range v {
		o.Set(key, value)
	}
	return o
}

// Identifiers are the ids of the object of a job.
type Identifiers struct {
	Primary string
	Local   []string
}

// Stored is what the nodes store and inventory of a job have: where its files or its object are listed.
type Stored struct {
	ManifestURL string
	Mode        string // store: "add/NODE/ARK" or "update/NODE/ARK", with the escaped ARK; inventory: ""
	Delete      string // store: names of files, each with a line end
}

// Processed is what programs of Merritt left of a job that they have processed, in its nodes.
type Processed struct {
	Store Stored
	Identifiers
	configuration layout.Object
}

// Value returns the text of a key of the configuration of the job.
func (p *Processed) Value(key string) string { return p.configuration.Text(key) }

// Token is what an access request shows to those who wait for it.
type Token struct {
	Status  int // as of HTTP: 201 queued, 200 ready, 500 failed
	Token   string
	Bytes   int64
	Message string
	URL     string
}

// Mapping translates the records of an application. The states of its kinds have the names of Merritt's.
type Mapping struct {
	Batch, Job, Access job.Kind

	Submission func(*job.Job) Values // of a batch
	// of a job, with its batch, which is nil if it has no record; those that others wrote are kept
	Configuration func(j, batch *job.Job) Values
	Identifiers   func(*job.Job) Identifiers
	Space         func(*job.Job) int64 // bytes; 0: unknown
	// Stored is what storage and inventory of Merritt need to continue with a processed job; nil: they cannot.
	Stored func(*job.Job) (store, inventory *Stored)
	Token  func(*job.Job) Token // of an access request
	Large  func(*job.Job) bool  // it is in the queue of large access requests

	// Holds returns what a hold is in Merritt: nil if Merritt has none like it.
	Holds func(job.Scope) []Lock
	// Workable returns why no worker of this store can work on a record, or "".
	Workable func(*job.Job) string
	// Continues returns why no worker of this store can store what Merritt's programs have processed, or "". Nil: none
	// can.
	Continues func(*job.Job, *Processed) string
}

// Lock is a lock of Merritt: of a queue or a collection, which keeps jobs from being acquired, or of an object or a
// local id, which has one client.
type Lock string

// The locks of queues.
const (
	IngestPaused      Lock = layout.IngestPaused
	AccessSmallPaused Lock = layout.AccessSmallPaused
	AccessLargePaused Lock = layout.AccessLargePaused
)

// CollectionLock returns the lock that holds the pending jobs of a profile.
func CollectionLock(profile string) Lock { return Lock(layout.CollectionLock(profile)) }

// StorageLock returns the lock of an object while a version is added to it. It remains when its client ends.
func StorageLock(ark string) Lock { return Lock(layout.StorageLock(ark)) }

// InventoryLock returns the lock of an object while a version is entered in an inventory.
func InventoryLock(ark string) Lock { return Lock(layout.InventoryLock(ark)) }

// LocalIDLock returns the lock under which an identifier is minted for a local id of an owner.
func LocalIDLock(localID, owner string) Lock { return Lock(layout.LocalIDLock(localID, owner)) }

// Options are the settings of a Link.
type Options struct {
	// Now is the clock of what is written for people. Nil is time.Now.
	Now func() time.Time
	// MostEntries is the number of queue entries of a state above which no job is created: Java clients cannot list
	// more than about 52,000. Zero is 50,000.
	MostEntries int
}

const defaultMostEntries = 50_000

// Link joins a store to the nodes of Merritt.
type Link struct {
	m Mapping
	o Options

	mu      sync.Mutex // guards what follows
	session *session.Session
	queue   *queue.Queue
	records zookeeper.Records
	opened  chan struct{} // closed when there is another session
	adopted map[string]bool
}

var _ zookeeper.Mirror = (*Link)(nil)

// New returns a link. It has nodes when a store is attached: see [zookeeper.Store.Attach].
func New(m Mapping, o Options) *Link {
	if o.MostEntries <= 0 {
		o.MostEntries = defaultMostEntries
	}
	return &Link{m: m, o: o, opened: make(chan struct{}), adopted: map[string]bool{}}
}

// Attach is part of zookeeper.Mirror.
func (l *Link) Attach(s *session.Session, r zookeeper.Records) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.records = s, r
	l.queue = queue.New(s, queue.Options{Now: l.o.Now})
	close(l.opened)
	l.opened = make(chan struct{})
}

// Adopt allows that a record is made of nodes, by [KeyOf]. Without it, a key like that is one of a depositor.
func (l *Link) Adopt(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adopted[node] = true
}

// adopts reports whether a record may be made of nodes.
func (l *Link) adopts(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.adopted[node]
}

// now returns the session and the queue of the store; nil before Attach.
func (l *Link) now() (*session.Session, *queue.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.queue
}

// Init creates the nodes that every tree of Merritt has, as far as they are missing.
func (l *Link) Init(ctx context.Context) error {
	_, q := l.now()
	if q == nil {
		return errDetached
	}
	return q.Init(ctx)
}

// errDetached is the error of a link without a store.
var errDetached = job.Errorf(job.Unavailable, "merritt", "", "no store is attached")

package sqlite

import (
	"errors"
	"time"

	"github.com/stagepost/stagepost/internal/log"
)

// Options of Open. The zero value works.
type Options struct {
	// Address is the address of the process. A second process that tries to open the store gets it in the error.
	Address string
	// OnLock is called when the directory is locked, before the database is opened. It returns the address of the
	// process: a server listens in it, so that of two servers the second fails at the lock and not at the address.
	// Open returns its error as it is. Defaults to a function that returns Address.
	OnLock func() (address string, err error)
	// CacheJobs is the least number of records that the commit loop keeps in memory. Defaults to 16,384.
	CacheJobs int
	// Readers is the number of concurrent reads. Defaults to 4.
	Readers int
	// OnDeath is called once if the disk has failed in a commit. The process should end with a non-zero code.
	OnDeath func(error)
	// OnCommit is called by the commit loop after each transaction that is on disk: with the number of operations and
	// the time from its begin to the end of the sync. It must be quick. Defaults to none.
	OnCommit func(ops int, took time.Duration)
	// Space returns the bytes of a directory's file system that are free, and its size, for messages about a full
	// disk. Defaults to an error: the messages state no bytes.
	Space func(dir string) (free, total int64, err error)

	// OnDamage is called once for each job whose record does not match its checksum, when a list omits it or a worker
	// would claim it. It must be quick. Defaults to none.
	OnDamage func(error)
	// NoLog makes each commit a transaction of the database. Without it, commits are acknowledged when they are in an
	// append-only log, and written to the database up to a second later: more operations fit into a second, and
	// docs/design.md has the details. A store that was opened in one way can be opened in the other. For a process that
	// reads or writes little and ends, and where another program reads the database right after a commit.
	// Defaults to false.
	NoLog bool

	// Migrates opens a store that a migration reads or writes, or did: others are refused until it has finished. Of the
	// store, only [Store.Content] is used. Defaults to false.
	Migrates bool

	vfs    string                                // file layer, for tests
	accept func(missing string)                  // a database that misses commits is accepted as it is
	tap    func(headOp)                          // receives the operations on the head file, for tests
	slice  func(rows int)                        // receives the rows for which a check stops the loop, for tests
	order  func(head, commit func() error) error // executes both, for tests; defaults to inParallel

	sync       string             // synchronous, for the control of the power-cut test; defaults to FULL
	logSize    int64              // size of the first segment; defaults to that of the package log
	logTap     func(log.Op) error // receives the operations on the log, for tests
	applyAfter time.Duration      // defaults to the constant

	frames int // pages in the log from which a checkpoint begins; defaults to manyFrames
}

func (o Options) withDefaults() Options {
	if o.CacheJobs <= 0 {
		o.CacheJobs = 16384
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.OnLock == nil {
		o.OnLock = func() (string, error) { return o.Address, nil }
	}
	if o.Space == nil {
		o.Space = func(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
	}
	if o.applyAfter == 0 {
		o.applyAfter = applyAfter
	}
	if o.frames == 0 {
		o.frames = manyFrames
	}
	if o.sync == "" {
		o.sync = "FULL"
	}
	return o
}

package sqlite

import (
	"errors"
	"time"
)

// Options of Open. The zero value works.
type Options struct {
	// Address is where the process can be reached; a second process that tries to open the store is told.
	Address string
	// CacheJobs is how many records the commit loop keeps in memory at least. Defaults to 16,384.
	CacheJobs int
	// Readers is how many reads run at the same time. Defaults to 4.
	Readers int
	// OnDeath is called once when the disk has failed in a commit. The process should end with a non-zero code.
	OnDeath func(error)
	// OnCommit is called by the commit loop after each transaction that is on disk: how many operations it carried out and how long it took from
	// its begin to the end of the sync. It must be quick. Defaults to none.
	OnCommit func(ops int, took time.Duration)
	// Space returns the bytes of a directory's file system that are free, and its size, for messages about a full disk. Defaults to
	// an error: the messages state no bytes.
	Space func(dir string) (free, total int64, err error)

	// OnDamage is called once for each job whose record does not match its checksum, when a list leaves it out or a worker would claim it. It must
	// be quick. Defaults to none.
	OnDamage func(error)

	vfs    string                                // file layer, for tests
	accept func(missing string)                  // a database that misses commits is taken as it is
	tap    func(headOp)                          // sees what is done to the head file, for tests
	order  func(head, commit func() error) error // carries out both, for tests; defaults to inParallel

	sync   string // synchronous, for the control of the power-cut test; defaults to FULL
	frames int    // pages in the log from which a checkpoint begins; defaults to manyFrames
}

func (o Options) withDefaults() Options {
	if o.CacheJobs <= 0 {
		o.CacheJobs = 16384
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Space == nil {
		o.Space = func(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
	}
	if o.frames == 0 {
		o.frames = manyFrames
	}
	if o.sync == "" {
		o.sync = "FULL"
	}
	return o
}

package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// Options are the options of a store. The zero Options are the defaults.
type Options struct {
	// Connections is the number of connections that read; zero: 8. Three more write and listen.
	Connections int

	// Patience is how long operations are tried again while the database cannot be reached; zero: 20 s, so that an
	// HTTP server, which has 30 s for an answer, can report it. Then they fail with kind Unavailable. job.Off: they are
	// tried once.
	Patience time.Duration

	// Timeout is how long one attempt may take; zero: 30 s.
	Timeout time.Duration

	// RetryAfter is the first pause between two attempts, which doubles up to 1 s; zero: 5 ms.
	RetryAfter time.Duration

	// LeadEvery is how often a server that is not the leader tries to become it, and the leader makes sure that it has
	// a connection; zero: 5 s. See [Store.Leads].
	LeadEvery time.Duration

	// LeadFor is how long the leader may be silent, because its process hangs or its machine is gone, before another
	// server ends its connection and so can lead; zero: 15 s. It should be several times LeadEvery.
	LeadFor time.Duration

	// Name identifies this server in the list of connections of the database (application_name), and in the answer to
	// other servers that ask for the leader; see [Store.Leader]. At most 40 bytes of it are used. Defaults to
	// none.
	Name string

	// CallerTime takes the time from the callers of Claim, Renew, Take, Replay and Overdue and from changes, instead of
	// that of the database. It is for one server, with a simulated clock.
	CallerTime bool

	// Migrates opens a store that a migration reads or writes, or did: others are refused until it has finished. No
	// server may use the store, and none can meanwhile. Only [Store.Content] is used. Defaults to false.
	Migrates bool

	// ReadOnly writes nothing into the database: no tables are made or upgraded. A database without tables is refused
	// with kind NotFound. It is used with Migrates. Defaults to false.
	ReadOnly bool

	// Unsynced accepts a database that acknowledges commits before they are on disk (fsync = off), for tests.
	Unsynced bool

	// OnFailure is called with each error after which an operation is tried again; it must not block. May be nil.
	OnFailure func(error)

	tracer pgx.QueryTracer // for tests
}

func (o *Options) defaults() {
	if o.Connections <= 0 {
		o.Connections = 8
	}
	switch {
	case o.Patience < 0:
		o.Patience = -1
	case o.Patience == 0:
		o.Patience = 20 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.LeadEvery <= 0 {
		o.LeadEvery = 5 * time.Second
	}
	if o.LeadFor <= 0 {
		o.LeadFor = 15 * time.Second
	}
	if o.RetryAfter <= 0 {
		o.RetryAfter = 5 * time.Millisecond
	}
}

package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
)

// memory is what the writer remembers of the database, beside the records that it wrote last: as the last transaction
// left it. The writer uses it alone.
type memory struct {
	clock    time.Time // of the database
	read     time.Time // when that was read; zero: nothing is remembered
	held     bool      // there are holds, as they were read last
	counters map[string]int64
	lanes    map[laneID]bool // that exist
}

const (
	mostLanesKnown = 1 << 12     // then they are forgotten
	clockTolerance = time.Second // a clock of the database that differs more from what is expected was set
)

// forget drops all: after the loss of a connection the database may be another one, which took over.
func (m *memory) forget() { *m = memory{} }

// expected is the time of the database at a moment, if its clock goes on like that of this machine.
func (m *memory) expected(at time.Time) time.Time { return m.clock.Add(at.Sub(m.read)) }

// committed takes over what a transaction has read and written.
func (m *memory) committed(b *batch) {
	if m.counters == nil {
		m.counters, m.lanes = map[string]int64{}, map[laneID]bool{}
	}
	if b.assumed == nil {
		// the answer may have been late: the expected time does not go back
		behind := m.expected(b.read).Sub(b.clock)
		if m.read.IsZero() || behind < 0 || behind > clockTolerance {
			m.clock, m.read = b.clock, b.read
		}
		if b.holdsRead {
			m.held = len(b.view.holds) > 0
		}
	}
	for _, c := range b.higher {
		m.counters[c.name] = c.n
	}
	if len(m.lanes)+len(b.entered) > mostLanesKnown {
		clear(m.lanes)
	}
	for _, id := range b.entered {
		m.lanes[id] = true
	}
}

// assumed is what a transaction that reads nothing assumes, beside the versions of its records and that there is no
// hold. Its statements fail with [pg.DivisionByZero] if it is wrong.
type assumed struct {
	counters map[string]int64        // their values
	due      int64                   // no job has become due until then; 0: that does not matter
	waiting  map[job.KindState]int64 // jobs that wait in a state have no priority number below this one
	lanes    []laneID                // that exist
}

// errUnknown reports that an operation reads what the writer does not remember.
var errUnknown = errors.New("not remembered")

// unread is the database of a transaction that reads nothing.
type unread struct{}

func (unread) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errUnknown }

func (unread) QueryRow(context.Context, string, ...any) pgx.Row { return unread{} }

func (unread) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults { return unreadBatch{} }

// Scan is part of pgx.Row.
func (unread) Scan(...any) error { return errUnknown }

// unreadBatch are the results of a batch that is not sent.
type unreadBatch struct{ pgx.BatchResults }

func (unreadBatch) Close() error { return errUnknown }

// assume takes what the server remembers for what the operations would read. It reports false if it does not remember
// all, or if they depend on more than a transaction can assume, such as limits; the batch is of no use then.
func (b *batch) assume(ops []*operation) bool {
	m, n := &b.s.memory, &b.needs
	if m.read.IsZero() || m.held {
		return false
	}
	b.assumed, b.q = &assumed{counters: map[string]int64{}, waiting: map[job.KindState]int64{}}, unread{}
	queue, until := false, time.Time{}
	for _, o := range ops {
		if o.needs == nil || o.claims() || len(o.kinds) > 0 || o.holds == exclusive {
			return false
		}
		o.needs(n)
		queue, until = queue || o.queue, later(until, o.until)
	}
	if n.Audited || len(n.Keys)+len(n.Messages)+len(n.Unsent) > 0 {
		return false
	}
	list, _, all := b.s.recent.needed(n.Jobs, ops)
	if !all || slices.ContainsFunc(list, func(r *record) bool { return !b.s.trusts(r) }) {
		return false
	}
	for _, r := range list {
		b.setRead(r)
	}
	b.trusted = list
	b.clock = m.expected(time.Now())
	b.turn = b.clock.UnixMicro()
	if queue {
		b.assumed.due = micro(b.at(until))
	}
	b.assumeEmpty(ops)
	return b.assumeCounters() && !slices.ContainsFunc(ops, b.readsMore)
}

// trusts reports whether a remembered record is written without being locked before. Jobs that workers have claimed,
// other than batches, are changed by their workers alone in nearly all cases; and so is each job while there is no
// other server.
func (s *Store) trusts(r *record) bool {
	return r.job.Claimed() && r.job.Children == job.Children{} || !s.others.Load()
}

// assumeCounters assumes the counters that the operations raise, unless other servers raise them too.
func (b *batch) assumeCounters() bool {
	for _, name := range b.counterNames() {
		value, known := b.s.memory.counters[name]
		if !known || b.s.others.Load() {
			return false
		}
		b.assumed.counters[name] = value
		b.count(name, value, nil)
	}
	return true
}

// readsMore reports whether an operation reads more than the records that were set, as readParents does.
func (b *batch) readsMore(o *operation) bool {
	n := &b.needs
	return len(o.changes) > 0 && n.Second(&b.known, o.changes) &&
		(len(n.Children) > 0 || slices.ContainsFunc(n.Jobs, func(id job.ID) bool { return !b.known.Has(id) }))
}

// assumeEmpty assumes that no job of the database is better than those of the transaction in the states in which these
// may be claimed: [batch.noBetter] notes what that means.
func (b *batch) assumeEmpty(ops []*operation) {
	for _, o := range ops {
		for _, at := range o.entering {
			if of := b.s.recent.get(at.job); of != nil {
				at.Kind = of.job.Kind
			}
			for _, suspect := range []bool{false, true} {
				s := newSource(sourceKey{at.KindState, "", suspect, byTurn})
				s.ended = true
				b.sources[s.sourceKey] = s
			}
		}
	}
}

// noBetter notes that a job was granted to its worker because no job that waits in its state has a better priority, or
// for a new job the same.
func (b *batch) noBetter(c *changed, isNew bool) {
	if b.assumed == nil {
		return
	}
	least, at := c.priority+int64(number(isNew)), c.key.KindState
	if known, is := b.assumed.waiting[at]; !is || known < least {
		b.assumed.waiting[at] = least
	}
}

const (
	beginAssumed = `WITH w AS (UPDATE writer SET seq = $2, seen = $3 WHERE id = $1 AND seq = $2 - 1
 RETURNING pg_advisory_xact_lock_shared($4, 0)) SELECT 1 / count(*) FROM w`
	// raiseAssumed locks the counters in the order of the arrays.
	raiseAssumed = `WITH g AS (UPDATE given g SET n = v.n FROM unnest($1::text[], $2::bigint[], $3::bigint[])
 AS v (what, was, n) WHERE g.what = v.what AND g.n = v.was RETURNING 1)
SELECT 1 / (count(*) = cardinality($1))::int FROM g`
)

// beginAssumed begins the transaction as [batch.begin] does, locks the holds and raises the counters.
func (b *batch) beginAssumed(p *pgx.Batch, seq int64) {
	p.Queue("BEGIN")
	b.s.scanned(p, -1)
	p.Queue(beginAssumed, b.s.id, seq, time.Now().UnixMicro(), int32(lockHolds))
	if len(b.higher) > 0 {
		slices.SortFunc(b.higher, byCounter)
		p.Queue(raiseAssumed, values(b.higher, func(c *counter) string { return c.name }),
			values(b.higher, func(c *counter) int64 { return b.assumed.counters[c.name] }),
			values(b.higher, func(c *counter) int64 { return c.n }))
	}
}

// The conditions of what was assumed.
const (
	noHold      = "NOT EXISTS (SELECT FROM hold)"
	sameClock   = "abs(extract(epoch FROM clock_timestamp()) * 1000000 - %s::bigint) < %s::bigint"
	noneDue     = "NOT EXISTS (SELECT FROM job_now WHERE waits = 2 AND due <= %s::bigint)"
	noneWaiting = `NOT EXISTS (SELECT FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS v (kind, state, priority)
  CROSS JOIN LATERAL (SELECT FROM lane l WHERE l.kind = v.kind AND l.state = v.state AND l.requires = '' AND
   l.suspect IN (false, true) AND l.waiting AND NOT l.held AND l.priority < v.priority LIMIT 1) l)`
	lanesExist = "(SELECT count(*) FROM lane WHERE id = ANY (%[1]s::uuid[])) = cardinality(%[1]s)"
)

// checkAssumed adds the conditions to the statement that writes the jobs. It sees the holds under their lock, which
// also keeps lanes from being removed.
func (b *batch) checkAssumed(s *statement) {
	a := b.assumed
	s.condition(noHold)
	s.condition(sameClock, b.clock.UnixMicro(), clockTolerance.Microseconds())
	if a.due != 0 {
		s.condition(noneDue, a.due)
	}
	if len(a.waiting) > 0 {
		states := slices.Collect(maps.Keys(a.waiting))
		s.condition(noneWaiting, values(states, func(p *job.KindState) string { return pg.Stored(string(p.Kind)) }),
			values(states, func(p *job.KindState) string { return pg.Stored(string(p.State)) }),
			values(states, func(p *job.KindState) int64 { return a.waiting[*p] }))
	}
	if len(a.lanes) > 0 {
		s.condition(lanesExist, values(a.lanes, func(id *laneID) pgtype.UUID { return id.uuid() }))
	}
}

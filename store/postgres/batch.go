package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// batch is one transaction: it reads and locks what its operations need, computes what they write, and writes that.
type batch struct {
	*view
	conn      *pgx.Conn
	s         *Store
	clock     time.Time // of the database
	needs     rules.Needs
	known     rules.Known
	writes    *rules.Writes      // those of the writer: the next transaction uses their memory again
	rows      map[job.ID]*record // that were read and are locked
	row       int64              // highest row number
	counters  []string           // that it has read
	holdsRead bool
	crowds    map[job.ID]job.ID // of new jobs
	news      map[job.ID]int64  // row numbers of new jobs
	refuse    []error           // of each operation, why it was refused
	stale     []job.ID          // remembered jobs that were changed since
	trusts    bool              // remembered jobs of own workers are locked when they are written
	trusted   []*record         // those jobs
	kept      *job.KeptClock    // to be written
	assumed   *assumed          // what it assumes; nil: it has read what it needs
	read      time.Time         // when clock was read
	higher    []counter         // counters that it raises
	entered   []laneID          // lanes that exist when it is committed
	result    *outcome          // of the writes
}

// at returns the present time: that of the database, or that of the caller if the options state so.
func (b *batch) at(caller time.Time) time.Time {
	if b.s.options.CallerTime {
		return caller
	}
	return b.clock
}

// errUnfinished reports that a transaction must begin again before it wrote anything.
var errUnfinished = errors.New("jobs have become due")

// prepare locks and reads what the operations need. It returns applied if the transaction was committed before, and its
// answer was lost. With promotes, it fails if jobs have become due.
func (b *batch) prepare(ctx context.Context, ops []*operation, seq int64, promotes bool) (applied bool, err error) {
	b.needs.Reset()
	holds, queue, kinds, until := unlocked, false, []job.Kind(nil), time.Time{}
	for _, o := range ops {
		if o.needs != nil {
			o.needs(&b.needs)
		}
		holds, queue, kinds, until = max(holds, o.holds), queue || o.queue, append(kinds, o.kinds...),
			later(until, o.until)
	}
	var p pgx.Batch
	b.begin(&p, seq, holds, &applied)
	b.lock(&p, kinds)
	due := int64(0)
	b.readClock(&p, queue, &due)
	b.readGiven(&p)
	if holds != unlocked || b.needs.Holds {
		b.readHolds(&p)
	}
	if !b.recall(&p, ops) {
		b.readJobs(&p, ops)
	}
	b.readMessages(&p)
	b.readAhead(&p, ops)
	if err := b.q.SendBatch(ctx, &p).Close(); err != nil || applied {
		return applied, err
	}
	if queue && promotes && due != 0 && due <= micro(b.at(until)) {
		return false, errUnfinished
	}
	b.turn = b.clock.UnixMicro()
	if err := b.readStale(); err != nil {
		return false, err
	}
	return false, b.readParents(ops)
}

const beginWrite = `UPDATE writer SET seq = $2, seen = $3 WHERE id = $1 AND seq = $2 - 1`

// begin begins the transaction, gives it a number, which no other transaction of this server has, and locks the holds.
func (b *batch) begin(p *pgx.Batch, seq int64, holds lock, applied *bool) {
	p.Queue("BEGIN")
	b.s.scanned(p, -1)
	statement, args := beginWrite, []any{b.s.id, seq, time.Now().UnixMicro()}
	switch holds {
	case shared:
		statement += " RETURNING pg_advisory_xact_lock_shared($4, 0)"
	case exclusive:
		statement += " RETURNING pg_advisory_xact_lock($4, 0)"
	}
	if holds != unlocked {
		args = append(args, int32(lockHolds))
	}
	p.Queue(statement, args...).Exec(func(tag pgconn.CommandTag) error {
		*applied = tag.RowsAffected() == 0
		return nil
	})
}

// The classes of advisory locks.
const (
	lockHolds = 0x53500001 + iota
	lockClaims
	lockLanes
	lockSchema
	lockLeader
	lockServers // each server shares it; a migration has it alone
)

// lock locks the claims of kinds, in a fixed order.
func (b *batch) lock(p *pgx.Batch, kinds []job.Kind) {
	slices.Sort(kinds)
	var hashes []int32
	for _, k := range slices.Compact(kinds) {
		hashes = append(hashes, hash(string(k)))
	}
	slices.Sort(hashes)
	if len(hashes) > 0 {
		p.Queue("SELECT pg_advisory_xact_lock($1, h) FROM unnest($2::int[]) AS h", int32(lockClaims),
			slices.Compact(hashes))
	}
}

const (
	selectClock = "SELECT clock_timestamp()"
	// selectFirstDue is when the first job that waits for its time becomes due.
	selectFirstDue = "SELECT coalesce(min(due), 0) FROM job_now WHERE waits = 2"
)

// readClock reads the time and, with queue, when the first job that waits for that becomes due.
func (b *batch) readClock(p *pgx.Batch, queue bool, due *int64) {
	if !queue {
		p.Queue(selectClock).QueryRow(func(row pgx.Row) error { return b.scanClock(row) })
		return
	}
	p.Queue(selectClock + ", (" + selectFirstDue + ")").QueryRow(func(row pgx.Row) error {
		return b.scanClock(row, due)
	})
}

func (b *batch) scanClock(row pgx.Row, more ...any) error {
	err := row.Scan(append([]any{&b.clock}, more...)...)
	b.read = time.Now()
	return err
}

// The names of counters.
const (
	countRows     = "row"
	countMessages = "message"
	countAudit    = "audit"
	countNumbers  = "number of "
)

// readGiven locks and reads the counters, in the order of their names. Those of new kinds are added.
func (b *batch) readGiven(p *pgx.Batch) {
	names := b.counterNames()
	if len(names) == 0 {
		return
	}
	b.counters = names
	if b.s.unknown(names) {
		p.Queue("INSERT INTO given SELECT unnest($1::text[]), 0, '' ON CONFLICT DO NOTHING", names)
	}
	p.Queue("SELECT what, n, hash FROM given WHERE what = ANY ($1) ORDER BY what FOR UPDATE", names).Query(
		func(rows pgx.Rows) error {
			var name string
			var n int64
			var sum []byte
			_, err := pgx.ForEachRow(rows, []any{&name, &n, &sum}, func() error {
				b.count(name, n, sum)
				return nil
			})
			return err
		})
}

// counterNames returns the names of the counters that the operations raise, in their order.
func (b *batch) counterNames() (names []string) {
	for _, k := range b.needs.Numbers {
		names = append(names, countNumbers+pg.Stored(string(k)))
	}
	if len(names) > 0 {
		names = append(names, countRows)
	}
	if b.needs.Posted {
		names = append(names, countMessages)
	}
	if b.needs.Audited {
		names = append(names, countAudit)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// count takes a counter over.
func (b *batch) count(name string, n int64, sum []byte) {
	switch name {
	case countRows:
		b.row = n
	case countMessages:
		b.known.Posted = n
	case countAudit:
		b.known.Audits = n
		copy(b.known.Sealed[:], sum)
	default:
		b.known.Numbers[job.Kind(pg.Original(name[len(countNumbers):]))] = n
	}
}

func (b *batch) readHolds(p *pgx.Batch) {
	p.Queue(selectHolds).Query(func(rows pgx.Rows) error {
		list, err := collect(b.s, rows, scanHold)
		rules.SortHolds(list)
		b.known.Holds, b.holdsRead = list, true
		b.setHolds(list)
		return err
	})
}

// setHolds makes the view use other holds.
func (b *batch) setHolds(all []job.Hold) {
	b.view.holds = all
	clear(b.sources)
}

// setRead adds a record that was read.
func (b *batch) setRead(r *record) {
	if !b.known.Has(r.job.ID) {
		b.rows[r.job.ID] = r
		b.known.Add(&r.job)
	}
}

const (
	// lockJobs reads records and locks them in the order of their ids: the jobs, those that have keys, and the parents
	// whose counts may change. $5 has for each job the count of its parent that it will be in, or that it is not
	// known.
	lockJobs = selectRecord + `WHERE m.id IN (SELECT unnest($1::text[]) UNION
 SELECT k.id FROM job_made k JOIN unnest($2::text[], $3::text[], $4::text[]) AS v (key, kind, owner)
  ON k.key = v.key AND k.kind = v.kind AND k.owner = v.owner AND k.key <> '' UNION
 SELECT p.parent FROM unnest($5::text[], $6::text[]) AS w (id, class) JOIN job_made p ON p.id = w.id
  JOIN job_now q ON q.n = p.n
  WHERE p.parent <> '' AND w.class <> CASE q.ended WHEN 0 THEN 'open' WHEN 1 THEN 'ended ' || q.outcome ELSE 'gone' END)
ORDER BY m.id FOR UPDATE OF j`
	lockRecords = selectRecord + "WHERE m.id = ANY ($1) ORDER BY m.id FOR UPDATE OF j"
)

// readJobs locks and reads the records.
func (b *batch) readJobs(p *pgx.Batch, ops []*operation) {
	n := &b.needs
	var ids, classes []string
	for _, o := range ops {
		for i := range o.changes {
			c := &o.changes[i]
			if class := classAfter(c); class != "" {
				ids, classes = append(ids, pg.Stored(string(c.Job))), append(classes, class)
			}
		}
	}
	if len(n.Jobs)+len(n.Keys) == 0 {
		return
	}
	keys, kinds, owners := make([]string, len(n.Keys)), make([]string, len(n.Keys)), make([]string, len(n.Keys))
	for i, k := range n.Keys {
		keys[i], kinds[i], owners[i] = pg.Stored(k.Key), pg.Stored(string(k.Kind)), pg.Stored(k.Owner)
	}
	p.Queue(lockJobs, storedAll(n.Jobs), keys, kinds, owners, ids, classes).Query(func(rows pgx.Rows) error {
		list, err := collect(b.s, rows, scanRecord)
		for _, r := range list {
			b.setRead(r)
		}
		return err
	})
}

// classAfter returns the count of its parent in which a job is after a change, "any" if the parent is read in any case,
// or "" if it is not needed.
func classAfter(c *job.Change) string {
	switch {
	case c.Purge:
		return ""
	case len(c.Require.ParentIn) > 0:
		return "any"
	case c.Event == "":
		return ""
	case c.Gone:
		return "gone"
	case c.Ended:
		return "ended " + pg.Stored(string(c.To.Outcome))
	}
	return "open"
}

// classOf is the count of its parent in which a job is.
func classOf(j *job.Job) string {
	switch {
	case j.Gone:
		return "gone"
	case j.Ended:
		return "ended " + pg.Stored(string(j.Outcome))
	}
	return "open"
}

func (b *batch) readMessages(p *pgx.Batch) {
	if len(b.needs.Messages) == 0 {
		return
	}
	p.Queue(selectMessage+"WHERE key = ANY ($1) ORDER BY key FOR UPDATE", storedAll(b.needs.Messages)).Query(
		func(rows pgx.Rows) error {
			list, err := collect(b.s, rows, scanMessage)
			for _, m := range list {
				b.known.AddMessage(m)
			}
			return err
		})
}

// selectUnsent reads the messages of the job only: the index of pending ones has those of all jobs.
const selectUnsent = `WITH of_job AS MATERIALIZED (SELECT key, settled FROM message WHERE job = $1)
SELECT key FROM of_job WHERE settled = '' LIMIT 1`

// readParents reads what follows from the records: parents that are not locked yet, because a job has changed
// meanwhile, and what prevents purges.
func (b *batch) readParents(ops []*operation) error {
	var p pgx.Batch
	unsent, most := slices.Clone(b.needs.Unsent), 1
	for _, o := range ops {
		most += len(o.changes)
	}
	for _, o := range ops {
		if len(o.changes) == 0 || !b.needs.Second(&b.known, o.changes) {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(b.needs.Jobs), b.known.Has)
		if len(missing) > 0 {
			p.Queue(lockRecords, storedAll(missing)).Query(func(rows pgx.Rows) error {
				list, err := collect(b.s, rows, scanRecord)
				for _, r := range list {
					b.setRead(r)
				}
				return err
			})
		}
		for _, id := range b.needs.Children {
			p.Queue("SELECT count(*) FROM (SELECT 1 FROM job_made WHERE parent = $1 AND parent <> '' LIMIT $2) c",
				pg.Stored(string(id)), most).QueryRow(func(row pgx.Row) error {
				var n int
				err := row.Scan(&n)
				b.known.AddChildren(id, n)
				return err
			})
		}
	}
	for _, id := range unsent {
		p.Queue(selectUnsent, pg.Stored(string(id))).Query(
			func(rows pgx.Rows) error {
				var key string
				_, err := pgx.ForEachRow(rows, []any{&key}, func() error {
					b.known.AddUnsent(id, pg.Original(key))
					return nil
				})
				return err
			})
	}
	if p.Len() == 0 {
		return nil
	}
	return b.q.SendBatch(b.ctx, &p).Close()
}

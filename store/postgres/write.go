package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

var errClosed = errors.New("the store is closed")

// mostOperations bounds the operations of one transaction.
const mostOperations = 512

// writer is the goroutine that writes: it gathers the operations that wait, and carries them out in one transaction.
type writer struct {
	s      *Store
	conn   *pgx.Conn    // nil: not connected
	seq    int64        // of the last transaction
	sure   int64        // of the last one that is known to be committed
	writes rules.Writes // of the last transaction
	// transactions that trust no remembered record: many after one for which that was wrong
	wary int
	// transactions that assume nothing: some after one that assumed what was wrong
	reading int
}

// run carries out operations until the store is closed.
func (w *writer) run() {
	defer close(w.s.closed)
	for {
		select {
		case <-w.s.closing:
			w.disconnect()
			return
		case o := <-w.s.operations:
			began := time.Now()
			n := w.group(o)
			if n > 1 {
				w.linger(n+len(w.s.operations), time.Since(began)/lingerPart, quiet)
			}
		}
	}
}

const (
	lingerPart = 8                      // of the time that the last transaction took: the longest linger
	quiet      = 100 * time.Microsecond // without a further operation: its end
)

// linger gives the callers that were answered time for their next operations, so that these share a transaction with
// those that wait: a transaction of many takes little longer than one of few. It ends when all are there, after most,
// or when none has arrived for some time.
func (w *writer) linger(all int, most, quiet time.Duration) {
	all = min(all, mostOperations)
	began, arrived, seen := time.Now(), time.Duration(0), 0
	for {
		n, since := len(w.s.operations), time.Since(began)
		if n > seen {
			seen, arrived = n, since
		}
		if n >= all || since >= most || since-arrived >= quiet {
			return
		}
		runtime.Gosched()
	}
}

// group carries out an operation with all others that wait, and returns their number.
func (w *writer) group(first *operation) int {
	ops := []*operation{first}
	for len(ops) < mostOperations {
		select {
		case o := <-w.s.operations:
			ops = append(ops, o)
			continue
		default:
		}
		break
	}
	ops = slices.DeleteFunc(ops, func(o *operation) bool { return !o.taken.CompareAndSwap(false, true) })
	ops = answerEnded(ops)
	// claims first: while other jobs wait, those of the other operations cannot be claimed in the same commit
	slices.SortStableFunc(ops, func(a, b *operation) int { return number(!a.claims()) - number(!b.claims()) })
	if w.s.grouped != nil {
		w.s.grouped(len(ops))
	}
	if len(ops) > 0 {
		_ = w.carryOut(ops) // the callers have the error
	}
	return len(ops)
}

// answerEnded answers the operations of callers whose contexts have ended, while nothing of them can have been
// committed, and returns the others.
func answerEnded(ops []*operation) []*operation {
	return slices.DeleteFunc(ops, func(o *operation) bool {
		err := o.ctx.Err()
		if err != nil {
			o.done <- &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
		}
		return err != nil
	})
}

// carryOut carries out operations in one transaction and answers their callers. What cannot be written, such as a value
// that PostgreSQL refuses, fails alone. If the database cannot be reached then, the rest fails without an attempt: no
// caller waits for the patience of several operations. It returns the error for which it could not go on.
func (w *writer) carryOut(ops []*operation) error {
	rest, err := w.retry(ops)
	if err == nil {
		return nil
	}
	if len(rest) > 1 && !temporary(err) {
		err = nil
		for i, o := range rest {
			if err = w.carryOut([]*operation{o}); temporary(err) {
				rest = rest[i+1:]
				break
			}
		}
		if !temporary(err) {
			return nil
		}
	}
	for _, o := range rest {
		o.done <- wrapped("store", err)
	}
	return err
}

// retry tries to commit operations until that succeeds, fails for a reason that does not pass, or the patience of the
// store ends: at most Options.Patience, and the time of the attempt that it has begun, at most Options.Timeout for
// each of its parts. All attempts have one number, so that no operation is carried out twice. While no attempt may have
// been committed, it answers callers whose contexts have ended; the operations of all others are in rest.
func (w *writer) retry(ops []*operation) (rest []*operation, err error) {
	w.seq++
	w.wary, w.reading = max(0, w.wary-1), max(0, w.reading-1)
	began, wait, duplicates := time.Now(), w.s.options.RetryAfter, 0
	var b *batch // of the last attempt
	for due, first := true, true; ; first = false {
		last := b
		next, applied, err := w.attempt(ops, due, first)
		if applied {
			next, err = last, nil
		}
		if err == nil {
			if next == nil { // committed by a transaction whose computation is lost: that cannot be
				return ops, job.Errorf(job.Internal, "store", "", "transaction %d of this server exists", w.seq)
			}
			w.sure = w.seq
			w.s.refuses.Store(false)
			w.s.committed(next, ops)
			return nil, nil
		}
		if next != nil {
			b = next
		}
		if w.s.afterFailure != nil {
			w.s.afterFailure(w)
		}
		if errors.Is(err, errUnfinished) {
			if due, err = w.promote(ops); err == nil {
				continue
			}
		}
		if next != nil && next.assumed != nil && pg.State(err) == pg.DivisionByZero {
			w.reading = longReading
			continue
		}
		if errors.Is(err, errMistrusted) || next != nil && next.trusts && mistrusted(err) {
			w.wary = longWary
			continue
		}
		if pg.State(err) == pg.UniqueViolation {
			if duplicates++; duplicates > mostDuplicates {
				return ops, persistent{err}
			}
		}
		if errors.Is(err, errUncommitted) {
			continue
		}
		if pg.State(err) == pg.ReadOnly { // the connections lead to a server that is no primary any more
			err = fmt.Errorf("%w: %w", errReadOnly, err)
			w.s.refuses.Store(true)
			w.disconnect()
			w.s.pool.Reset()
		}
		w.s.noteFailure(err)
		if errors.Is(err, errRenumbered) {
			continue
		}
		if !temporary(err) || time.Since(began) > w.s.options.Patience {
			return ops, err
		}
		if b == nil {
			if ops = answerEnded(ops); len(ops) == 0 {
				return nil, nil
			}
		}
		select {
		case <-w.s.closing:
			return ops, err
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// errMistrusted reports that a creation was refused without a search for jobs that exist already.
var errMistrusted = errors.New("new jobs were not searched for")

// longWary is how many transactions follow one that failed because a trusted record was changed elsewhere, before one
// trusts again. If all records are changed by turns on several servers, one of so many is tried twice.
const longWary = 100

// longReading is the same for a transaction that assumed what was wrong: another one reads it.
const longReading = 16

// mistrusted reports whether an attempt failed because a remembered record is not that of the database, or because a
// new job exists.
func mistrusted(err error) bool {
	return pg.State(err) == pg.DivisionByZero || pg.State(err) == pg.UniqueViolation
}

// mostDuplicates bounds the attempts after a unique violation. Another server may have been first; more than a few are
// a defect.
const mostDuplicates = 5

// persistent is an error of a temporary kind that remains.
type persistent struct{ error }

func (p persistent) Unwrap() error { return p.error }

// attempt makes one attempt. With due, jobs that have become due are promoted before. The first attempt reads nothing
// if the server remembers what the operations need. It returns the transaction if that was to be committed: with an
// error, the result is not known. applied reports that an earlier attempt was committed.
func (w *writer) attempt(ops []*operation, due, first bool) (b *batch, applied bool, err error) {
	ctx, stop := context.WithTimeout(context.Background(), w.s.options.Timeout)
	defer stop()
	if err := w.connect(ctx); err != nil {
		return nil, false, err
	}
	defer func() {
		if b == nil || err != nil || applied {
			w.rollBack()
		}
	}()
	if first && w.wary == 0 && w.reading == 0 {
		one := w.newBatch(ctx)
		one.trusts = true
		if one.assume(ops) {
			if err = one.compute(ops); err == nil {
				return one, false, w.flush(one)
			}
			if !errors.Is(err, errUnknown) {
				return nil, false, err
			}
		}
	}
	one := w.newBatch(ctx)
	one.trusts = w.wary == 0
	missed, err := one.prepare(ctx, ops, w.seq, due)
	if err == nil && missed {
		applied, err = w.resolve(ctx)
	}
	if err != nil || applied {
		return nil, applied, err
	}
	if err := one.compute(ops); err != nil {
		return nil, false, err
	}
	return one, false, w.flush(one)
}

func (w *writer) flush(b *batch) error {
	if w.s.beforeFlush != nil {
		w.s.beforeFlush(w)
	}
	return b.flush(w.seq)
}

// compute computes what the operations write.
func (b *batch) compute(ops []*operation) error {
	b.writes.Reset(&b.known)
	b.refuse = make([]error, len(ops))
	for i, o := range ops {
		err := o.apply(b)
		var refusal *job.Error
		if err != nil && !errors.As(err, &refusal) {
			return err
		}
		b.refuse[i] = err
		if err != nil && b.trusts && len(o.created) > 0 {
			return errMistrusted // a job that was taken to be new may exist, and then be the answer
		}
	}
	return nil
}

// errUncommitted reports that the writer's row has the number of the last transaction that is known to be committed,
// and not that of a later one that failed: it has that one now.
var errUncommitted = errors.New("the last transaction of this server was not committed")

// errRenumbered reports that the writer's row was not there or had an earlier number, and is there now.
var errRenumbered = errors.New("the database does not have the last transaction of this server")

// resolve finds out whether a transaction was committed whose result is not known: its number is that of the writer's
// row, on which the present transaction has waited for it. If the row has another number, the database has lost
// transactions, as a replica may have when it takes over, or the row was removed because it was old: it is written
// again.
func (w *writer) resolve(ctx context.Context) (applied bool, err error) {
	w.rollBack()
	if err := w.connect(ctx); err != nil {
		return false, err
	}
	var seq int64
	err = w.conn.QueryRow(ctx, "SELECT seq FROM writer WHERE id = $1", w.s.id).Scan(&seq)
	found := err == nil
	if found && seq == w.seq {
		return true, nil
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, err
	}
	if err := w.s.refuseMarked(ctx, w.conn); err != nil { // a migration removed the row
		return false, err
	}
	_, err = w.conn.Exec(ctx, `INSERT INTO writer (id, seq, seen) VALUES ($1, $2, $3)
 ON CONFLICT (id) DO UPDATE SET seq = $2`, w.s.id, w.seq-1, time.Now().UnixMicro())
	if err != nil {
		return false, err
	}
	if found && seq >= w.sure {
		return false, errUncommitted
	}
	return false, errRenumbered
}

// newBatch returns a transaction on the connection.
func (w *writer) newBatch(ctx context.Context) *batch {
	b := &batch{view: newView(ctx, w.conn), conn: w.conn, s: w.s, writes: &w.writes, rows: map[job.ID]*record{},
		crowds: map[job.ID]job.ID{}, news: map[job.ID]int64{}}
	b.known.Numbers = map[job.Kind]int64{}
	w.s.mu.Lock()
	b.given = maps.Clone(w.s.given)
	w.s.mu.Unlock()
	return b
}

// promote makes jobs claimable that have become due. It reports whether it found some: those that it does not find are
// locked by another transaction, which changes them.
func (w *writer) promote(ops []*operation) (found bool, err error) {
	ctx, stop := context.WithTimeout(context.Background(), w.s.options.Timeout)
	defer stop()
	for {
		if err := w.connect(ctx); err != nil {
			return found, err
		}
		b := w.newBatch(ctx)
		err := w.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&b.clock)
		var n int
		if err == nil {
			_, err = w.conn.Exec(ctx, "BEGIN")
		}
		if err == nil {
			until := time.Time{}
			for _, o := range ops {
				until = later(until, o.until)
			}
			n, err = b.promote(micro(b.at(until)))
		}
		if err != nil {
			w.rollBack()
			return found, err
		}
		found = found || n > 0
		if n < 5000 {
			return found, nil
		}
	}
}

// committed answers the callers and notifies the watchers.
func (s *Store) committed(b *batch, ops []*operation) {
	s.mu.Lock()
	s.given = b.given
	s.mu.Unlock()
	for _, name := range b.counters {
		s.names.LoadOrStore(name, true)
	}
	s.visited.Add(b.visits)
	s.touched.Add(int64(len(b.writes.Jobs) + len(b.writes.Messages) + len(b.writes.Audits)))
	s.recent.written(b.result)
	s.memory.committed(b)
	hints := b.hints()
	for i, o := range ops {
		o.done <- b.refuse[i]
	}
	s.watchers.Notify(hints)
	s.announce(hints)
}

// connect makes a connection if there is none.
func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	w.s.recent.forget()
	w.s.memory.forget()
	config := w.s.config.ConnConfig.Copy()
	if w.s.writerDial != nil {
		config.DialFunc = w.s.writerDial
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	pg.RegisterArrays(conn.TypeMap())
	err = set(ctx, conn, slices.Concat(planSettings, writerSettings))
	if err == nil {
		err = pg.RegisterRows(ctx, conn, rowTypes)
	}
	if err != nil {
		_ = conn.Close(ctx)
		return err
	}
	w.conn = conn
	return nil
}

// writerSettings are those of the connection that writes. A transaction whose server is gone does not keep its locks.
// Plans are made once: with planSettings those of its statements do not depend on the values, and to make them takes
// longer than to execute most of them.
var writerSettings = []string{"SET synchronous_commit = on", "SET idle_in_transaction_session_timeout = '15s'",
	"SET lock_timeout = '10s'", "SET default_transaction_isolation = 'read committed'",
	"SET plan_cache_mode = force_generic_plan"}

// rollBack ends a transaction that is not to be committed.
func (w *writer) rollBack() {
	if w.conn == nil || w.conn.IsClosed() {
		w.conn = nil
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if _, err := w.conn.Exec(ctx, "ROLLBACK"); err != nil {
		w.disconnect()
	}
}

func (w *writer) disconnect() {
	if w.conn != nil {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = w.conn.Close(ctx)
		w.conn = nil
	}
}

// temporary reports whether a later attempt may succeed: the connection was lost, or the server ended, refused or
// rolled back the transaction for a reason that is not in the transaction itself.
func temporary(err error) bool {
	if errors.As(err, new(persistent)) {
		return false
	}
	// after a unique violation: another server was first, the next attempt finds what it made
	return pg.State(err) == pg.UniqueViolation || pg.Temporary(err)
}

// hash is a number for a text, for advisory locks.
func hash(text string) int32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, text)
	return int32(h.Sum32())
}

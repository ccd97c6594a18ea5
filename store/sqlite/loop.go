package sqlite

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// The commit loop. One goroutine receives the operations of all callers. It takes all that wait, runs them through
// the ledger inside one transaction, and commits with one sync. Only then it notifies watchers and answers callers:
// nothing is visible before it is on disk. An operation that the ledger refuses has written nothing and fails alone.

const (
	mostOps = 512                   // in one transaction: further callers get ready during it
	linger  = 40 * time.Microsecond // wait for more after a transaction, if several callers are known
	quiet   = 20 * time.Microsecond // wait on after that while they arrive at this interval
)

// op is one operation in the loop.
type op struct {
	run   func(*ledger.Ledger) error // nil: it commits changes
	kind  opKind
	err   error
	taken atomic.Bool   // by the loop, or by a caller that left before it
	done  chan struct{} // has space for the answer

	changes []job.Change
	results []job.Result
}

// runOp executes an operation. A commit, which most are, needs no function of its own.
func (s *Store) runOp(o *op) error {
	if o.run != nil {
		return o.run(s.ledger)
	}
	return s.ledger.Commit(s.records, o.changes, o.results)
}

// freeOps are operations whose callers have their answers.
type freeOps struct{ pool sync.Pool }

func (f *freeOps) get() *op {
	if o, ok := f.pool.Get().(*op); ok {
		o.taken.Store(false)
		return o
	}
	return &op{done: make(chan struct{}, 1)}
}

func (f *freeOps) put(o *op) {
	o.run, o.err, o.changes, o.results = nil, nil, nil, nil
	f.pool.Put(o)
}

// opKind is how an operation runs.
type opKind byte

const (
	writesDatabase opKind = iota // in a transaction of the database, after a flush if there is a log in front of it
	writesRecords                // in a transaction that may end in the log
	readsMemory                  // writes nothing: between transactions
)

// inbox holds the operations that wait for the loop.
type inbox struct {
	mu      sync.Mutex // guards waiting and closed
	waiting []*op
	closed  bool
	count   atomic.Int32
	wake    chan struct{} // has capacity for one
}

func (b *inbox) put(o *op) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.waiting = append(b.waiting, o)
	if b.count.Add(1) == 1 {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take moves up to n operations into batch.
func (b *inbox) take(batch []*op, n int) []*op {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.waiting))
	batch = append(batch, b.waiting[:n]...)
	rest := copy(b.waiting, b.waiting[n:])
	clear(b.waiting[rest:])
	b.waiting = b.waiting[:rest]
	b.count.Store(int32(rest))
	return batch
}

// close refuses further operations; the loop still takes waiting ones.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

var errClosed = errors.New("the store is closed")

// do sends an operation through the loop and waits for it. A caller whose context ends gets kind Unavailable, but
// only until the loop has taken the operation: the answer is always its result.
func (s *Store) do(ctx context.Context, reads bool, run func(*ledger.Ledger) error) error {
	kind := writesDatabase
	if reads {
		kind = readsMemory
	}
	return s.doAs(ctx, kind, run)
}

func (s *Store) doAs(ctx context.Context, kind opKind, run func(*ledger.Ledger) error) error {
	o := s.freeOps.get()
	o.run, o.kind = run, kind
	return s.send(ctx, o)
}

// send is [Store.doAs] for an operation of freeOps.
func (s *Store) send(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
	}
	if !s.inbox.put(o) {
		return &job.Error{Op: "store", Kind: job.Unavailable, Err: errClosed}
	}
	left := ctx.Done()
	if left == nil { // most commits of an engine
		<-o.done
		return s.result(o)
	}
	select {
	case <-o.done:
	case <-left:
		if o.taken.CompareAndSwap(false, true) {
			return &job.Error{Op: "store", Kind: job.Unavailable, Err: ctx.Err()} // the loop still has the operation
		}
		<-o.done
	}
	return s.result(o)
}

// result returns the result of an operation that was answered.
func (s *Store) result(o *op) error {
	err := o.err
	s.freeOps.put(o)
	return err
}

// Waiting returns the number of operations that wait for the commit loop.
func (s *Store) Waiting() int { return int(s.inbox.count.Load()) }

// loop runs until the inbox is closed and empty.
func (s *Store) loop() {
	defer close(s.stopped)
	var ops []*op
	last := 0
	for {
		if most := min(last+s.Waiting(), mostOps); last > 0 && most > 1 {
			s.linger(most)
		}
		ops = s.inbox.take(ops[:0], mostOps)
		if len(ops) == 0 {
			if s.inbox.idle() {
				return
			}
			last = 0
			<-s.inbox.wake
			continue
		}
		last = s.round(ops)
		clear(ops)
	}
}

// idle reports whether no operation waits or can arrive.
func (b *inbox) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && len(b.waiting) == 0
}

// mostYields bounds the lingering if the clock stands still (testing/synctest).
const mostYields = 10_000

// linger gives the answered callers time for their next operations, so that they share the next sync with those that
// wait: at most half as long as the last sync took, if they keep arriving. most is how many there can be.
func (s *Store) linger(most int) {
	begin := time.Now()
	longest, arrived, seen := max(linger, s.synced/2), time.Duration(0), 0
	for range mostYields {
		count, since := int(s.inbox.count.Load()), time.Since(begin)
		if count > seen {
			seen, arrived = count, since
		}
		if count >= most || since >= longest || since >= linger && since-arrived >= quiet {
			return
		}
		runtime.Gosched()
	}
}

// round carries out operations and answers them. It returns their number.
func (s *Store) round(ops []*op) int {
	writes := ops[:0]
	for _, o := range ops {
		switch {
		case !o.taken.CompareAndSwap(false, true): // its caller has left
		case s.dead.Load() != nil:
			o.answer(s.deadError())
		case o.kind == readsMemory:
			o.answer(s.runOp(o))
		default:
			writes = append(writes, o)
		}
	}
	n := len(writes)
	if s.records.front != nil { // first what ends in the log
		slices.SortStableFunc(writes, func(a, b *op) int { return int(b.kind) - int(a.kind) })
		i := slices.IndexFunc(writes, func(o *op) bool { return o.kind == writesDatabase })
		if i > 0 {
			s.write(writes[:i])
			writes = writes[i:]
		}
	}
	if len(writes) > 0 {
		s.write(writes)
	}
	return n
}

func (o *op) answer(err error) {
	o.err = err
	o.done <- struct{}{} // the operation is its caller's again
}

func answerAll(ops []*op, err error) {
	for _, o := range ops {
		o.answer(err)
	}
}

// write carries out operations in one transaction, or each in its own if a statement fails.
func (s *Store) write(ops []*op) {
	if s.dead.Load() != nil {
		answerAll(ops, s.deadError())
		return
	}
	if s.applier.lacksSpace() {
		s.setFull(true)
	}
	if s.full && !s.spaceAgain() {
		answerAll(ops, s.fullError())
		return
	}
	if err := s.beginLog(); err != nil {
		s.stop(err)
		answerAll(ops, s.deadError())
		return
	}
	err := s.transact(ops)
	if err == nil {
		return
	}
	if s.recover(err); s.dead.Load() != nil || s.full {
		answerAll(ops, s.lost(err))
		return
	}
	if len(ops) == 1 && !isDamage(err) {
		ops[0].answer(s.lost(err))
		return
	}
	for i, o := range ops {
		err := s.transactPastDamage(ops[i : i+1])
		if err == nil {
			continue
		}
		if s.recover(err); s.dead.Load() != nil || s.full {
			answerAll(ops[i:], s.lost(err))
			return
		}
		o.answer(s.lost(err))
	}
}

// transactPastDamage runs one operation. Each time it finds the record of another job damaged, which then leaves the
// queue, it retries: a claim gets other jobs.
func (s *Store) transactPastDamage(op []*op) error {
	for {
		known := len(s.records.damaged)
		err := s.transact(op)
		if !isDamage(err) || len(s.records.damaged) == known {
			return err
		}
		s.report(err)
		if s.recover(err); s.dead.Load() != nil {
			return err
		}
	}
}

// transact runs operations in one transaction and, when it is on disk, publishes and answers them. An error means
// that the transaction has failed and no caller was answered.
func (s *Store) transact(ops []*op) error {
	r, began := s.records, time.Now()
	if r.front.usable() && ops[0].kind == writesRecords {
		if err := s.transactRecord(ops); err != nil {
			return err
		}
	} else if err := s.transactDatabase(ops); err != nil {
		return err
	}
	took := time.Since(began)
	s.lines.apply(r.lines)
	r.lines = r.lines[:0]
	s.watch.Notify(s.hints()) // first: callers with their answers would contend for what those who are notified lock
	for _, o := range ops {
		o.answer(o.err)
	}
	if s.options.OnCommit != nil {
		s.options.OnCommit(len(ops), took)
	}
	if s.unsaved >= mostUnsaved { // memory is bounded; on a full disk the log goes on while it has space
		_ = s.applier.flush(context.Background())
		s.unsaved = 0
	}
	return nil
}

func (s *Store) runAll(ops []*op) error {
	for _, o := range ops {
		o.err = s.runOp(o)
		if s.records.failed != nil {
			return s.records.failed
		}
		if s.records.logging() == nil {
			s.records.cache.age()
		}
	}
	return nil
}

// transactDatabase runs operations in a transaction of the database.
func (s *Store) transactDatabase(ops []*op) error {
	if err := s.applier.flush(context.Background()); err != nil {
		return err
	}
	s.writer.Lock()
	defer s.writer.Unlock()
	if err := s.records.begin(); err != nil {
		return err
	}
	if err := s.runAll(ops); err != nil {
		return err
	}
	begin := time.Now()
	if err := s.records.commit(s.ledger.LastAudit()); err != nil {
		return &commitError{err}
	}
	s.synced = time.Since(begin)
	s.checkpoint()
	return nil
}

// transactRecord runs operations in a transaction that ends in the log.
func (s *Store) transactRecord(ops []*op) error {
	if err := s.records.beginRecord(); err != nil {
		return err
	}
	if err := s.runAll(ops); err != nil {
		return err
	}
	begin := time.Now()
	waiting, err := s.records.commitRecord(s.ledger.LastAudit())
	if err != nil {
		return err
	}
	s.synced = time.Since(begin)
	s.applier.published(waiting)
	s.unsaved = waiting
	return nil
}

// commitError is the failure of a COMMIT: it is unknown whether the disk has the transaction.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// recover reloads memory from the disk after a failed transaction. After a failed sync the content of the disk is
// unknown, so after a failed COMMIT the store stops and the next start reads the disk.
func (s *Store) recover(err error) {
	var commit *commitError
	fault := faultOf(err)
	if fault == conn.Corrupt || (errors.As(err, &commit) && fault != conn.Full) || s.records.front.lost() {
		s.stop(err)
		return
	}
	s.setFull(fault == conn.Full)
	if err := s.records.rollback(); err != nil {
		s.stop(err)
		return
	}
	if err := s.reload(); err != nil {
		s.stop(err)
	}
}

// lost is the answer to an operation whose transaction failed.
func (s *Store) lost(err error) error {
	switch {
	case s.dead.Load() != nil:
		return s.deadError()
	case s.full:
		return s.fullError()
	case isDamage(err):
		return err
	}
	return &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
}

// stop ends the store: every call returns kind Unavailable from now on, and the process should end.
func (s *Store) stop(err error) {
	if s.dead.CompareAndSwap(nil, &deadStore{err}) {
		s.deaths <- err
		if s.options.OnDeath != nil {
			s.options.OnDeath(err)
		}
	}
}

// deadStore is the reason why a store stopped.
type deadStore struct{ err error }

func (s *Store) deadError() error {
	return job.Errorf(job.Unavailable, "store", "", "the store has stopped: %w", s.dead.Load().err)
}

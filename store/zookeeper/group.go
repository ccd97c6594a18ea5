package zookeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// mostGrouped bounds the operations that one multi makes.
const mostGrouped = 128

// call is an operation whose caller waits for it.
type call struct {
	ctx context.Context

	// op carries out the operation, but for its failure to be written. It may be called again if nothing of it was
	// written: it sets its answer anew.
	op func(*records)

	taken  atomic.Bool // it is being carried out, or its caller has left
	done   chan struct{}
	failed error      // nothing of it was written, or that is unknown; read it after done is closed
	hints  []job.Hint // of what it changed
}

// do carries out an operation. Operations that wait for another one share a multi: they are carried out in memory in
// turn, and answered when all that they changed is written.
func do[T any](s *Store, ctx context.Context, op func(*records) (T, error)) (answer T, err error) {
	c := newCall(ctx, func(r *records) { answer, err = op(r) })
	s.wait(c)
	if c.failed != nil {
		var none T
		return none, c.failed
	}
	return answer, err
}

func newCall(ctx context.Context, op func(*records)) *call {
	return &call{ctx: ctx, op: op, done: make(chan struct{})}
}

// wait returns when the calls were carried out, or their caller has left before. They are carried out in their order.
func (s *Store) wait(calls ...*call) {
	s.queued.Lock()
	s.calls = append(s.calls, calls...)
	s.queued.Unlock()
	for _, c := range calls {
		select {
		case s.turn <- struct{}{}:
			s.rounds(c)
		case <-c.done:
		case <-c.ctx.Done():
			if c.taken.CompareAndSwap(false, true) {
				c.answer(&job.Error{Op: "store", Kind: job.Unavailable, Err: c.ctx.Err()})
			}
		}
		<-c.done
	}
}

func (c *call) answer(err error) {
	c.failed = err
	close(c.done)
}

// rounds carries out the calls that wait, until the caller's own was among them, and gives the turn back.
func (s *Store) rounds(own *call) {
	defer func() { <-s.turn }()
	for {
		select {
		case <-own.done:
			return
		default:
		}
		s.queued.Lock()
		n := min(len(s.calls), mostGrouped)
		calls := s.calls[:n:n]
		s.calls = s.calls[n:]
		s.queued.Unlock()
		s.carryOut(calls)
	}
}

// carryOut carries out calls, notifies the watchers and answers the callers.
func (s *Store) carryOut(calls []*call) {
	var live []*call
	for _, c := range calls {
		if c.taken.CompareAndSwap(false, true) {
			live = append(live, c)
		}
	}
	for len(live) > 0 {
		s.mu.Lock()
		n := s.together(live)
		var hints []job.Hint
		for _, c := range live[:n] {
			if c.failed == nil {
				hints = append(hints, c.hints...)
			}
		}
		s.mu.Unlock()
		s.watchers.Notify(hints)
		for _, c := range live[:n] {
			c.answer(c.failed)
		}
		live = live[n:]
	}
}

// together carries out calls, the first ones of the list, and returns how many. The caller has the lock.
func (s *Store) together(calls []*call) int {
	n, again := s.attempt(calls)
	if !again {
		return n
	}
	for i := range n { // the servers refused one of them, and so all
		s.attempt(calls[i : i+1])
	}
	return n
}

// attempt carries out calls in memory, and writes what they changed in one multi. It returns how many calls it carried
// out, and whether each of them is to be made by itself: the servers refused the multi of several calls, and nothing of
// these was made.
func (s *Store) attempt(calls []*call) (n int, again bool) {
	first := calls[0]
	first.failed = first.ctx.Err()
	if first.failed == nil {
		first.failed = s.ready(first.ctx)
	}
	if first.failed != nil {
		first.failed = unavailable("store", first.failed)
		return 1, false
	}
	r := &records{s: s, replica: s.r}
	for n < len(calls) && r.refused == nil && r.failed == nil && r.bytes < session.MostBytes/2 {
		c := calls[n]
		r.ctx, r.apart, c.failed, c.hints = context.WithoutCancel(c.ctx), false, nil, nil
		c.op(r)
		for _, j := range slices.Clone(r.ledger.Touched()) {
			c.hints = append(c.hints, job.HintOf(&j))
		}
		n++
		r.calls = n
		if len(r.pending) == 0 && r.failed == nil {
			r.written = n
		}
	}
	if r.failed == nil {
		r.flush()
	}
	if r.refused != nil {
		calls[n-1].failed = r.refused
		s.r = nil // the queue may have changed without the records
	}
	if r.failed == nil {
		return n, false
	}
	s.r = nil
	if s.over(r.failed) {
		s.drop()
	} else if r.multis == 0 && n > 1 && session.KindOf(r.failed) != session.Unsent {
		return n, true
	}
	for _, c := range calls[r.written:n] {
		c.failed = writeError(r.failed)
	}
	return n, false
}

// over reports whether this session may not write any more: it has ended, it does not own the store, or what it wrote
// last is not known.
func (s *Store) over(err error) bool {
	switch session.KindOf(err) {
	case session.Unknown, session.Lost:
		return true
	case session.BadVersion:
		var e *session.Error
		return errors.As(err, &e) && e.Path == s.root.epoch()
	}
	return false
}

// records is the store as its ledger uses it, for the operations of one multi.
type records struct {
	*replica
	s       *Store
	ctx     context.Context // of the operation
	pending []session.Op    // what was applied in memory and is not written
	bytes   int             // of pending
	apart   bool            // what the operation changes need not be written together: it is a claim, or its like
	calls   int             // that were carried out in memory
	written int             // of them, the first ones: all that they changed is written
	multis  int             // that were made
	refused error           // the last operation cannot be made: it is too large, or a purge that a mirror refused
	failed  error           // of a multi
}

var _ ledger.Records = (*records)(nil)

// Read is part of ledger.Records.
func (r *records) Read(n *rules.Needs, k *rules.Known) error {
	r.read(n, k)
	return nil
}

// Due is part of ledger.Records.
func (r *records) Due(t *job.Taking) ([]job.Message, error) { return r.due(t), nil }

// Write is part of ledger.Records.
func (r *records) Write(w *rules.Writes) error {
	if r.s.mirror != nil {
		return r.writeShown(w)
	}
	made, err := operations(r.s.root, r.replica, w, nil)
	if err != nil {
		r.refused = err
		return err
	}
	if err := r.addAll(made); err != nil {
		return err
	}
	r.apply(w)
	return nil
}

// addAll adds the operations of an operation of the store to the next multi. If they exceed one, and need not be made
// together, it adds them to several, each with whole jobs and messages.
func (r *records) addAll(made *writer) error {
	if !r.apart || session.Size(made.ops) <= session.MostBytes-margin {
		return r.add(made.ops...)
	}
	parts := made.parts()
	for _, ops := range parts {
		if session.Size(ops) > session.MostBytes-margin { // before any of them is added
			return r.add(ops...)
		}
	}
	for _, ops := range parts {
		if err := r.add(ops...); err != nil {
			return err
		}
	}
	return nil
}

// margin is what a multi has beside the operations of its calls, in bytes, at most.
const margin = 1000

// add adds operations to the next multi. If they exceed it, what was added before is written first.
func (r *records) add(ops ...session.Op) error {
	n := session.Size(ops)
	if n > session.MostBytes-margin {
		r.refused = tooLarge(ops)
		return r.refused
	}
	if r.bytes+n > session.MostBytes-margin {
		r.flush()
	}
	if r.failed != nil {
		return writeError(r.failed)
	}
	r.pending = append(r.pending, ops...)
	r.bytes += n
	return nil
}

// tooLarge is the refusal of an operation that no multi can make.
func tooLarge(ops []session.Op) error {
	return job.Errorf(job.Refused, "commit", "", "%d nodes with %d bytes are too large for one commit (%d)", len(ops),
		session.Size(ops), session.MostBytes)
}

// flush makes the operations that were added in one multi, if this process still owns the store.
func (r *records) flush() {
	ops := r.pending
	r.pending, r.bytes = nil, 0
	if len(ops) > 0 {
		r.failed = r.s.commit(r.ctx, ops)
	}
	if r.failed == nil {
		r.multis++
		r.written = r.calls
	}
}

// commit makes operations in one multi, if this process still owns the store.
func (s *Store) commit(ctx context.Context, ops []session.Op) error {
	id, before := rand.Text(), s.last
	all := append([]session.Op{session.Check(s.root.epoch(), s.epoch),
		session.Set(s.root.commit(), []byte(id), session.AnyVersion)}, ops...)
	err := s.session.Apply(ctx, all, func(ctx context.Context) (session.Outcome, error) {
		n, err := s.session.Get(ctx, s.root.commit())
		switch string(n.Data) {
		case id:
			return session.Made, err
		case before:
			return session.NotMade, err
		}
		return session.Changed, err
	})
	if err == nil {
		s.last = id
	}
	return err
}

// writeError returns the error of callers for one of a multi.
func writeError(err error) error {
	if k := session.KindOf(err); k == session.NoNode || k == session.NodeExists || k == session.NotEmpty {
		return job.Errorf(job.Internal, "commit", "", "the nodes are not those of the records: %w", err)
	}
	return unavailable("commit", err)
}

package inventory

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/stagepost/stagepost/internal/sqldb"
)

// mostGrouped is how many calls one transaction carries out at most.
const mostGrouped = 64

// call is a transaction that a caller waits for.
type call struct {
	ctx      context.Context
	do       func(tx *change) error // may be called again after it was rolled back
	volatile bool                   // its changes need not outlast a loss of power
	taken    atomic.Bool            // it is being carried out, or its caller has left
	done     chan struct{}          // closed after err was set
	err      error
}

func (c *call) answer(err error) {
	c.err = err
	close(c.done)
}

// tx runs do in a transaction, which is on disk when tx returns nil. The calls that wait while another transaction is
// being written share the next one, with one sync; one that fails is undone by itself. do may be called again after it
// was rolled back: it may change nothing but what a repetition sets anew. After a commit that failed the content of the
// disk is unknown: nothing is written from then on, and Dead gives the error. A full disk, and a caller that leaves,
// end the transaction only.
func (i *Inventory) tx(ctx context.Context, do func(tx *change) error) error {
	return i.wait(&call{ctx: ctx, do: do, done: make(chan struct{})})
}

// volatile is tx for changes that mean nothing without this process or a later one on the same system. They outlast the
// process. After a loss of power they may be missing, with all later ones that were not synced; what tx confirmed is
// never missing, nor is anything that was changed before it.
func (i *Inventory) volatile(ctx context.Context, do func(tx *change) error) error {
	return i.wait(&call{ctx: ctx, do: do, volatile: true, done: make(chan struct{})})
}

// wait returns when a call was carried out, or its caller has left.
func (i *Inventory) wait(c *call) error {
	i.mu.Lock()
	i.calls = append(i.calls, c)
	i.mu.Unlock()
	select {
	case i.turn <- struct{}{}:
		i.round(c)
	case <-c.done:
	case <-c.ctx.Done():
		if c.taken.CompareAndSwap(false, true) {
			return c.ctx.Err()
		}
	}
	<-c.done
	return c.err
}

// round carries out the calls that wait, until the caller's own is among them, and gives the turn back.
func (i *Inventory) round(own *call) {
	defer func() { <-i.turn }()
	for {
		select {
		case <-own.done:
			return
		default:
		}
		i.mu.Lock()
		n := min(len(i.calls), mostGrouped)
		calls := i.calls[:n:n]
		i.calls = i.calls[n:]
		i.mu.Unlock()
		i.carryOut(calls)
	}
}

// carryOut carries out calls in one transaction, or, if a statement fails, each in its own.
func (i *Inventory) carryOut(calls []*call) {
	var live []*call
	for _, c := range calls {
		if c.taken.CompareAndSwap(false, true) {
			live = append(live, c)
		}
	}
	if len(live) > 1 {
		if results, ok := i.together(live); ok {
			for n, c := range live {
				c.answer(results[n])
			}
			return
		}
	}
	for _, c := range live {
		c.answer(i.alone(c))
	}
}

// together carries out calls in one transaction. Those that refuse by an error of their own are undone. It is not ok,
// and nothing has happened, if one failed in another way: the database may have rolled back all of them. A commit that
// failed is the error of all.
func (i *Inventory) together(calls []*call) (results []error, ok bool) {
	if i.dead.Load() != nil {
		return nil, false
	}
	synced := slices.ContainsFunc(calls, func(c *call) bool { return !c.volatile })
	undone, err := i.transact(context.Background(), synced, func(tx *change) error {
		results = results[:0]
		for _, c := range calls {
			refused, err := apart(tx, c)
			if err != nil {
				return err
			}
			results = append(results, refused)
		}
		return nil
	})
	if undone {
		return nil, false
	}
	if err != nil {
		results = make([]error, len(calls))
		for n := range results {
			results[n] = err
		}
	}
	return results, true
}

// apart carries out a call within a transaction, so that it is undone by itself if it refuses.
func apart(tx *change, c *call) (refused, failed error) {
	ctx := context.Background()
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return nil, err
	}
	refused = c.do(tx)
	if sqldb.FailedStatement(refused) {
		return nil, refused
	}
	if refused != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO one"); err != nil {
			return nil, err
		}
	}
	_, failed = tx.ExecContext(ctx, "RELEASE one")
	return refused, failed
}

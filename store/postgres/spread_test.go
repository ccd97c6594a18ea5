package postgres

import (
	"context"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// spread is a store of several servers: each call goes to the next one.
type spread struct {
	servers []*Store
	calls   *atomic.Int64
}

var (
	_ job.Store      = spread{}
	_ job.ClockStore = spread{}
)

func (s spread) next() *Store { return s.servers[int(s.calls.Add(1))%len(s.servers)] }

// counts is the server for claims by age: each counts its own grants.
func (s spread) counts(c *job.Claim) *Store {
	if c.Ageing.Share > 1 {
		return s.servers[0]
	}
	return s.next()
}

var sentences = flag.Int("sentences", 3, "TestStoreOfServers has each sentence of this number; 1: and the tables")

// TestStoreOfServers checks the contract with three servers that share one database. TestStore has all of it with one.
func TestStoreOfServers(t *testing.T) {
	open := func(t *testing.T) (job.Store, func() job.Store) {
		database := newDatabase(t)
		s := newSpread(t, database, 3)
		return s, func() job.Store {
			for _, one := range s.servers {
				closeStore(t, one)
			}
			s = newSpread(t, database, 3)
			return s
		}
	}
	if *sentences == 1 {
		storetest.Run(t, open)
		return
	}
	storetest.Some(t, *sentences, open)
}

func newSpread(t *testing.T, database string, n int) spread {
	s := spread{calls: new(atomic.Int64)}
	for range n {
		s.servers = append(s.servers, openStore(t, database, Options{CallerTime: true, Connections: 2}))
	}
	return s
}

func (s spread) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return s.next().Create(ctx, jobs...)
}
func (s spread) Get(ctx context.Context, id job.ID) (job.Job, error) { return s.next().Get(ctx, id) }
func (s spread) Numbered(ctx context.Context, kind job.Kind, n int64) (job.Job, error) {
	return s.next().Numbered(ctx, kind, n)
}
func (s spread) Named(ctx context.Context, part, owner string, n int) ([]job.Job, error) {
	return s.next().Named(ctx, part, owner, n)
}
func (s spread) List(ctx context.Context, q job.Query) (job.Page, error) {
	return s.next().List(ctx, q)
}
func (s spread) ListEnded(ctx context.Context, q job.EndedQuery) (job.Page, error) {
	return s.next().ListEnded(ctx, q)
}
func (s spread) Count(ctx context.Context) ([]job.Tally, error) { return s.next().Count(ctx) }
func (s spread) History(ctx context.Context, id job.ID, seq int64, n int) ([]job.Event, error) {
	return s.next().History(ctx, id, seq, n)
}
func (s spread) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	return s.next().Tasks(ctx, id)
}
func (s spread) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	return s.next().Commit(ctx, changes...)
}
func (s spread) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	return s.counts(&c).Claim(ctx, c)
}
func (s spread) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	return s.counts(&c).Peek(ctx, c, id)
}
func (s spread) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	return s.next().Renew(ctx, r)
}
func (s spread) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	return s.next().Overdue(ctx, now, kinds, n)
}
func (s spread) Holds(ctx context.Context) ([]job.Hold, error) { return s.next().Holds(ctx) }
func (s spread) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return s.next().Hold(ctx, h)
}
func (s spread) Release(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return s.next().Release(ctx, h)
}
func (s spread) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	return s.next().Take(ctx, t)
}
func (s spread) Settle(ctx context.Context, messages ...job.Message) error {
	return s.next().Settle(ctx, messages...)
}
func (s spread) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	return s.next().Messages(ctx, q)
}
func (s spread) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	return s.next().Replay(ctx, now, keys...)
}
func (s spread) Note(ctx context.Context, a job.Audit) error { return s.next().Note(ctx, a) }
func (s spread) Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return s.next().Audit(ctx, seq, n)
}
func (s spread) AuditHolds(ctx context.Context, seq int64, n int) ([]job.Audit, error) {
	return s.next().AuditHolds(ctx, seq, n)
}
func (s spread) KeptClock(ctx context.Context) (job.KeptClock, error) { return s.next().KeptClock(ctx) }
func (s spread) KeepClock(ctx context.Context, k job.KeptClock) error {
	return s.next().KeepClock(ctx, k)
}
func (s spread) Properties() job.Properties { return s.servers[0].Properties() }

// Watch watches at one server the changes that all make.
func (s spread) Watch(ctx context.Context, wake func([]job.Hint)) { s.servers[0].Watch(ctx, wake) }

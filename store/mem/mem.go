// Package mem is a complete store in memory, without durability. Tests use it as the fake, and small embedded
// programs as their store. It is the simplest implementation of the contract.
package mem

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/answers"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/internal/watchers"
)

// Store is a job.Store in memory. Call New.
type Store struct {
	mu       sync.Mutex // guards all below
	rows     int64      // records that were read or written
	ledger   *ledger.Ledger
	jobs     map[job.ID]job.Job
	order    []row // by creation
	lastRow  int
	emptied  int            // rows of order whose jobs were purged
	ids      []job.ID       // sorted
	place    map[job.ID]int // numbers of rows
	keys     map[key]job.ID
	numbers  map[number]job.ID
	history  map[job.ID][]job.Event
	tasks    map[job.ID]map[string]job.Task // by name
	messages map[string]*job.Message
	posted   map[post][]*job.Message        // messages, oldest first
	letters  map[job.ID][]string            // keys of messages by job
	family   map[job.ID]map[job.ID]struct{} // jobs by parent
	due      map[string][]*job.Message      // the pending ones of a topic, by Due
	audit    []job.Audit
	held     []job.Audit // those of holds
	words    wordIndex
	ends     rules.Ends
	clock    job.KeptClock
	watchers watchers.List
}

// row is a job in the order of creation. Its number stays the same: it is the cursor of a list.
type row struct {
	n  int
	id job.ID // empty: it was purged
}

type key struct {
	kind  job.Kind
	owner string
	key   string
}

// post is what is the same of the messages of a list.
type post struct {
	topic   string
	settled job.Settled
}

type number struct {
	kind job.Kind
	n    int64
}

// New returns an empty store.
func New() *Store {
	s := &Store{
		ledger: ledger.New(), jobs: map[job.ID]job.Job{}, place: map[job.ID]int{}, keys: map[key]job.ID{},
		numbers: map[number]job.ID{},
		history: map[job.ID][]job.Event{}, tasks: map[job.ID]map[string]job.Task{}, messages: map[string]*job.Message{},
		posted: map[post][]*job.Message{}, due: map[string][]*job.Message{},
		letters: map[job.ID][]string{}, family: map[job.ID]map[job.ID]struct{}{}, ends: rules.Ends{},
	}
	s.words = newWordIndex(&s.rows)
	return s
}

var _ job.Store = (*Store)(nil)

// do runs one operation under the lock and then notifies the watchers.
func do[T any](s *Store, ctx context.Context, op func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
	}
	s.mu.Lock()
	answer, err := op()
	var hints []job.Hint
	for _, j := range slices.Clone(s.ledger.Touched()) {
		hints = append(hints, job.HintOf(&j))
	}
	s.mu.Unlock()
	s.watchers.Notify(hints)
	return answer, err
}

// Create is part of job.Store.
func (s *Store) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	return do(s, ctx, func() ([]job.Job, error) { return ledger.Owned(s.ledger.Create((*records)(s), jobs, nil)) })
}

// Get is part of job.Store.
func (s *Store) Get(ctx context.Context, id job.ID) (job.Job, error) {
	return do(s, ctx, func() (job.Job, error) { return s.one(id) })
}

// Count is part of job.Store.
func (s *Store) Count(ctx context.Context) ([]job.Tally, error) {
	return do(s, ctx, func() ([]job.Tally, error) { return s.ledger.Tally(), nil })
}

// History is part of job.Store.
func (s *Store) History(ctx context.Context, id job.ID, seq int64, n int) ([]job.Event, error) {
	return do(s, ctx, func() ([]job.Event, error) {
		if _, err := (*records)(s).job(id); err != nil {
			return nil, err
		}
		all := s.history[id]
		if seq < 0 || seq >= int64(len(all)) {
			return nil, nil
		}
		all = all[seq:]
		if n > 0 && n < len(all) {
			all = all[:n]
		}
		return slices.Clone(all), nil
	})
}

// Tasks is part of job.Store.
func (s *Store) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	return do(s, ctx, func() ([]job.Task, error) {
		byName := func(a, b job.Task) int { return strings.Compare(a.Name, b.Name) }
		tasks := slices.SortedFunc(maps.Values(s.tasks[id]), byName)
		for i := range tasks {
			tasks[i].Data = slices.Clone(tasks[i].Data)
		}
		return tasks, nil
	})
}

// Claim is part of job.Store.
func (s *Store) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	return do(s, ctx, func() ([]job.Job, error) { return ledger.Owned(s.ledger.Claim((*records)(s), &c)) })
}

// Peek is part of job.Store.
func (s *Store) Peek(ctx context.Context, c job.Claim, id job.ID) (job.Forecast, error) {
	return do(s, ctx, func() (job.Forecast, error) { return s.ledger.Peek(&c, id), nil })
}

// Overdue is part of job.Store.
func (s *Store) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	return do(s, ctx, func() ([]job.Job, error) {
		return ledger.Owned(s.those(s.ledger.Overdue(now, kinds, min(n, mostRows))), nil)
	})
}

// Renew is part of job.Store.
func (s *Store) Renew(ctx context.Context, c job.Renewal) ([]job.Lease, error) {
	return do(s, ctx, func() ([]job.Lease, error) { return s.ledger.Renew((*records)(s), &c) })
}

// Commit is part of job.Store.
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	return do(s, ctx, func() ([]job.Result, error) {
		results := answers.Take(len(changes))
		err := s.ledger.Commit((*records)(s), changes, results)
		answers.Own(results, changes)
		return results, err
	})
}

// Holds is part of job.Store.
func (s *Store) Holds(ctx context.Context) ([]job.Hold, error) {
	return do(s, ctx, func() ([]job.Hold, error) { return s.ledger.Holds(), nil })
}

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return do(s, ctx, func() ([]job.Hold, error) { return s.ledger.Hold((*records)(s), h) })
}

// Release is part of job.Store.
func (s *Store) Release(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return do(s, ctx, func() ([]job.Hold, error) { return s.ledger.Release((*records)(s), h) })
}

// Watch is part of job.Store.
func (s *Store) Watch(ctx context.Context, wake func([]job.Hint)) {
	s.watchers.Watch(ctx, wake)
}

// Properties is part of job.Store.
func (s *Store) Properties() job.Properties {
	return job.Properties{Name: "mem", Exclusive: true, Words: true}
}

// Touched returns how many records were read or written so far, and how many parts of the queue were visited. It is a
// measure of cost that does not depend on the machine.
func (s *Store) Touched() (rows, lanes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows, s.ledger.Visits()
}

// one returns a copy of a record.
func (s *Store) one(id job.ID) (job.Job, error) {
	j, err := (*records)(s).job(id)
	j.Own()
	return j, err
}

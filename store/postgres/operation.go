package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// lock is how an operation locks the holds.
type lock int

const (
	unlocked lock = iota
	shared
	exclusive
)

// operation is one call of a method that writes. It may be carried out several times, until its transaction is
// committed, and alone or with others.
type operation struct {
	ctx      context.Context
	needs    func(*rules.Needs) // what it reads; nil: nothing
	created  []job.Created      // new jobs
	changes  []job.Change       // whose parents are read too
	holds    lock
	kinds    []job.Kind // whose grants no other server may make at the same time, because of limits
	queue    bool       // it may claim jobs
	entering []entering // the states in which it may claim jobs while no limit matters
	until    time.Time  // with the time of callers: the latest time at which it claims
	// apply adds to the writes of the batch. An error of another type than *job.Error is one of the transaction.
	apply func(*batch) error

	taken atomic.Bool // by the writer, or by a caller that left before it
	done  chan error
}

// claims reports whether an operation only claims jobs.
func (o *operation) claims() bool { return o.queue && len(o.created)+len(o.changes) == 0 }

// do carries out an operation with those of other callers. A caller whose context ends gets kind Unavailable, but only
// until the writer has taken the operation: then the answer is its result, because a claim that it commits is the
// caller's. See [writer.retry] for how long that takes at most.
func (s *Store) do(ctx context.Context, name string, o *operation) error {
	unavailable := func(err error) error { return &job.Error{Op: name, Kind: job.Unavailable, Err: err} }
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	o.ctx, o.done = ctx, make(chan error, 1)
	select {
	case s.operations <- o:
	case <-ctx.Done():
		return unavailable(ctx.Err())
	case <-s.closing:
		return unavailable(errClosed)
	}
	select {
	case err := <-o.done:
		return wrapped(name, err)
	case <-ctx.Done():
		if o.taken.CompareAndSwap(false, true) {
			return unavailable(ctx.Err())
		}
	case <-s.closed:
	}
	select {
	case err := <-o.done:
		return wrapped(name, err)
	case <-s.closed: // the writer answers what it has taken before it ends
	}
	select {
	case err := <-o.done:
		return wrapped(name, err)
	default:
		return unavailable(errClosed)
	}
}

// wrapped makes an error one of the contract.
func wrapped(name string, err error) error {
	var e *job.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	kind := job.Internal
	switch {
	case temporary(err):
		kind = job.Unavailable
	case pg.State(err) == pg.LimitExceeded: // texts with bytes that have escapes
		kind = job.Invalid
	case pg.State(err) == pg.DiskFull:
		kind, err = job.Unavailable, fmt.Errorf("%w (%w)", &job.Full{Dir: "the database server", Free: -1}, err)
	}
	return &job.Error{Op: name, Kind: kind, Err: err}
}

// guarding returns the kinds of limits under which jobs of a state may not be claimed.
func guarding(limits []job.Limit, from []job.KindState) (kinds []job.Kind) {
	states := map[job.Kind][]job.KindState{}
	for _, place := range from {
		states[place.Kind] = append(states[place.Kind], place)
	}
	for i := range limits {
		for _, place := range states[limits[i].Kind] {
			k := laneKey{KindState: place, group: limits[i].Group, owner: limits[i].Owner}
			if limits[i].Tag != "" && place.Kind == limits[i].Kind || k.guards(&limits[i]) {
				kinds = append(kinds, limits[i].Kind)
				break
			}
		}
	}
	return kinds
}

// Create is part of job.Store.
func (s *Store) Create(ctx context.Context, jobs ...job.Created) ([]job.Job, error) {
	var created []job.Job
	o := &operation{created: jobs, needs: func(n *rules.Needs) { n.Create(jobs) }}
	for i := range jobs {
		o.chain(jobs[i].Chain, enteringOf(&jobs[i].Job), jobs[i].Job.Created)
	}
	o.apply = func(b *batch) error {
		from := len(b.writes.Jobs)
		list, err := rules.Create(b.writes, jobs)
		if err != nil {
			return err
		}
		if err := b.schedule(from); err != nil {
			return err
		}
		created = owned(list)
		return nil
	}
	if err := s.do(ctx, "create", o); err != nil {
		return nil, err
	}
	return created, nil
}

// enteringOf is where a new job may be claimed.
func enteringOf(j *job.Job) entering {
	return entering{KindState: job.KindState{Kind: j.Kind, State: j.State}, owner: j.Owner, n: 1}
}

// chain prepares an operation for the claim of a next state.
func (o *operation) chain(c *job.Chain, to entering, at time.Time) {
	if c == nil {
		return
	}
	o.queue, o.holds, o.until = true, max(o.holds, shared), later(o.until, at)
	known := len(o.kinds)
	for i := range c.Limits { // the kind of the job is that of the limits, if any applies
		if kind := c.Limits[i].Kind; to.Kind == "" || to.Kind == kind {
			at := []job.KindState{{Kind: kind, State: to.State}}
			o.kinds = append(o.kinds, guarding(c.Limits[i:i+1], at)...)
		}
	}
	if len(o.kinds) == known {
		o.entering = append(o.entering, to)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Commit is part of job.Store.
func (s *Store) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	results := make([]job.Result, len(changes))
	o := &operation{needs: func(n *rules.Needs) { n.Commit(changes) }, changes: changes}
	for i := range changes {
		c := &changes[i]
		if r := &c.Require; r.Held || r.Free || r.Unheld {
			o.holds = max(o.holds, shared)
		}
		o.chain(c.Chain, entering{KindState: job.KindState{State: c.To.State}, job: c.Job, n: 1}, c.At)
		for j := range c.Spawn {
			one := &c.Spawn[j]
			o.chain(one.Chain, enteringOf(&one.Job), one.Job.Created)
		}
	}
	o.apply = func(b *batch) error {
		for i := range changes {
			from := len(b.writes.Jobs)
			j, err := rules.Commit(b.writes, &changes[i])
			results[i] = job.Result{Err: err}
			if err := b.schedule(from); err != nil {
				return err
			}
			if j != nil {
				results[i].Job = *j
				results[i].Job.Own()
			}
		}
		return nil
	}
	if len(changes) == 0 {
		return results, nil
	}
	if err := s.do(ctx, "commit", o); err != nil {
		return nil, err
	}
	return results, nil
}

// partOfClaim is how many records a claim reads at once, as job.Store defines.
const partOfClaim = 50

// Claim is part of job.Store.
func (s *Store) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	var claimed []job.Job
	if err := rules.CheckClaim(&c); err != nil {
		return nil, err
	}
	if c.N <= 0 || len(c.From) == 0 {
		return nil, nil
	}
	o := &operation{holds: shared, kinds: guarding(c.Limits, c.From), queue: true, until: c.Now}
	if len(o.kinds) == 0 && c.Suspects != job.OnlySuspects && len(c.From) <= fewPlaces {
		for _, from := range c.From {
			o.entering = append(o.entering, entering{KindState: from, n: c.N})
		}
	}
	o.apply = func(b *batch) error {
		mine := c
		mine.Now = b.at(c.Now)
		var err error
		claimed, err = rules.InParts(&mine, partOfClaim, func(part *job.Claim) ([]job.Job, error) {
			list, err := b.claim(part)
			return owned(list), err
		})
		return err
	}
	if err := s.do(ctx, "claim", o); err != nil {
		return nil, err
	}
	return claimed, nil
}

// Renew is part of job.Store.
func (s *Store) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	var lost []job.Lease
	o := &operation{needs: func(n *rules.Needs) { n.Renew(&r) }}
	o.apply = func(b *batch) error {
		mine := r
		mine.Now = b.at(r.Now)
		from := len(b.writes.Jobs)
		lost = rules.Renew(b.writes, &mine)
		return b.schedule(from)
	}
	if err := s.do(ctx, "renew", o); err != nil {
		return nil, err
	}
	return lost, nil
}

// owned copies records, which then share no memory with the store.
func owned(of []*job.Job) []job.Job {
	if len(of) == 0 {
		return nil
	}
	jobs := make([]job.Job, len(of))
	for i, j := range of {
		jobs[i] = *j
		jobs[i].Own()
	}
	return jobs
}

package zookeeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Mirror shows records in nodes of another system, which programs of that system read and change too. Its operations
// are part of the multi of each commit: a record and its nodes change together or not at all. Package merritt has one.
type Mirror interface {
	// Attach is called with each session of the store, and before that session is used otherwise.
	Attach(s *session.Session, r Records)

	// Show returns the operations by which nodes show changes of records, with the versions that were read. again means
	// that the operations of the call before were refused because a node has changed. Errors of kind Conflict, Stale
	// and Refused mean that another program has changed or locked a record; the commit is refused then.
	Show(ctx context.Context, c *Changes, again bool) ([]session.Op, error)

	// Busy returns, of jobs that a claim would grant at a time, those that cannot be claimed now, with the reason and
	// the time until which they wait. paused means that none of a queue of the other system can be claimed.
	Busy(ctx context.Context, jobs []Shown, now time.Time) (busy map[job.ID]job.Blocker, paused bool, err error)
}

// Records are the records of a store, for a [Mirror]. It calls them within its own calls only.
type Records interface {
	// Shown returns a record with its node; ok is false if there is no such record.
	Shown(id job.ID) (s Shown, ok bool)
}

// Shown is a record with the node that shows it.
type Shown struct {
	Job  *job.Job
	Node string // empty: none shows it
	// another program works on it: only that one continues
	Elsewhere bool
}

// Changes are the changes of one commit.
type Changes struct {
	Records  []*Changed
	Put      []job.Hold
	Released []job.Scope
}

// Changed is the change of one record. The mirror sets Node of a record that it creates nodes for, and Elsewhere.
type Changed struct {
	Shown           // after the change; Job is nil if the record is purged
	Before *job.Job // nil: the record is new
	Event  lifecycle.Event
	By     lifecycle.Actor
	Actor  string
	Note   string // of the person who caused the event
}

// Attach shows the records of the store by a mirror from now on. It returns after the nodes of claimed jobs are locked.
func (s *Store) Attach(ctx context.Context, m Mirror) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mirror = m
	if err := s.ready(ctx); err != nil {
		return err
	}
	m.Attach(s.session, shownRecords{s})
	return s.reclaim(ctx)
}

// shownRecords is the Records of a store. The caller of its mirror has the lock.
type shownRecords struct{ s *Store }

// Shown is part of Records.
func (r shownRecords) Shown(id job.ID) (Shown, bool) {
	if r.s.r == nil || r.s.r.jobs[id] == nil {
		return Shown{}, false
	}
	return r.s.r.jobs[id].shown(), true
}

func (one *record) shown() Shown {
	j := one.job
	return Shown{Job: &j, Node: one.node, Elsewhere: one.elsewhere}
}

// Node returns the record that a node shows; ok is false if there is none.
func (s *Store) Node(ctx context.Context, node string) (id job.ID, ok bool, err error) {
	_, err = do(s, ctx, func(r *records) (bool, error) {
		id, ok = r.nodes[node]
		return true, nil
	})
	return id, ok, err
}

// Shown returns a record with the node that shows it; ok is false if there is no such record.
func (s *Store) Shown(ctx context.Context, id job.ID) (one Shown, ok bool, err error) {
	_, err = do(s, ctx, func(r *records) (bool, error) {
		if ok = r.jobs[id] != nil; ok {
			one = r.jobs[id].shown()
		}
		return true, nil
	})
	return one, ok, err
}

// Nodes returns all records that nodes show.
func (s *Store) Nodes(ctx context.Context) (map[string]Shown, error) {
	return do(s, ctx, func(r *records) (map[string]Shown, error) {
		all := make(map[string]Shown, len(r.nodes))
		for node, id := range r.nodes {
			all[node] = r.jobs[id].shown()
		}
		return all, nil
	})
}

// changesOf returns what a mirror shows of writes: one change for each record.
func changesOf(r *replica, w *rules.Writes) *Changes {
	c := &Changes{Put: w.Put, Released: w.Released}
	at := map[job.ID]*Changed{}
	for _, jw := range w.Jobs {
		id := idOf(jw)
		one := at[id]
		if one == nil {
			one = &Changed{Before: jw.Before}
			if known := r.jobs[id]; known != nil {
				one.Node, one.Elsewhere = known.node, known.elsewhere
			}
			at[id] = one
			c.Records = append(c.Records, one)
		}
		one.Job = jw.After
		if jw.Event != nil {
			e := jw.Event
			one.Event, one.By, one.Actor, one.Note = e.Event, e.By, e.Actor, e.Note
		}
	}
	return c
}

func idOf(jw *rules.JobWrite) job.ID {
	if jw.After != nil {
		return jw.After.ID
	}
	return jw.Before.ID
}

// refused reports whether an error is a refusal because of the nodes of a mirror: nothing was written.
func refused(err error) bool {
	switch job.KindOf(err) {
	case job.Conflict, job.Stale, job.Refused:
		return err != nil
	}
	return false
}

// mostShown bounds how often the nodes of a mirror are read for one commit: another program may change them each time.
const mostShown = 5

// writeShown makes writes together with what a mirror shows of them. Those that change nodes of the mirror are a multi
// of their own, because the mirror reads the nodes before, and another program may have changed them since.
func (r *records) writeShown(w *rules.Writes) error {
	for try := 1; ; try++ {
		c := changesOf(r.replica, w)
		shown, err := r.s.mirror.Show(r.ctx, c, try > 1)
		if err != nil {
			return r.refuse(w, unavailable("commit", err))
		}
		made, err := operations(r.s.root, r.replica, w, c)
		if err != nil {
			r.refused = err
			return err
		}
		if len(shown) == 0 {
			err = r.addAll(made)
		} else {
			err = r.alone(append(made.ops, shown...))
		}
		if err == nil {
			r.apply(w)
			r.applyShown(c)
			return nil
		}
		at := r.refusal(shown)
		if at == nil {
			return err
		}
		r.failed = nil
		if try == mostShown {
			return r.refuse(w, job.Errorf(job.Conflict, "commit", "", "other programs change %s at the same time: %w",
				at.Path, at))
		}
		if err := r.s.session.Sync(r.ctx); err != nil {
			r.failed = err
			return writeError(err)
		}
	}
}

// alone makes operations in a multi of their own, after what was added before.
func (r *records) alone(ops []session.Op) error {
	if n := session.Size(ops); n > session.MostBytes-margin {
		r.refused = tooLarge(ops)
		return r.refused
	}
	if r.flush(); r.failed != nil {
		return writeError(r.failed)
	}
	if r.failed = r.s.commit(r.ctx, ops); r.failed != nil {
		return writeError(r.failed)
	}
	r.multis++
	return nil
}

// refusal returns the refusal of a multi because of one of the nodes of the mirror, or nil.
func (r *records) refusal(shown []session.Op) *session.Error {
	var at *session.Error
	if !errors.As(r.failed, &at) || !at.Refusal() ||
		!slices.ContainsFunc(shown, func(op session.Op) bool { return op.Path == at.Path }) {
		return nil
	}
	return at
}

// refuse makes the queue follow the records again after a refusal, which wrote nothing, and returns its error. After
// the refusal of a purge all records are read again: the queue has forgotten the job.
func (r *records) refuse(w *rules.Writes, err error) error {
	for _, jw := range slices.Backward(w.Jobs) {
		if jw.After == nil {
			r.refused = err
			return err
		}
		r.ledger.Follow(jw.After, jw.Before)
	}
	return err
}

// applyShown notes the nodes of records after a commit.
func (r *replica) applyShown(c *Changes) {
	for _, one := range c.Records {
		if one.Job == nil {
			continue
		}
		rec := r.jobs[one.Job.ID]
		if rec.node != one.Node {
			r.show(rec, one.Node)
		}
		rec.elsewhere = one.Elsewhere
	}
}

// passBusy lets the jobs wait that a claim would grant and another program has locked. It reports whether the claim can
// be made; if not, the queue is paused.
func (r *records) passBusy(c *job.Claim) (bool, error) {
	for {
		next := r.ledger.Peek(c, "").Next
		if len(next) == 0 {
			return true, nil
		}
		shown := make([]Shown, 0, len(next))
		for _, id := range next {
			if one := r.jobs[id]; one != nil && one.node != "" {
				shown = append(shown, one.shown())
			}
		}
		busy, paused, err := r.s.mirror.Busy(r.ctx, shown, c.Now)
		switch {
		case err != nil:
			return false, unavailable("claim", err)
		case paused && len(shown) > 0:
			return false, nil
		case len(busy) == 0:
			return true, nil
		}
		if err := r.postpone(busy, c.Now); err != nil {
			return false, err
		}
	}
}

// postpone makes jobs due after what keeps them.
func (r *records) postpone(busy map[job.ID]job.Blocker, now time.Time) error {
	changes := make([]job.Change, 0, len(busy))
	for id, b := range busy {
		changes = append(changes, job.Change{Job: id, Version: r.jobs[id].job.Version, At: now,
			Set: job.Fields{Due: &b.Until, Cause: &b.Code, Message: &b.Sentence}})
	}
	for part := range slices.Chunk(changes, perMulti) {
		if err := r.ledger.Commit(r, part, make([]job.Result, len(part))); err != nil {
			return err
		}
	}
	return nil
}

// reclaim locks the nodes of the jobs that are claimed, after a new session: the locks ended with the one before. A
// job that another program has locked by now stays claimed until its worker is refused.
func (s *Store) reclaim(ctx context.Context) error {
	if s.mirror == nil {
		return nil
	}
	for _, one := range s.r.rows {
		if one.node == "" || one.job.Ended || !one.job.Claimed() {
			continue
		}
		free := one.job
		free.Worker = ""
		shown := one.shown()
		ops, err := s.mirror.Show(ctx, &Changes{Records: []*Changed{{Shown: shown, Before: &free}}}, false)
		if err == nil && len(ops) > 0 {
			err = s.commit(ctx, ops)
		}
		if err != nil && s.over(err) {
			return unavailable("open", err)
		}
	}
	return nil
}

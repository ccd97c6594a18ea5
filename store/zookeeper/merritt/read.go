package merritt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// Seen is a batch, job or access request of Merritt whose nodes and record differ.
type Seen struct {
	Node     string
	Kind     job.Kind
	Record   job.ID // that the nodes show; empty: there is none
	Version  int64  // of the record when the nodes were read
	State    lifecycle.State
	Last     lifecycle.State // the last state that succeeded
	Priority int             // of a job
	Batch    string          // nodes of the batch of a job
	Jobs     int             // of a batch: how many it has
	Locked   bool            // a program of Merritt has it
	Message  string
	Since    time.Time // when the state was written, by the clock of the servers
	Gone     bool      // there are no nodes any more

	Stored Stored // the node store of a job without a record

	values layout.Object // submission, configuration or token
	ids    layout.Identifiers
	large  bool
	status int32 // version of the status node
}

// Value returns the text of a key of the submission of a batch, the configuration of a job or the token of a request.
func (s *Seen) Value(key string) string { return s.values.Text(key) }

// Bool returns the truth value of a key; one that is missing is false.
func (s *Seen) Bool(key string) bool { b, _ := s.values.Bool(key); return b }

// Large reports whether an access request is in the queue of large ones.
func (s *Seen) Large() bool { return s.large }

// Identifiers returns those of the object of a job.
func (s *Seen) Identifiers() Identifiers { return Identifiers{s.ids.Primary, s.ids.Local} }

// Problem is a node that cannot be used, with the reason.
type Problem struct {
	Node string
	Text string
}

// reading compares nodes with records.
type reading struct {
	l     *Link
	q     *queue.Queue
	own   int64
	known map[string]zookeeper.Shown
	seen  []Seen
	bad   []Problem
}

// Read compares the nodes of Merritt with the records that they show. It returns batches before their jobs, and what
// cannot be read. Jobs whose queue entry fits the record are not read further, so that the cost of a call is one list
// of each state, the status of each batch that has not ended, and what differs.
func (l *Link) Read(ctx context.Context, known map[string]zookeeper.Shown) ([]Seen, []Problem, error) {
	s, q := l.now()
	if q == nil {
		return nil, nil, errDetached
	}
	r := &reading{l: l, q: q, own: s.ID(), known: known}
	for _, f := range []func(context.Context) error{r.batches, r.jobs, r.requests} {
		if err := f(ctx); err != nil {
			return nil, nil, err
		}
	}
	return r.seen, r.bad, nil
}

func (r *reading) problem(node string, err error) { r.bad = append(r.bad, Problem{node, err.Error()}) }

// unread notes that a record cannot be read. One that is gone is a difference if its record has not ended.
func (r *reading) unread(node string, err error) error {
	s, known := r.known[node]
	switch {
	case errors.Is(err, queue.ErrNotFound) && known:
		if !s.Job.Ended {
			r.seen = append(r.seen, Seen{Node: node, Kind: s.Job.Kind, Record: s.Job.ID, Version: s.Job.Version,
				Gone: true})
		}
	case errors.Is(err, queue.ErrMalformed):
		r.problem(node, err)
	case !errors.Is(err, queue.ErrNotFound):
		return err
	}
	return nil
}

func (r *reading) batches(ctx context.Context) error {
	ids, bad, err := r.q.BatchIDs(ctx)
	if err != nil {
		return err
	}
	for _, b := range bad {
		r.problem(b.Path, b.Err)
	}
	for node, s := range r.known { // those that are gone
		if id := layout.BatchID(node); s.Job.Kind == r.l.m.Batch && !s.Job.Ended && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if err := r.batch(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) batch(ctx context.Context, id layout.BatchID) error {
	s, known := r.known[string(id)]
	b, err := r.q.Batch(ctx, id)
	if err != nil {
		return r.unread(string(id), err)
	}
	if known && state(s.Job.State) == b.Status.Status {
		return nil
	}
	c, err := r.q.Count(ctx, id)
	if err != nil {
		return err
	}
	one := Seen{Node: string(id), Kind: r.l.m.Batch, State: lifecycle.State(b.Status.Status), Jobs: c.All(),
		Locked: b.Locked && b.Holder != r.own, Message: b.Status.Message, values: b.Submission, Since: b.Since,
		status: b.Version}
	if known {
		one.Record, one.Version = s.Job.ID, s.Job.Version
		if state(s.Job.State) == layout.Processing && b.Status.Status == layout.Reporting && c.InProcess > 0 {
			return nil // its jobs exist, and have not ended: Processing
		}
	}
	r.seen = append(r.seen, one)
	return nil
}

func (r *reading) jobs(ctx context.Context) error {
	entries, bad, err := r.q.Entries(ctx)
	if err != nil {
		return err
	}
	for _, b := range bad {
		r.problem(b.Path, b.Err)
	}
	differ := map[layout.JobID]bool{}
	listed := map[layout.JobID]bool{}
	for _, e := range entries {
		s, known := r.known[string(e.Job)]
		listed[e.Job] = true
		if !known || state(s.Job.State) != e.State || s.Job.Priority != layout.ClampPriority(e.Priority) {
			differ[e.Job] = true
		}
	}
	for node, s := range r.known {
		if id := layout.JobID(node); s.Job.Kind == r.l.m.Job && !s.Job.Ended && !listed[id] {
			differ[id] = true
		}
	}
	ids := make([]layout.JobID, 0, len(differ))
	for id := range differ {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := r.job(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) job(ctx context.Context, id layout.JobID) error {
	j, err := r.q.Job(ctx, id)
	if err != nil {
		return r.unread(string(id), err)
	}
	s, known := r.known[string(id)]
	if known && state(s.Job.State) == j.Status.Status && s.Job.Priority == j.Priority {
		return nil
	}
	one := Seen{Node: string(id), Kind: r.l.m.Job, State: lifecycle.State(j.Status.Status),
		Last: lifecycle.State(j.Status.Last), Priority: j.Priority, Batch: string(j.Batch),
		Locked: j.Locked && j.Holder != r.own, Message: j.Status.Message, values: j.Configuration, ids: j.Identifiers,
		Since: j.Since, status: j.Version}
	if known {
		one.Record, one.Version = s.Job.ID, s.Job.Version
	} else {
		store, _, err := r.q.Stored(ctx, id)
		if err != nil {
			return err
		}
		one.Stored = Stored{ManifestURL: store.ManifestURL, Mode: store.Mode, Delete: store.Delete}
	}
	r.seen = append(r.seen, one)
	return nil
}

// Processed returns what programs of Merritt left of a job that they have processed. A job that is gone or cannot be
// read has left nothing.
func (l *Link) Processed(ctx context.Context, node string) (*Processed, error) {
	_, q := l.now()
	if q == nil {
		return nil, errDetached
	}
	j, err := q.Job(ctx, layout.JobID(node))
	if err != nil {
		return &Processed{}, usable(err)
	}
	s, _, err := q.Stored(ctx, j.ID)
	return &Processed{
		Store:       Stored{ManifestURL: s.ManifestURL, Mode: s.Mode, Delete: s.Delete},
		Identifiers: Identifiers{j.Identifiers.Primary, j.Identifiers.Local}, configuration: j.Configuration,
	}, err
}

func (r *reading) requests(ctx context.Context) error {
	for _, in := range []layout.Queue{layout.Small, layout.Large} {
		ids, bad, err := r.q.Requests(ctx, in)
		if err != nil {
			return err
		}
		for _, b := range bad {
			r.problem(b.Path, b.Err)
		}
		for node, s := range r.known { // those that are gone
			of, id := requestOf(node)
			if s.Job.Kind == r.l.m.Access && of == in && !s.Job.Ended && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		for _, id := range ids {
			node := requestNode(in, id)
			a, err := r.q.Request(ctx, in, id)
			if err != nil {
				if err := r.unread(node, err); err != nil {
					return err
				}
				continue
			}
			s, known := r.known[node]
			if known && state(s.Job.State) == a.Status.Status {
				continue
			}
			one := Seen{Node: node, Kind: r.l.m.Access, State: lifecycle.State(a.Status.Status),
				Locked: a.Locked && a.Holder != r.own, Message: a.Status.Message, values: a.Token.Other,
				large: in == layout.Large, Since: a.Since, status: a.Version}
			if known {
				one.Record, one.Version = s.Job.ID, s.Job.Version
			}
			r.seen = append(r.seen, one)
		}
	}
	return nil
}

// Success is the message of a status after work that succeeded.
const Success = layout.MessageSuccess

// Restore gives nodes the state of their record, with a message, after a change by another program that the record does
// not follow. A worker that has locked them is left alone, and so are nodes whose status has been written since they
// were read. It reports whether the nodes were changed.
func (l *Link) Restore(ctx context.Context, j *job.Job, s *Seen, message string) (bool, error) {
	_, q := l.now()
	if q == nil {
		return false, errDetached
	}
	var err error
	switch j.Kind {
	case l.m.Job:
		want := layout.JobStatus{Status: state(j.State), Last: state(j.LastOK), Message: message}
		err = q.ResetJob(ctx, layout.JobID(s.Node), s.status, want, layout.ClampPriority(j.Priority))
	case l.m.Batch:
		want := layout.BatchStatus{Status: state(j.State), Message: message}
		err = q.ResetBatch(ctx, layout.BatchID(s.Node), s.status, want)
	default:
		want := layout.BatchStatus{Status: state(j.State), Message: message}
		in, id := requestOf(s.Node)
		err = q.ResetRequest(ctx, in, id, s.status, want)
	}
	switch {
	case errors.Is(err, queue.ErrLocked), errors.Is(err, queue.ErrChanged), errors.Is(err, queue.ErrNotFound):
		return false, nil
	}
	return err == nil, err
}

// Mend repairs what programs of Merritt left half written when they ended, in nodes that are not locked and older than
// age. It returns what was repaired.
func (l *Link) Mend(ctx context.Context, age time.Duration) ([]Problem, error) {
	_, q := l.now()
	if q == nil {
		return nil, errDetached
	}
	done, _, err := q.Repair(ctx, age)
	all := make([]Problem, len(done))
	for i, one := range done {
		all[i] = Problem{one.Path, one.What}
	}
	return all, err
}

// Watch calls changed after changes of the queues of Merritt, until ctx ends, and once after each new session. Changes
// that no queue shows, such as the status of a batch, do not call it.
func (l *Link) Watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		l.mu.Lock()
		s, opened := l.session, l.opened
		l.mu.Unlock()
		changed()
		if s == nil {
			select {
			case <-opened:
			case <-ctx.Done():
			}
			continue
		}
		each, stop := context.WithCancel(ctx)
		for _, path := range watched {
			go s.Changes(each, path, changed)
		}
		select {
		case <-opened:
		case <-ctx.Done():
		}
		stop()
	}
}

// watched are the nodes whose children Watch follows.
var watched = func() []string {
	all := []string{layout.Batches, layout.Small.Path(), layout.Large.Path(), layout.QueueLocks, layout.CollectionLocks}
	for _, s := range layout.JobStatuses {
		all = append(all, s.Queue())
	}
	return all
}()

// Full returns the queues that Java clients soon cannot list, with their numbers of entries.
func (l *Link) Full(ctx context.Context) ([]Problem, error) {
	_, q := l.now()
	if q == nil {
		return nil, errDetached
	}
	all, err := q.Lengths(ctx)
	var near []Problem
	for _, one := range all {
		if one.Near {
			near = append(near, Problem{one.State.Queue(), nearly(one.Entries)})
		}
	}
	return near, err
}

// nearly describes a queue that is nearly too long.
func nearly(entries int) string {
	return fmt.Sprintf("%d entries: Java programs cannot list more than about 52,000", entries)
}

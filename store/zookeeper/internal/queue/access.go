package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Request is an access request as it was read.
type Request struct {
	Queue   layout.Queue
	ID      layout.AccessID
	Token   layout.Token
	Status  layout.BatchStatus
	Version int32 // of the status node: the fencing token of the holder of the lock
	Since   time.Time
	Locked  bool
	Holder  int64 // session of the holder of the lock; 0: none
}

// CreateRequest creates an access request in Pending.
func (q *Queue) CreateRequest(ctx context.Context, in layout.Queue, token layout.Token) (*Request, error) {
	status := layout.BatchStatus{Status: layout.Pending, Modified: q.now()}
	op := mark(&status, q.operation())
	for numbers := (numbering{}); ; {
		n, err := numbers.next(ctx, q, in.Path())
		if err != nil {
			return nil, err
		}
		id := layout.AccessID(layout.Sequence(layout.AccessPrefix, n))
		err = q.s.Apply(ctx, []session.Op{
			session.Create(in.Request(id), nil),
			session.Create(in.Token(id), token.Encode()),
			session.Create(in.Status(id), status.Encode()),
		}, q.foundIn(in.Status(id), op, 0, false))
		if refusedAt(err) == in.Request(id) && session.KindOf(err) == session.NodeExists {
			if err := q.s.Sync(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		return q.Request(ctx, in, id)
	}
}

// Request reads an access request. The error is ErrNotFound or ErrMalformed if it cannot be read.
func (q *Queue) Request(ctx context.Context, in layout.Queue, id layout.AccessID) (*Request, error) {
	all, err := q.nodes(ctx, in.Status(id), in.Token(id), in.Lock(id))
	if err != nil {
		return nil, err
	}
	r := &Request{Queue: in, ID: id, Version: all[0].Stat.Version, Since: all[0].Stat.Modified, Locked: all[2].exists,
		Holder: all[2].Stat.Owner}
	if !all[0].exists {
		if _, err := q.s.Stat(ctx, in.Request(id)); isMissing(err) {
			return nil, fmt.Errorf("access request %s: %w", id, ErrNotFound)
		}
		return nil, malformed(in.Request(id), errors.New("it has no status"))
	}
	if r.Status, err = layout.ParseBatchStatus(all[0].Data); err != nil {
		return nil, malformed(in.Status(id), err)
	}
	if r.Token, err = layout.ParseToken(all[1].Data); err != nil {
		return nil, malformed(in.Token(id), err)
	}
	return r, nil
}

// Requests returns the ids of a queue, the oldest first, and the names that are none.
func (q *Queue) Requests(ctx context.Context, in layout.Queue) (ids []layout.AccessID, bad []Bad, err error) {
	names, _, err := q.children(ctx, in.Path())
	slices.Sort(names)
	for _, name := range names {
		if id := layout.AccessID(name); id.Valid() {
			ids = append(ids, id)
		} else {
			bad = append(bad, Bad{in.Request(id), ErrMalformed})
		}
	}
	return ids, bad, err
}

// AcquireRequest locks the oldest pending request of a queue that is not locked, and moves it to Processing. It returns
// nil if there is none, and the requests that could not be read. The error is ErrPaused while the queue is paused.
func (q *Queue) AcquireRequest(ctx context.Context, in layout.Queue) (*Request, []Bad, error) {
	ids, bad, err := q.Requests(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		r, err := q.Request(ctx, in, id)
		if unusable(err) {
			if errors.Is(err, ErrMalformed) {
				bad = append(bad, Bad{in.Request(id), err})
			}
			continue
		}
		if err != nil {
			return nil, bad, err
		}
		if r.Locked || r.Status.Status != layout.Pending {
			continue
		}
		next := r.Status
		next.Status = layout.Processing
		got, err := q.setRequest(ctx, r, next, append(lockOps(in.Lock(id)), session.Absent(in.Paused())...)...)
		switch {
		case err == nil:
			return got, bad, nil
		case refusedAt(err) == in.Paused():
			return nil, bad, ErrPaused
		case !errors.Is(err, ErrChanged):
			return nil, bad, err
		}
	}
	return nil, bad, nil
}

// setRequest changes the status of a request, with further operations.
func (q *Queue) setRequest(ctx context.Context, r *Request, next layout.BatchStatus, ops ...session.Op) (*Request,
	error) {
	next.Modified = q.now()
	op := mark(&next, q.operation())
	status := r.Queue.Status(r.ID)
	all := append([]session.Op{session.Set(status, next.Encode(), r.Version)}, ops...)
	if err := q.s.Apply(ctx, all, q.foundIn(status, op, r.Version, true)); err != nil {
		if refusedAt(err) != "" {
			return nil, fmt.Errorf("access request %s: %w: %w", r.ID, ErrChanged, err)
		}
		return nil, err
	}
	after := *r
	after.Status, after.Version = next, r.Version+1
	return &after, nil
}

// FinishRequest moves a request that the caller holds to Completed, with its token, and removes the lock. The error is
// ErrChanged if the caller no longer holds it.
func (q *Queue) FinishRequest(ctx context.Context, r *Request, token layout.Token) (*Request, error) {
	return q.endRequest(ctx, r, layout.Completed, layout.MessageSuccess, token)
}

// FailRequest moves a request that the caller holds to Failed, with its token, and removes the lock.
func (q *Queue) FailRequest(ctx context.Context, r *Request, message string, token layout.Token) (*Request, error) {
	return q.endRequest(ctx, r, layout.Failed, message, token)
}

func (q *Queue) endRequest(ctx context.Context, r *Request, to layout.Status, message string,
	token layout.Token) (*Request, error) {
	if from := r.Status.Status; !layout.AccessTable.Allowed(from, to) {
		return nil, notAllowed(string(r.ID), from, to)
	}
	next := r.Status
	next.Status, next.Message = to, message
	lock := r.Queue.Lock(r.ID)
	after, err := q.setRequest(ctx, r, next, holding(lock), session.Delete(lock, lockVersion),
		session.Set(r.Queue.Token(r.ID), token.Encode(), session.AnyVersion))
	if err != nil {
		return nil, err
	}
	after.Token, after.Locked = token, false
	return after, nil
}

// RequeueRequest moves a failed request to Pending.
func (q *Queue) RequeueRequest(ctx context.Context, in layout.Queue, id layout.AccessID) (*Request, error) {
	return q.operateRequest(ctx, in, id, layout.Pending)
}

// DeleteRequest moves a failed or completed request to Deleted: a tombstone, until PurgeRequest removes it.
func (q *Queue) DeleteRequest(ctx context.Context, in layout.Queue, id layout.AccessID) (*Request, error) {
	return q.operateRequest(ctx, in, id, layout.Deleted)
}

func (q *Queue) operateRequest(ctx context.Context, in layout.Queue, id layout.AccessID, to layout.Status) (*Request,
	error) {
	r, err := q.Request(ctx, in, id)
	if err != nil {
		return nil, err
	}
	from := r.Status.Status
	if !layout.AccessTable.Allowed(from, to) && (from != layout.Completed || to != layout.Deleted) {
		return nil, notAllowed(string(id), from, to)
	}
	next := r.Status
	next.Status, next.Message = to, ""
	after, err := q.setRequest(ctx, r, next, session.Absent(in.Lock(id))...)
	if refusedAt(err) == in.Lock(id) {
		return nil, fmt.Errorf("access request %s: %w", id, ErrLocked)
	}
	return after, err
}

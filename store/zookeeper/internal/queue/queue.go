package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Options are the settings of a Queue.
type Options struct {
	// Now is the clock of what is written for people: last_modified. Nil is time.Now.
	Now func() time.Time
	// Settle is how long a batch whose number of jobs was not recorded must have no unfinished job before it is
	// reported, 5 s by default. The Java library removes the reference of a job for a moment at each change.
	Settle time.Duration
}

// defaultSettle is that of Options.Settle.
const defaultSettle = 5 * time.Second

// Queue is a Merritt ingest queue. Its methods are safe for concurrent use.
type Queue struct {
	s     *session.Session
	now   func() time.Time
	count atomic.Int64 // of operations

	settled time.Duration

	mu    sync.Mutex // guards empty
	empty map[layout.BatchID]emptied
}

// emptied is a directory of unfinished jobs that was empty.
type emptied struct {
	total int64 // references that it ever had
	since time.Time
}

// New returns the queue of a session.
func New(s *session.Session, o Options) *Queue {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Settle <= 0 {
		o.Settle = defaultSettle
	}
	return &Queue{s: s, now: o.Now, settled: o.Settle, empty: map[layout.BatchID]emptied{}}
}

// Init creates the nodes that every tree has, as far as they are missing. It may be repeated.
func (q *Queue) Init(ctx context.Context) error {
	for _, path := range layout.Skeleton() {
		err := q.s.Multi(ctx, session.Create(path, nil))
		for session.KindOf(err) == session.Unknown {
			err = q.s.Multi(ctx, session.Create(path, nil))
		}
		if err != nil && session.KindOf(err) != session.NodeExists {
			return err
		}
	}
	return nil
}

// operation returns a new id of an operation. The id of a session is unique.
func (q *Queue) operation() string {
	return fmt.Sprintf("%x-%d", uint64(q.s.ID()), q.count.Add(1))
}

// lockVersion is the version of a lock of this package; those of others have version 0.
const lockVersion = 1

// lockOps are the operations that acquire a lock.
func lockOps(path string) []session.Op {
	return []session.Op{session.CreateEphemeral(path, nil), session.Set(path, nil, 0)}
}

// atOnce bounds the requests that an operation has open.
const atOnce = 64

// each calls f for 0 to n-1, some at once, and returns the first error.
func each(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(i); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	wg.Wait()
	return first
}

// node is a node that was read.
type node struct {
	session.Node
	exists bool
}

// nodes reads nodes at once. A missing one is no error.
func (q *Queue) nodes(ctx context.Context, paths ...string) ([]node, error) {
	all := make([]node, len(paths))
	err := each(len(paths), func(i int) error {
		n, err := q.s.Get(ctx, paths[i])
		if isMissing(err) {
			return nil
		}
		all[i] = node{n, err == nil}
		return err
	})
	return all, err
}

// children returns the names of the children of a node, and whether it exists.
func (q *Queue) children(ctx context.Context, path string) (names []string, exists bool, err error) {
	names, _, err = q.s.Children(ctx, path)
	if isMissing(err) {
		return nil, false, nil
	}
	return names, err == nil, err
}

// numbering finds a free number for a child of a node: that of the next sequential one. If that is taken although no
// child was created since, as after a restore under the names of before, it is the next free one.
type numbering struct {
	made, skip int64
	again      bool
}

// next returns a number that was not tried yet.
func (n *numbering) next(ctx context.Context, q *Queue, path string) (int64, error) {
	st, err := q.s.Stat(ctx, path)
	if n.again && st.Made == n.made {
		n.skip++
	} else {
		n.skip = 0
	}
	n.made, n.again = st.Made, true
	return st.Made + n.skip, err
}

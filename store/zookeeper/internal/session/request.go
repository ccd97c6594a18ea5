package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Stat has the properties of a node besides its data.
type Stat struct {
	Version  int32 // of the data: 0 when it was created, incremented by every set
	Created  time.Time
	Modified time.Time // of the data
	Owner    int64     // id of the session of an ephemeral node, else 0
	Children int
	// the number of children that were ever created: that of the next sequential one
	Made int64
}

func statOf(s *zk.Stat) Stat {
	if s == nil {
		return Stat{}
	}
	return Stat{
		Version: s.Version, Created: time.UnixMilli(s.Ctime), Modified: time.UnixMilli(s.Mtime),
		Owner: s.EphemeralOwner, Children: int(s.NumChildren), Made: (int64(s.Cversion) + int64(s.NumChildren)) / 2,
	}
}

// tries bounds how often a request is made.
const tries = 5

// Node is the data of a node with its stat.
type Node struct {
	Data []byte
	Stat Stat
}

// Get reads a node, or kind NoNode. Reads are repeated after lost connections.
func (s *Session) Get(ctx context.Context, path string) (Node, error) {
	return read(ctx, s, "get", path, func() (Node, error) {
		data, stat, err := s.conn.Get(path)
		return Node{data, statOf(stat)}, err
	})
}

// Children returns the names of the children of a node in any order, and its stat, or kind NoNode.
func (s *Session) Children(ctx context.Context, path string) ([]string, Stat, error) {
	n, err := read(ctx, s, "children", path, func() (list, error) {
		names, stat, err := s.conn.Children(path)
		return list{names, statOf(stat)}, err
	})
	return n.names, n.stat, err
}

type list struct {
	names []string
	stat  Stat
}

// Stat returns the stat of a node, or kind NoNode.
func (s *Session) Stat(ctx context.Context, path string) (Stat, error) {
	return read(ctx, s, "stat", path, func() (Stat, error) {
		exists, stat, err := s.conn.Exists(path)
		if err == nil && !exists {
			err = zk.ErrNoNode
		}
		return statOf(stat), err
	})
}

// Sync waits until the connected server has all changes that were made before.
func (s *Session) Sync(ctx context.Context) error {
	_, err := read(ctx, s, "sync", "/", func() (string, error) { return s.conn.Sync("/") })
	return err
}

func read[T any](ctx context.Context, s *Session, op, path string, f func() (T, error)) (v T, err error) {
	for range tries {
		v, err = do(ctx, s, op, path, f)
		if k := KindOf(err); k != Unsent && k != Unknown || ctx.Err() != nil {
			return v, err
		}
		s.await(ctx)
	}
	return v, err
}

// errLarge is the cause of the refusal of a multi that servers would refuse by closing the connection.
var errLarge = errors.New("the operations are larger than servers accept")

// Multi makes all operations at once, or none. It is made once: kind Unknown or Lost means that it may have been made.
// Without operations it does nothing.
func (s *Session) Multi(ctx context.Context, ops ...Op) error {
	if len(ops) == 0 {
		return nil
	}
	if n := Size(ops); n > MostBytes {
		return &Error{Refused, "multi", ops[0].Path, fmt.Errorf("%w: %d operations, %d bytes", errLarge, len(ops), n)}
	}
	requests := make([]any, len(ops))
	for i := range ops {
		requests[i] = ops[i].request
		if r, ok := ops[i].request.(*zk.CreateRequest); ok {
			r.Acl = s.access(r.Path)
		}
	}
	responses, err := do(ctx, s, "multi", ops[0].Path, func() ([]zk.MultiResponse, error) {
		return s.conn.Multi(requests...)
	})
	var e *Error
	if errors.As(err, &e) {
		e.Path = refusedPath(ops, responses)
	}
	return err
}

// access is the access list of a node that the session creates: for its user alone, or for every client.
func (s *Session) access(path string) []zk.ACL {
	if s.isPrivate(path) {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll)
}

func (s *Session) isPrivate(path string) bool {
	return s.private != "" && (path == s.private || strings.HasPrefix(path, s.private+"/"))
}

// Open reports whether every client may change a node.
func (s *Session) Open(ctx context.Context, path string) (bool, error) {
	list, err := read(ctx, s, "access list", path, func() ([]zk.ACL, error) {
		list, _, err := s.conn.GetACL(path)
		return list, err
	})
	return slices.ContainsFunc(list, func(one zk.ACL) bool {
		return one.Scheme == "world" && one.Perms&^zk.PermRead != 0
	}), err
}

// Restrict makes a node and all below it one for the session's user alone, the node itself last. It may be repeated.
func (s *Session) Restrict(ctx context.Context, path string) error {
	names, _, err := s.Children(ctx, path)
	if err != nil && KindOf(err) != NoNode {
		return err
	}
	for _, name := range names {
		if err := s.Restrict(ctx, path+"/"+name); err != nil {
			return err
		}
	}
	_, err = read(ctx, s, "restrict", path, func() (*zk.Stat, error) {
		return s.conn.SetACL(path, zk.AuthACL(zk.PermAll), AnyVersion)
	})
	if KindOf(err) == NoNode { // an ephemeral one that ended
		return nil
	}
	return err
}

// refusedPath returns the path of the operation that was refused. The others have no error of their own.
func refusedPath(ops []Op, responses []zk.MultiResponse) string {
	for i := range responses {
		if kind := kinds[responses[i].Error]; kind != "" && i < len(ops) {
			return ops[i].Path
		}
	}
	return ops[0].Path
}

// Outcome is what a caller has found out about a change whose result is unknown.
type Outcome int

// The outcomes.
const (
	NotMade Outcome = iota // the nodes are as before
	Made                   // the nodes have the operation id of the change
	Changed                // the nodes are neither
)

// errChanged is the cause of the refusal of a change whose nodes another client changed.
var errChanged = errors.New("the nodes changed meanwhile")

// Apply makes a change, by Multi. After an unknown result, found reads what was written; the change is repeated if it
// was not made, at most 5 times. It must not be possible to make the change twice: it creates a node, or sets one at a
// version. Kind BadVersion means that another change was made before. If the session has ended, it returns kind Lost,
// and the caller reads by another session.
func (s *Session) Apply(ctx context.Context, ops []Op, found func(context.Context) (Outcome, error)) error {
	var unknown bool
	for try := 1; ; try++ {
		err := s.Multi(ctx, ops...)
		kind := KindOf(err)
		switch {
		case kind == Unknown:
			unknown = true
		case kind == "" || kind == Lost:
			return err
		case kind == Unsent:
			if try >= tries || ctx.Err() != nil {
				return err
			}
			s.await(ctx)
			continue
		case !unknown: // refused, at the first time
			return err
		}
		// Refused after an unknown result: the earlier request may have been made.
		outcome, ferr := found(ctx)
		switch {
		case ferr != nil:
			return &Error{Unknown, "multi", ops[0].Path, errors.Join(err, ferr)}
		case outcome == Made:
			return nil
		case outcome == Changed:
			return &Error{BadVersion, "multi", ops[0].Path, errChanged}
		case kind != Unknown || try >= tries || ctx.Err() != nil:
			return err
		}
	}
}

// Gone waits until a node does not exist.
func (s *Session) Gone(ctx context.Context, path string) error {
	for {
		w, err := read(ctx, s, "watch", path, func() (watched, error) {
			exists, _, events, err := s.conn.ExistsW(path)
			return watched{exists, events}, err
		})
		if err != nil || !w.exists {
			return err
		}
		select {
		case <-w.events: // a change, or the end of the connection: read again
		case <-s.lost:
			return &Error{Lost, "watch", path, errEnded}
		case <-ctx.Done():
			return &Error{Unsent, "watch", path, ctx.Err()}
		}
	}
}

type watched struct {
	exists bool
	events <-chan zk.Event
}

// Changes calls changed after each change of the children of a node, until ctx ends or the session has ended. A node
// that does not exist has no changes until it is created.
func (s *Session) Changes(ctx context.Context, path string, changed func()) {
	for ctx.Err() == nil {
		w, err := read(ctx, s, "watch", path, func() (watched, error) {
			_, _, events, err := s.conn.ChildrenW(path)
			if errors.Is(err, zk.ErrNoNode) {
				_, _, events, err = s.conn.ExistsW(path)
			}
			return watched{true, events}, err
		})
		if err != nil {
			return
		}
		select {
		case <-w.events: // a change, or the end of the connection
			changed()
		case <-s.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

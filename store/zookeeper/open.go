package zookeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
)

// Options are the settings of a store.
type Options struct {
	// Root is the node below which the store keeps its nodes, "/stagepost" by default. It and its parents are created.
	Root string
	// Owner names this process in the node epoch, for people. It is the host name and process id by default.
	Owner string
	// SessionTimeout is the time without contact to the servers after which another process may take the store, 10 s
	// by default.
	SessionTimeout time.Duration
	// User and Password authenticate the store to the servers (digest). Its nodes are then for this user alone: those
	// that every client may change are restricted when the store is opened. Nodes that it shares with another system
	// stay open. An empty User: it is not authenticated.
	User, Password string
	// Log gets lines about connections. Nil discards them.
	Log func(line string)
}

// DefaultRoot is the node of a store without another one.
const DefaultRoot = "/stagepost"

// Open opens the store of ZooKeeper servers, "host:port" each. It waits until the process that owns it has closed it or
// lost its session, or ctx ends.
func Open(ctx context.Context, servers []string, o Options) (*Store, error) {
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	if !strings.HasPrefix(o.Root, "/") || strings.HasSuffix(o.Root, "/") {
		return nil, job.Errorf(job.Invalid, "open", "", "the node %q does not begin with / or ends with it", o.Root)
	}
	if o.Owner == "" {
		host, _ := os.Hostname()
		o.Owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	s := &Store{servers: servers, options: o, root: root(o.Root), turn: make(chan struct{}, 1)}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the session. Another process may then open the store at once.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drop()
	return nil
}

// drop ends the session and forgets the records. The caller has the lock.
func (s *Store) drop() {
	if s.session != nil {
		s.session.Close()
	}
	s.session, s.r = nil, nil
}

// ready makes sure that this process owns the store and has its records. The caller has the lock.
func (s *Store) ready(ctx context.Context) error {
	if s.closed {
		return job.Errorf(job.Unavailable, "store", "", "the store is closed")
	}
	if s.session != nil {
		select {
		case <-s.session.Lost():
			s.drop()
		default:
		}
	}
	if s.session == nil {
		return s.reconnect(ctx)
	}
	if s.r == nil {
		return s.load(ctx)
	}
	return nil
}

// reconnect is connect within the time after which callers get the error that the store cannot be reached.
func (s *Store) reconnect(ctx context.Context) error {
	limit := s.options.SessionTimeout
	if limit <= 0 {
		limit = defaultReconnect
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.connect(bounded); err != nil {
		return job.Errorf(job.Unavailable, "store", "",
			"the session with ZooKeeper (%s) was lost, and there is no other yet: %w",
			strings.Join(s.servers, ","), err)
	}
	return nil
}

// defaultReconnect bounds reconnect where the session has its default timeout.
const defaultReconnect = 10 * time.Second

// Parse returns the servers, the node and the user of an address "user@host:port,host:port/node". Without a node it is
// the default, without a port 2181.
func Parse(address string) (servers []string, node, user string, err error) {
	if before, rest, ok := strings.Cut(address, "@"); ok {
		user, address = before, rest
		if user == "" || strings.ContainsAny(user, ":/,") {
			return nil, "", "", job.Errorf(job.Invalid, "open", "",
				"a user stands before @ alone: its password is in the file of store.password_file")
		}
	}
	hosts, node, _ := strings.Cut(address, "/")
	for _, host := range strings.Split(hosts, ",") {
		if host == "" {
			return nil, "", "", job.Errorf(job.Invalid, "open", "", "%q names no server: host:port,host:port/node",
				address)
		}
		if !strings.Contains(host, ":") {
			host += ":2181"
		}
		servers = append(servers, host)
	}
	if node != "" {
		node = "/" + strings.TrimSuffix(node, "/")
	}
	return servers, node, user, nil
}

// Installation returns the id of the installation, which the store was given when it was created.
func (s *Store) Installation() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.installation
}

// Writable reports why the store accepts no writes now, or nil.
func (s *Store) Writable(ctx context.Context) error {
	_, err := do(s, ctx, func(r *records) (bool, error) {
		return true, unavailable("store", s.session.Sync(r.ctx))
	})
	return err
}

// connect opens a session, takes the store, and reads its records.
func (s *Store) connect(ctx context.Context) error {
	o := &s.options
	c, err := session.Open(ctx, s.servers, session.Options{Timeout: o.SessionTimeout, Log: o.Log, User: o.User,
		Password: o.Password, Private: string(s.root)})
	if err != nil {
		return unavailable("open", err)
	}
	s.session = c
	if s.mirror != nil {
		s.mirror.Attach(c, shownRecords{s})
	}
	if err = s.skeleton(ctx); err == nil {
		err = s.own(ctx)
	}
	if err == nil {
		err = s.restrict(ctx)
	}
	if err == nil {
		err = s.load(ctx)
	}
	if err != nil {
		s.drop()
	}
	return err
}

// restrict makes the nodes of a store that was opened without a user before nodes for the user alone. The root is the
// last one, so that an interrupted call is continued by the next.
func (s *Store) restrict(ctx context.Context) error {
	open, err := s.session.Open(ctx, string(s.root))
	if err == nil && open && s.options.User != "" {
		err, open = s.session.Restrict(ctx, string(s.root)), false
	}
	s.open = open
	return unavailable("open", err)
}

// Warnings returns what is wrong with the access to the nodes of the store.
func (s *Store) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return nil
	}
	return []string{"every client of ZooKeeper may change the nodes of the store at " + string(s.root) +
		": name a user (store: zookeeper://USER@HOST) and store.password_file"}
}

func (s *Store) load(ctx context.Context) error {
	n, err := s.session.Get(ctx, s.root.commit())
	if err != nil {
		return unavailable("open", err)
	}
	r, err := load(ctx, s.session, s.root)
	if err != nil {
		return unavailable("open", err)
	}
	id, err := s.session.Get(ctx, s.root.install())
	if err != nil {
		return unavailable("open", err)
	}
	s.r, s.last, s.installation = r, string(n.Data), string(id.Data)
	return s.reclaim(ctx)
}

// skeleton creates the nodes that every store has.
func (s *Store) skeleton(ctx context.Context) error {
	var paths []string
	for i := 1; i < len(s.root); i++ {
		if s.root[i] == '/' {
			paths = append(paths, string(s.root[:i]))
		}
	}
	r := s.root
	paths = append(paths, string(r), r.epoch(), r.commit(), r.numbers(), r.jobs(), r.messages(), r.holds(), r.audit())
	for _, path := range paths {
		if err := s.make(ctx, path, nil); err != nil {
			return err
		}
	}
	if err := s.make(ctx, r.install(), []byte(rand.Text())); err != nil {
		return err
	}
	return s.make(ctx, r.counters(), encode(&countersNode{}))
}

// make creates a node if it does not exist.
func (s *Store) make(ctx context.Context, path string, data []byte) error {
	for {
		err := s.session.Multi(ctx, session.Create(path, data))
		switch session.KindOf(err) {
		case "", session.NodeExists:
			return nil
		case session.Unknown:
			if ctx.Err() == nil {
				continue
			}
		}
		return unavailable("open", err)
	}
}

// own takes the store: it creates the lock and raises the epoch in one multi.
func (s *Store) own(ctx context.Context) error {
	for {
		n, err := s.session.Get(ctx, s.root.epoch())
		if err != nil {
			return unavailable("open", err)
		}
		err = s.session.Multi(ctx, session.CreateEphemeral(s.root.lock(), []byte(s.options.Owner)),
			session.Set(s.root.epoch(), []byte(s.options.Owner), n.Stat.Version))
		switch session.KindOf(err) {
		case "":
			s.epoch = n.Stat.Version + 1
			return nil
		case session.BadVersion:
		case session.NodeExists, session.Unknown:
			if done, err := s.owned(ctx); done || err != nil {
				return err
			}
		default:
			return unavailable("open", err)
		}
	}
}

// owned waits until the lock of another process is gone. It reports whether this session has the lock, which it took by
// a multi whose answer was lost.
func (s *Store) owned(ctx context.Context) (bool, error) {
	lock, err := s.session.Stat(ctx, s.root.lock())
	switch {
	case session.KindOf(err) == session.NoNode:
		return false, nil
	case err != nil:
		return false, unavailable("open", err)
	case lock.Owner == s.session.ID():
		n, err := s.session.Get(ctx, s.root.epoch())
		s.epoch = n.Stat.Version
		return true, unavailable("open", err)
	}
	if err := s.session.Gone(ctx, s.root.lock()); err != nil {
		holder, _ := s.session.Get(context.WithoutCancel(ctx), s.root.lock())
		return false, job.Errorf(job.Unavailable, "open", "", "the store at %s is in use by %s: %w", s.root,
			holder.Data,
			err)
	}
	return false, nil
}

// unavailable makes a job.Error of an error of the connection.
func unavailable(op string, err error) error {
	var e *job.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &job.Error{Op: op, Kind: job.Unavailable, Err: err}
}

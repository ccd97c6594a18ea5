package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

const timeout = 20 * zktest.Tick

func open(t *testing.T, o session.Options) (*session.Session, *zktest.Server) {
	t.Helper()
	srv := zktest.Shared(t)
	if o.Timeout == 0 {
		o.Timeout = timeout
	}
	s, err := session.Open(t.Context(), []string{srv.Address}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, srv
}

func kind(t *testing.T, err error, want session.Kind) {
	t.Helper()
	if got := session.KindOf(err); got != want {
		t.Errorf("error %v has kind %q, want %q", err, got, want)
	}
}

func TestRequests(t *testing.T) {
	s, _ := open(t, session.Options{})
	ctx := t.Context()
	_, err := s.Get(ctx, "/a")
	kind(t, err, session.NoNode)
	_, err = s.Stat(ctx, "/a")
	kind(t, err, session.NoNode)
	kind(t, s.Multi(ctx, session.Create("/a", []byte("1")), session.CreateEphemeral("/a/e", nil),
		session.Set("/a", []byte("2"), 0)), "")
	n, err := s.Get(ctx, "/a")
	if err != nil || string(n.Data) != "2" || n.Stat.Version != 1 || n.Stat.Children != 1 || n.Stat.Made != 1 {
		t.Errorf("got %+v, %v", n, err)
	}
	if st, err := s.Stat(ctx, "/a/e"); err != nil || st.Owner != s.ID() {
		t.Errorf("the ephemeral node: %+v, %v; the session is %d", st, err, s.ID())
	}
	if names, st, err := s.Children(ctx, "/a"); err != nil || len(names) != 1 || names[0] != "e" || st.Made != 1 {
		t.Errorf("children: %q, %+v, %v", names, st, err)
	}
	kind(t, s.Sync(ctx), "")
	kind(t, s.Multi(ctx), "")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	kind(t, s.Multi(ended, session.Create("/b", nil)), session.Unsent)
}

// A refused multi writes nothing, and its error names the operation.
func TestMultiRefused(t *testing.T) {
	s, _ := open(t, session.Options{})
	ctx := t.Context()
	kind(t, s.Multi(ctx, session.Create("/a", nil), session.Create("/a/b", nil)), "")
	for _, one := range []struct {
		op   session.Op
		want session.Kind
	}{
		{session.Create("/a", nil), session.NodeExists},
		{session.Create("/x/y", nil), session.NoNode},
		{session.Set("/a", nil, 7), session.BadVersion},
		{session.Set("/x", nil, session.AnyVersion), session.NoNode},
		{session.Delete("/a", session.AnyVersion), session.NotEmpty},
		{session.Delete("/a/b", 7), session.BadVersion},
		{session.Check("/a", 7), session.BadVersion},
		{session.Check("/x", 0), session.NoNode},
		{session.Create("bad", nil), session.Refused},
	} {
		err := s.Multi(ctx, session.Create("/first", nil), one.op)
		kind(t, err, one.want)
		var e *session.Error
		if errors.As(err, &e) && e.Kind != session.Refused && e.Path != one.op.Path {
			t.Errorf("%s of %s: the error names %s", one.want, one.op.Path, e.Path)
		}
		_, err = s.Stat(ctx, "/first")
		kind(t, err, session.NoNode)
	}
	kind(t, s.Multi(ctx, session.Create("/big", make([]byte, session.MostBytes))), session.Refused)
	kind(t, s.Multi(ctx, session.Create("/big", make([]byte, session.MostBytes-1000))), "")
}

// The assertions of absence and of a directory without children are part of the multi and leave no trace.
func TestAssertions(t *testing.T) {
	s, _ := open(t, session.Options{})
	ctx := t.Context()
	kind(t, s.Multi(ctx, session.Create("/dir", nil)), "")
	kind(t, s.Multi(ctx, session.Absent("/x")...), "")
	kind(t, s.Multi(ctx, session.Childless("/dir")...), "")
	_, err := s.Stat(ctx, "/x")
	kind(t, err, session.NoNode)
	kind(t, s.Multi(ctx, session.Create("/x", nil), session.Create("/dir/c", nil)), "")
	kind(t, s.Multi(ctx, session.Absent("/x")...), session.NodeExists)
	kind(t, s.Multi(ctx, session.Childless("/dir")...), session.NotEmpty)
	if _, err := s.Stat(ctx, "/dir/c"); err != nil {
		t.Error(err)
	}
}

// A created node counts in its parent's Made, and its removal does not, so that the number of the next sequential node
// is that count.
func TestMade(t *testing.T) {
	s, srv := open(t, session.Options{})
	ctx := t.Context()
	raw := srv.Raw(t)
	kind(t, s.Multi(ctx, session.Create("/p", nil), session.Create("/p/a", nil), session.Create("/p/b", nil)), "")
	kind(t, s.Multi(ctx, session.Delete("/p/a", -1)), "")
	kind(t, s.Multi(ctx, session.Create("/p/a", nil), session.Delete("/p/b", -1)), "")
	st, err := s.Stat(ctx, "/p")
	if err != nil {
		t.Fatal(err)
	}
	name, err := raw.Create("/p/n", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil || name != "/p/n0000000003" || st.Made != 3 {
		t.Errorf("the sequential node is %s, Made was %d, %v", name, st.Made, err)
	}
}

// network can cut the connections of a session.
type network struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	lose  bool // the answer to the next request is lost
}

func (n *network) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		return nil, errors.New("the network is cut")
	}
	c, err := net.DialTimeout(network, address, timeout)
	if err == nil {
		c = &lossy{Conn: c, n: n}
		n.conns = append(n.conns, c)
	}
	return c, err
}

func (n *network) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	for _, c := range n.conns {
		if cut {
			c.Close()
		}
	}
}

// loseNext makes the next request reach the server and its answer not reach the client.
func (n *network) loseNext() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = true
}

// opMulti is the code of a multi in the header of a request, after length and number.
const opMulti = 14

// lossy is a connection that may lose the answer to a request, and ends with it.
type lossy struct {
	net.Conn
	n    *network
	dead atomic.Bool // what the server answers is lost
}

func (c *lossy) Write(b []byte) (int, error) {
	c.n.mu.Lock()
	if c.n.lose && len(b) > 12 && b[11] == opMulti {
		c.n.lose = false
		c.dead.Store(true)
	}
	c.n.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.dead.Load() {
		return 0, io.EOF
	}
	return n, err
}

// A write whose answer is lost was made once: the operation id shows it. Without a reader of what was written, it is
// reported as refused, or made twice if it can be.
func TestUnknownResult(t *testing.T) {
	n := &network{}
	s, srv := open(t, session.Options{Dial: n.dial})
	ctx := t.Context()
	kind(t, s.Multi(ctx, session.Create("/a", []byte("old"))), "")
	found := func(op string, version int32) func(context.Context) (session.Outcome, error) {
		return func(ctx context.Context) (session.Outcome, error) {
			n, err := s.Get(ctx, "/a")
			switch {
			case err != nil:
				return 0, err
			case string(n.Data) == op:
				return session.Made, nil
			case n.Stat.Version == version:
				return session.NotMade, nil
			}
			return session.Changed, nil
		}
	}
	n.loseNext()
	kind(t, s.Apply(ctx, []session.Op{session.Set("/a", []byte("op1"), 0)}, found("op1", 0)), "")
	if got, err := s.Get(ctx, "/a"); err != nil || string(got.Data) != "op1" || got.Stat.Version != 1 {
		t.Errorf("got %s, %+v, %v", got.Data, got.Stat, err)
	}
	n.loseNext() // the control: the result of a multi alone is unknown, and a second one is refused
	kind(t, s.Multi(ctx, session.Set("/a", []byte("op2"), 1)), session.Unknown)
	kind(t, s.Sync(ctx), "")
	kind(t, s.Multi(ctx, session.Set("/a", []byte("op2"), 1)), session.BadVersion)

	raw := srv.Raw(t) // another writer meanwhile
	n.loseNext()
	err := s.Apply(ctx, []session.Op{session.Set("/a", []byte("op3"), 2)},
		func(ctx context.Context) (session.Outcome, error) {
			if _, err := raw.Set("/a", []byte("other"), -1); err != nil {
				t.Error(err)
			}
			return found("op3", 2)(ctx)
		})
	kind(t, err, session.BadVersion)
}

// A request that reaches no server is repeated.
func TestServerRestarts(t *testing.T) {
	s, srv := open(t, session.Options{Timeout: time.Minute}) // longer than a restart takes
	ctx := t.Context()
	kind(t, s.Multi(ctx, session.Create("/a", nil), session.CreateEphemeral("/a/e", nil)), "")
	srv.Kill()
	srv.Restart(t)
	if _, err := s.Get(ctx, "/a/e"); err != nil {
		t.Errorf("after a restart within the timeout: %v", err)
	}
}

// When the servers were not reached during the timeout, the session is lost and never writes again, also after the
// network is back. The control is the client library alone, whose write is made under another session although its
// ephemeral node is gone.
func TestLost(t *testing.T) {
	n, m := &network{}, &network{}
	s, srv := open(t, session.Options{Dial: n.dial})
	ctx := t.Context()
	kind(t, s.Multi(ctx, session.Create("/a", nil), session.CreateEphemeral("/lock", nil)), "")
	control, _, err := zk.Connect([]string{srv.Address}, timeout, zk.WithDialer(m.dial), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if _, err := control.Create("/control", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	raw := srv.Raw(t)
	gone := func(path string) <-chan zk.Event {
		exists, _, c, err := raw.ExistsW(path)
		if err != nil || !exists {
			t.Fatal(path, exists, err)
		}
		return c
	}
	lock, other := gone("/lock"), gone("/control")
	n.set(true)
	m.set(true)
	<-s.Lost()
	<-lock // the servers have ended both sessions
	<-other
	n.set(false)
	m.set(false)
	kind(t, s.Multi(ctx, session.Set("/a", []byte("stale"), session.AnyVersion)), session.Lost)
	_, err = s.Get(ctx, "/a")
	kind(t, err, session.Lost)
	if data, _, err := raw.Get("/a"); err != nil || string(data) != "" {
		t.Errorf("the lost session wrote %q, %v", data, err)
	}
	for { // the control
		_, err := control.Set("/a", []byte("stale"), -1)
		if err == nil {
			return
		}
		if err != zk.ErrNoServer && err != zk.ErrConnectionClosed && err != zk.ErrSessionExpired {
			t.Fatal("the control cannot write:", err)
		}
	}
}

// A session that is expired by the servers while the client is connected again is lost, too: the library alone would
// open another one.
func TestExpired(t *testing.T) {
	n := &network{}
	s, srv := open(t, session.Options{Dial: n.dial})
	srv.Kill()
	n.set(true)
	srv.Restart(t) // the server counts the timeout from its start
	raw := srv.Raw(t)
	if _, err := raw.Create("/a", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	<-s.Lost()
	kind(t, s.Multi(t.Context(), session.Set("/a", []byte("stale"), session.AnyVersion)), session.Lost)
}

// Close ends the session at the servers: its ephemeral nodes are gone at once.
func TestClose(t *testing.T) {
	s, srv := open(t, session.Options{})
	kind(t, s.Multi(t.Context(), session.CreateEphemeral("/lock", nil)), "")
	s.Close()
	if exists, _, err := srv.Raw(t).Exists("/lock"); exists || err != nil {
		t.Errorf("after Close: exists %v, %v", exists, err)
	}
	<-s.Lost()
	_, err := s.Get(t.Context(), "/lock")
	kind(t, err, session.Lost)
}

// Open ends with its context when no server is reached.
func TestOpenUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan struct{}, 100)
	go func() { <-refused; cancel() }()
	_, err = session.Open(ctx, []string{address}, session.Options{Log: func(string) { refused <- struct{}{} }})
	kind(t, err, session.Unsent)
	if _, err := session.Open(t.Context(), nil, session.Options{}); session.KindOf(err) != session.Refused {
		t.Errorf("without servers: %v", err)
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

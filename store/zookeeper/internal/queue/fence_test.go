package queue_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// is checks the error of an operation.
func (h *harness) is(err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Errorf("error %v, want %v", err, want)
	}
}

// A worker whose lock is gone is refused after another worker has acquired the job: the version of the status is the
// fencing token.
func TestStaleHolder(t *testing.T) {
	h := newHarness(t)
	_, ids := h.batch(5)
	stale := h.acquire(layout.Pending)
	h.remove(ids[0].Lock()) // as the end of its session
	other, _ := h.open()
	holder := got[queue.Job](h)(other.AcquireJob(t.Context(), layout.Pending))
	before := h.tree()
	_, err := h.q.SucceedJob(t.Context(), stale, queue.Results{})
	h.is(err, queue.ErrChanged)
	_, err = h.q.FailJob(t.Context(), stale, "late")
	h.is(err, queue.ErrChanged)
	h.is(h.q.ReleaseJob(t.Context(), stale), queue.ErrChanged)
	if h.tree() != before {
		t.Errorf("the stale worker changed the tree:\n%s", h.tree())
	}
	// The control: the version of the lock is that of the stale worker's lock, and fences nothing.
	_, err = h.raw.Multi(&zk.CheckVersionRequest{Path: ids[0].Lock(), Version: 1},
		&zk.SetDataRequest{Path: ids[0].Space(), Data: []byte("0"), Version: -1})
	h.ok(err)
	need[*queue.Job](h)(other.SucceedJob(t.Context(), holder, queue.Results{}))
	h.sound()
}

// A worker of another library creates the lock and leaves the status as it is. The version of the lock distinguishes
// them.
func TestStaleHolderBesideOthers(t *testing.T) {
	h := newHarness(t)
	_, ids := h.batch(5)
	stale := h.acquire(layout.Pending)
	h.remove(ids[0].Lock())
	_, err := h.raw.Create(ids[0].Lock(), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	h.ok(err)
	before := h.tree()
	_, err = h.q.SucceedJob(t.Context(), stale, queue.Results{})
	h.is(err, queue.ErrChanged)
	h.is(h.q.ReleaseJob(t.Context(), stale), queue.ErrChanged)
	if h.tree() != before {
		t.Errorf("the stale worker changed the tree:\n%s", h.tree())
	}
	// The control: without the version of the lock, the version of the status would let it pass.
	_, err = h.raw.Multi(&zk.CheckVersionRequest{Path: ids[0].Lock(), Version: -1},
		&zk.SetDataRequest{Path: ids[0].Status(), Data: []byte(h.data(ids[0].Status())), Version: stale.Version})
	h.ok(err)
}

// The same for batches and access requests.
func TestStaleHolderOfBatch(t *testing.T) {
	h := newHarness(t)
	b := need[*queue.Batch](h)(h.q.CreateBatch(t.Context(), submission("bid-1000000")))
	stale := got[queue.Batch](h)(h.q.AcquireBatch(t.Context()))
	h.remove(b.ID.Lock())
	_, err := h.raw.Create(b.ID.Lock(), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	h.ok(err)
	_, _, err = h.q.CreateJobs(t.Context(), stale, 1, newJob("late", 5))
	h.is(err, queue.ErrChanged)
	_, err = h.q.FailBatch(t.Context(), stale, "late")
	h.is(err, queue.ErrChanged)
	if names, _, err := h.raw.Children("/jobs"); err != nil || len(names) != 1 {
		t.Errorf("the stale worker created jobs: %q, %v", names, err)
	}

	id := access(h)
	r := got[queue.Request](h)(h.q.AcquireRequest(t.Context(), layout.Small))
	h.remove(layout.Small.Lock(id))
	_, err = h.q.FinishRequest(t.Context(), r, r.Token)
	h.is(err, queue.ErrChanged)
	_, err = h.raw.Create(layout.Small.Lock(id), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	h.ok(err)
	_, err = h.q.FinishRequest(t.Context(), r, r.Token)
	h.is(err, queue.ErrChanged)
}

// A crashed worker's job is acquired by another one in the state that it was in.
func TestCrashedHolder(t *testing.T) {
	h := newHarness(t)
	_, ids := h.batch(5)
	h.drive(ids[0], layout.Downloading)
	first, s := h.open()
	got[queue.Job](h)(first.AcquireJob(t.Context(), layout.Downloading))
	if j, _, err := h.q.AcquireJob(t.Context(), layout.Downloading); j != nil || err != nil {
		t.Fatalf("a locked job was acquired: %v, %v", j, err)
	}
	s.Close()
	j := h.acquire(layout.Downloading)
	if j.ID != ids[0] {
		t.Errorf("acquired %s", j.ID)
	}
	need[*queue.Job](h)(h.q.SucceedJob(t.Context(), j, queue.Results{}))
	h.sound()
}

// An operator stops a job while a worker has it: the worker is refused, and the locks of the object are gone.
func TestStopFences(t *testing.T) {
	h := newHarness(t)
	_, ids := h.batch(5)
	h.drive(ids[0], layout.Processing)
	j := h.acquire(layout.Processing)
	need[*queue.Job](h)(h.q.SucceedJob(t.Context(), j, queue.Results{
		Identifiers: &layout.Identifiers{Primary: "ark:/99999/fk4a"}}))
	j = h.acquire(layout.Storing)
	h.ok(h.q.LockObject(t.Context(), layout.StorageLock("ark:/99999/fk4a"), "job"))
	h.ok(h.q.LockObject(t.Context(), layout.InventoryLock("ark:/99999/fk4a"), "job"))
	need[*queue.Job](h)(h.q.StopJob(t.Context(), ids[0], "stopped"))
	for _, path := range []string{ids[0].Lock(), "/locks/storage/ark_99999_fk4a", "/locks/inventory/ark_99999_fk4a"} {
		if h.exists(path) {
			t.Errorf("%s exists", path)
		}
	}
	_, err := h.q.SucceedJob(t.Context(), j, queue.Results{})
	h.is(err, queue.ErrChanged)
	h.sound()
}

// What an operator does to a locked record is refused.
func TestLockedRefuses(t *testing.T) {
	h := newHarness(t)
	_, ids := h.batch(5)
	h.acquire(layout.Pending)
	_, err := h.q.HoldJob(t.Context(), ids[0])
	h.is(err, queue.ErrLocked)
	b := need[*queue.Batch](h)(h.q.CreateBatch(t.Context(), submission("bid-1000000")))
	got[queue.Batch](h)(h.q.AcquireBatch(t.Context()))
	_, err = h.q.RestartBatch(t.Context(), b.ID)
	h.is(err, queue.ErrLocked)
	_, err = h.q.HoldBatch(t.Context(), b.ID)
	h.is(err, queue.ErrNotAllowed)
	id := access(h)
	got[queue.Request](h)(h.q.AcquireRequest(t.Context(), layout.Small))
	h.is(h.q.PurgeRequest(t.Context(), layout.Small, id), queue.ErrNotAllowed)
}

// Locks of objects exclude each other; the lock in storage remains after the end of its process.
func TestObjectLocks(t *testing.T) {
	h := newHarness(t)
	other, s := h.open()
	ctx := t.Context()
	paths := []string{
		layout.StorageLock("ark:/1/a"),
		layout.InventoryLock("ark:/1/a"),
		layout.LocalIDLock("l", "ark:/1/a"),
	}
	for _, path := range paths {
		h.ok(other.LockObject(ctx, path, "one"))
		h.is(h.q.LockObject(ctx, path, "two"), queue.ErrLocked)
		h.ok(other.UnlockObject(ctx, path, "one"))
		h.ok(h.q.LockObject(ctx, path, "two"))
		h.ok(other.UnlockObject(ctx, path, "one")) // it is another's by now
		h.is(other.LockObject(ctx, path, "one"), queue.ErrLocked)
		h.ok(h.q.UnlockObject(ctx, path, "two"))
		h.ok(other.LockObject(ctx, path, "one"))
		h.ok(other.LockObject(ctx, path, "one"))
	}
	marks, err := h.q.ObjectLocks(ctx)
	h.ok(err)
	for _, path := range paths {
		if marks[path] != "one" {
			t.Errorf("locks %v", marks)
		}
	}
	h.ok(h.q.LockObject(ctx, paths[1], "one")) // the session that took it is still open: it is the same client's
	s.Close()
	for path, want := range map[string]bool{"/locks/storage/ark_1_a": true, "/locks/inventory/ark_1_a": true,
		"/locks/localid/l_ark_1_a": false} {
		if h.exists(path) != want {
			t.Errorf("after the end of the session %s exists: %v", path, !want)
		}
	}
}

// cutter counts the multis of a session and ends its network at one of them, before or after the server got it.
type cutter struct {
	mu    sync.Mutex
	left  int // multis until the cut
	after bool
	again bool // the network is there again after the cut
	off   bool
}

func (c *cutter) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return nil, errors.New("the network is cut")
	}
	conn, err := net.DialTimeout(network, address, timeout)
	return &cut{Conn: conn, c: c}, err
}

type cut struct {
	net.Conn
	c    *cutter
	dead atomic.Bool // what the server answers is lost
}

func (c *cut) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.dead.Load() {
		return 0, io.EOF
	}
	return n, err
}

func (c *cut) Write(b []byte) (int, error) {
	const opMulti = 14
	c.c.mu.Lock()
	now := false
	if len(b) > 12 && b[11] == opMulti {
		c.c.left--
		now = c.c.left == 0
		c.c.off = c.c.off || now && !c.c.again
	}
	after := c.c.after
	c.c.mu.Unlock()
	if !now {
		return c.Conn.Write(b)
	}
	c.dead.Store(true)
	if after {
		return c.Conn.Write(b)
	}
	c.Conn.Close()
	return len(b), nil
}

var everyWrite = flag.Bool("every-write", false, "crash at every write, not at every fourth")

// TestCrash ends the network of a worker at each of its writes, before and after it reached the server. Another worker
// then finishes the work, from whatever state the first one left.
func TestCrash(t *testing.T) {
	stride := 4
	if *everyWrite {
		stride = 1
	}
	for _, after := range []bool{false, true} {
		for n := 1; ; n += stride {
			done := false
			t.Run(fmt.Sprintf("write %d, reached the server %v", n, after), func(t *testing.T) {
				h := newHarness(t)
				c := &cutter{left: n, after: after}
				s, err := session.Open(t.Context(), []string{h.srv.Address}, session.Options{Timeout: 3 * zktest.Tick,
					Dial: c.dial})
				h.ok(err)
				q := queue.New(s, queue.Options{})
				err = work(h, q)
				done = err == nil
				if k := session.KindOf(err); err != nil && k != session.Lost && k != session.Unknown &&
					k != session.Unsent {
					t.Fatalf("the worker failed with %v, not by the network", err)
				}
				if !done {
					h.await(s)
				}
				h.finish()
			})
			if done || t.Failed() {
				break
			}
		}
	}
}

// TestAnswersLost loses the answer to each write once, with the connection. Each write is made exactly once.
func TestAnswersLost(t *testing.T) {
	for n := 1; ; n++ {
		done := false
		t.Run(fmt.Sprint("write ", n), func(t *testing.T) {
			h := newHarness(t)
			c := &cutter{left: n, after: true, again: true}
			s, err := session.Open(t.Context(), []string{h.srv.Address, h.srv.Address},
				session.Options{Timeout: 20 * zktest.Tick,
					Dial: c.dial})
			h.ok(err)
			defer s.Close()
			if err := work(h, queue.New(s, queue.Options{})); err != nil {
				t.Fatal(err)
			}
			done = c.left > 0
			h.finish()
		})
		if done || t.Failed() {
			return
		}
	}
}

// work does all work until no more is there.
func work(h *harness, q *queue.Queue) error {
	ctx := h.Context()
	if _, err := q.FindBatch(ctx, "bid-1000000"); errors.Is(err, queue.ErrNotFound) {
		if _, err := q.CreateBatch(ctx, submission("bid-1000000")); err != nil {
			return err
		}
	}
	for {
		b, _, err := q.AcquireBatch(ctx)
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		if b, _, err = q.CreateJobs(ctx, b, 2, newJob("a", 5), newJob("b", 7)); err != nil {
			return err
		}
		if err := q.ReleaseBatch(ctx, b); err != nil {
			return err
		}
	}
	for _, state := range layout.JobStatuses {
		for state.Active() {
			j, _, err := q.AcquireJob(ctx, state)
			if err != nil {
				return err
			}
			if j == nil {
				break
			}
			if _, err := q.SucceedJob(ctx, j, queue.Results{Space: new(int64)}); err != nil {
				return err
			}
		}
	}
	b, _, err := q.AcquireForReporting(ctx)
	if b == nil || err != nil {
		return err
	}
	_, err = q.FinishBatch(ctx, b)
	return err
}

// await waits until the servers have ended a session: until none of its ephemeral nodes is left.
func (h *harness) await(s *session.Session) {
	h.Helper()
	for path := range zktest.Tree(h, h.raw, "/") {
		exists, st, gone, err := h.raw.ExistsW(path)
		h.ok(err)
		if exists && st.EphemeralOwner == s.ID() {
			<-gone
		}
	}
}

// finish does the remaining work with another worker, and checks the result.
func (h *harness) finish() {
	h.Helper()
	ids, _, err := h.q.BatchIDs(h.Context())
	h.ok(err)
	for _, id := range ids { // a batch whose worker crashed before it created the jobs
		if _, err := h.q.RestartBatch(h.Context(), id); err != nil && !errors.Is(err, queue.ErrNotAllowed) {
			h.Fatal(err)
		}
	}
	h.ok(work(h, h.q))
	ids, _, err = h.q.BatchIDs(h.Context())
	if err != nil || len(ids) != 1 {
		h.Fatalf("%d batches, %v", len(ids), err)
	}
	b := need[*queue.Batch](h)(h.q.Batch(h.Context(), ids[0]))
	c, err := h.q.Count(h.Context(), b.ID)
	h.ok(err)
	if b.Status.Status != layout.Completed || c.Completed != 2 || c.All() != 2 {
		h.Errorf("the batch is %s with %+v", b.Status.Status, c)
	}
	h.sound()
}

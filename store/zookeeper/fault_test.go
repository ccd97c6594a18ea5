package zookeeper_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// made returns a new job.
func made(id string, parent job.ID) job.Created {
	j, e := job.New(job.Job{ID: job.ID(id), Kind: job.Kind(storetest.Step.Name()), Position: storetest.Step.Start(),
		Priority: job.DefaultPriority, Definition: storetest.Step.Hash(), Parent: parent}, lifecycle.Owner, "alice",
		time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	return job.Created{Job: j, Event: e}
}

// sound checks the store against its records.
func sound(t *testing.T, s job.Store) {
	t.Helper()
	for _, fault := range storetest.Check(context.WithoutCancel(t.Context()), s, storetest.Step, storetest.Batch) {
		t.Error(fault)
	}
}

// A second process waits for the first one, and the error names the process that owns the store.
func TestSecondOwner(t *testing.T) {
	srv := zktest.Shared(t)
	first := open(t, srv, zookeeper.Options{Owner: "first:1"})
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error)
	go func() {
		_, err := zookeeper.Open(ctx, []string{srv.Address}, zookeeper.Options{SessionTimeout: 20 * zktest.Tick})
		opened <- err
	}()
	raw := srv.Raw(t)
	for waiting := false; !waiting; { // its session exists when it waits; the first one answers meanwhile
		if _, err := first.Holds(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-opened:
			t.Fatal("opened:", err)
		default:
		}
		data, _, err := raw.Get("/stagepost/lock")
		waiting = err == nil && string(data) == "first:1"
	}
	cancel()
	err := <-opened
	if job.KindOf(err) != job.Unavailable {
		t.Errorf("error %v", err)
	}
	first.Close()
	second := open(t, srv, zookeeper.Options{})
	if _, err := second.Create(t.Context(), made("tst_1", "")); err != nil {
		t.Error(err)
	}
	if _, err := first.Create(t.Context(), made("tst_2", "")); job.KindOf(err) != job.Unavailable {
		t.Errorf("a closed store: %v", err)
	}
}

// A process whose lock was taken by another one cannot write: its epoch is older. The control is the same write without
// the epoch, which is made.
func TestStaleOwner(t *testing.T) {
	srv := zktest.Shared(t)
	stale := open(t, srv, zookeeper.Options{})
	if _, err := stale.Create(t.Context(), made("tst_1", "")); err != nil {
		t.Fatal(err)
	}
	raw := srv.Raw(t)
	if err := raw.Delete("/stagepost/lock", -1); err != nil { // as at the end of its session
		t.Fatal(err)
	}
	owner := open(t, srv, zookeeper.Options{})
	if _, err := stale.Create(t.Context(), made("tst_2", "")); job.KindOf(err) != job.Unavailable {
		t.Errorf("a stale owner wrote: %v", err)
	}
	if exists, _, err := raw.Exists("/stagepost/jobs/tst_2"); exists || err != nil {
		t.Errorf("the node of the stale owner exists: %v, %v", exists, err)
	}
	if _, err := raw.Multi(&zk.CreateRequest{Path: "/stagepost/jobs/tst_2", Acl: zk.WorldACL(zk.PermAll)}); err != nil {
		t.Errorf("the control: %v", err)
	}
	if err := raw.Delete("/stagepost/jobs/tst_2", -1); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Create(t.Context(), made("tst_3", "")); err != nil {
		t.Error(err)
	}
	sound(t, owner)
}

// After a restart of the servers, the store has everything and goes on.
func TestServersRestart(t *testing.T) {
	srv := zktest.Shared(t)
	s := open(t, srv, zookeeper.Options{})
	if _, err := s.Create(t.Context(), made("tst_1", "")); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	srv.Restart(t)
	until(t, func() error { _, err := s.Create(t.Context(), made("tst_2", "")); return err })
	for _, id := range []job.ID{"tst_1", "tst_2"} {
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	sound(t, s)
}

// until repeats an operation while its result is unknown or no server is reached.
func until(t *testing.T, f func() error) {
	t.Helper()
	for {
		err := f()
		if err == nil {
			return
		}
		if job.KindOf(err) != job.Unavailable {
			t.Fatal(err)
		}
	}
}

// What is too large for one multi is refused, and the store goes on.
func TestTooLarge(t *testing.T) {
	srv := zktest.Shared(t)
	s := open(t, srv, zookeeper.Options{})
	big := made("tst_1", "")
	big.Job.Spec = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	if _, err := s.Create(t.Context(), big); job.KindOf(err) != job.Refused {
		t.Errorf("error %v", err)
	}
	if _, err := s.Create(t.Context(), made("tst_1", "")); err != nil {
		t.Error(err)
	}
	results, err := s.Commit(t.Context(), job.Change{Job: "tst_1", Version: 1, Set: job.Fields{Data: big.Job.Spec}},
		job.Change{Job: "tst_1", Version: 1, Set: job.Fields{Data: []byte(`{"small":1}`)}})
	if err != nil || job.KindOf(results[0].Err) != job.Refused || results[1].Err != nil {
		t.Errorf("results %v, %v", results, err)
	}
	sound(t, s)
}

// A claim of many large jobs grants them all, in several multis; so does a renewal. The control: the change of one job
// that is as large as they are together is refused.
func TestClaimOfLargeJobs(t *testing.T) {
	srv := zktest.Shared(t)
	s := open(t, srv, zookeeper.Options{})
	const jobs, size = 30, 100_000
	for i := range jobs {
		one := made(fmt.Sprintf("tst_%02d", i), "")
		one.Job.Spec = []byte(`"` + strings.Repeat("x", size) + `"`)
		if _, err := s.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	claimed, err := s.Claim(t.Context(), job.Claim{Worker: "w1", N: jobs, Now: time.Now().Add(time.Hour),
		Lease: time.Hour, From: []job.KindState{{Kind: "storetest.step", State: storetest.Step.Start().State}}})
	if err != nil || len(claimed) != jobs {
		t.Errorf("%d jobs, %v", len(claimed), err)
	}
	renewal := job.Renewal{Worker: "w1", Now: time.Now().Add(time.Hour), Lease: 2 * time.Hour}
	for i := range claimed {
		renewal.Leases = append(renewal.Leases, job.Lease{Job: claimed[i].ID, Epoch: claimed[i].Epoch})
	}
	if lost, err := s.Renew(t.Context(), renewal); err != nil || len(lost) > 0 {
		t.Errorf("a renewal: lost %v, %v", lost, err)
	}
	results, err := s.Commit(t.Context(), job.Change{Job: "tst_00", Version: 2,
		Set: job.Fields{Data: []byte(`"` + strings.Repeat("x", jobs*size) + `"`)}})
	if err != nil || job.KindOf(results[0].Err) != job.Refused {
		t.Errorf("control: %v", err)
	}
	s.Close()
	s = open(t, srv, zookeeper.Options{})
	for i := range jobs {
		j, err := s.Get(t.Context(), job.ID(fmt.Sprintf("tst_%02d", i)))
		if err != nil || j.Worker != "w1" || len(j.Spec) != size+2 {
			t.Errorf("%s is claimed by %q, %v", j.ID, j.Worker, err)
		}
	}
	sound(t, s)
}

// Large messages are taken and settled together, in several multis.
func TestLargeMessages(t *testing.T) {
	s := open(t, zktest.Shared(t), zookeeper.Options{})
	const messages, size = 20, 100_000
	for i := range messages {
		one := made(fmt.Sprintf("tst_%02d", i), "")
		one.Outbox = []job.Message{{Key: fmt.Sprint("m", i), Topic: "mail", Job: one.Job.ID,
			Body: []byte(`"` + strings.Repeat("x", size) + `"`)}}
		if _, err := s.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := s.Take(t.Context(), job.Taking{Topics: []string{"mail"}, N: messages, Lease: time.Minute,
		Now: time.Now().Add(time.Hour)})
	if err != nil || len(taken) != messages {
		t.Fatalf("%d messages, %v", len(taken), err)
	}
	for i := range taken {
		taken[i].Settled = job.Delivered
	}
	if err := s.Settle(t.Context(), taken...); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

// A node that another program has damaged is reported when the store is opened.
func TestDamaged(t *testing.T) {
	for _, path := range []string{"/stagepost/jobs/tst_1", "/stagepost/jobs/tst_1/history-000000",
		"/stagepost/counters"} {
		srv := zktest.Shared(t)
		s := open(t, srv, zookeeper.Options{})
		if _, err := s.Create(t.Context(), made("tst_1", "")); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := srv.Raw(t).Set(path, []byte("{"), -1); err != nil {
			t.Fatal(path, err)
		}
		_, err := zookeeper.Open(t.Context(), []string{srv.Address}, zookeeper.Options{})
		if job.KindOf(err) != job.Internal || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// proxy passes requests to a server, and cuts the connection at one of the multis.
type proxy struct {
	to    string
	mu    sync.Mutex
	left  int  // multis until the cut; afterwards negative
	after bool // the server gets the multi
}

func (p *proxy) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.to)
		if err != nil {
			c.Close()
			continue
		}
		cut := make(chan struct{})
		go func() { p.requests(c, s, cut) }()
		go func() {
			p.answers(s, c, cut)
			c.Close()
		}()
	}
}

// requests passes requests on, until one is to be lost.
func (p *proxy) requests(from, to net.Conn, cut chan struct{}) {
	defer to.Close()
	defer from.Close()
	const opMulti = 14
	for head := make([]byte, 4); ; {
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		lose := false
		if len(body) > 8 && binary.BigEndian.Uint32(body[4:]) == opMulti {
			p.mu.Lock()
			p.left--
			lose = p.left == 0
			p.mu.Unlock()
		}
		if lose {
			close(cut)
		}
		if !lose || p.after {
			if _, err := to.Write(append(head[:4:4], body...)); err != nil {
				return
			}
		}
		if lose && p.after {
			io.Copy(io.Discard, from) // until answers has read the answer
		}
		if lose {
			return
		}
	}
}

// answers passes answers on, until one is to be lost.
func (p *proxy) answers(from, to net.Conn, cut chan struct{}) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-cut:
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestLostWrites cuts the connection at each write, before and after it reached the server. Every operation is then
// made once: the result of a lost answer is found by the id of the commit.
func TestLostWrites(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			p := &proxy{left: n, after: after}
			t.Run(fmt.Sprintf("write %d, reached the server %v", n, after), func(t *testing.T) { lostWrite(t, p) })
			if p.left > 0 || t.Failed() {
				break
			}
		}
	}
}

func lostWrite(t *testing.T, p *proxy) {
	srv := zktest.Shared(t)
	p.to = srv.Address
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go p.serve(l)
	address := l.Addr().String()
	s, err := zookeeper.Open(t.Context(), []string{address, address}, zookeeper.Options{
		SessionTimeout: 20 * zktest.Tick})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, now := t.Context(), time.Date(2026, 3, 4, 5, 7, 0, 0, time.UTC)
	if _, err := s.Create(ctx, made("tst_1", ""), made("tst_2", "")); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(ctx, job.Claim{Worker: "w", N: 2, Lease: time.Minute, Now: now, From: []job.KindState{
		{Kind: job.Kind(storetest.Step.Name()), State: storetest.Step.Start().State}}})
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	if _, err := s.Hold(ctx, job.Hold{Scope: job.Scope{Group: "g"}, Who: "alice", Why: "test",
		Since: now}); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		results, err := s.Commit(ctx, job.Change{Job: j.ID, Epoch: j.Epoch, At: now, Keep: true,
			Set: job.Fields{Data: []byte(`{"a":1}`)}, Outbox: []job.Message{{Key: string(j.ID), Job: j.ID,
				Topic:   "mail",
				Created: now, Due: now}}})
		if err != nil || results[0].Err != nil || results[0].Job.Version != 3 {
			t.Fatal(results, err)
		}
	}
	if taken, err := s.Take(ctx, job.Taking{N: 9, Lease: time.Minute, Now: now}); err != nil || len(taken) != 2 {
		t.Errorf("taken %v, %v", taken, err)
	}
	if err := s.Note(ctx, job.Audit{Event: "note", Actor: "alice", At: now}); err != nil {
		t.Error(err)
	}
	if audit, err := s.Audit(ctx, 0, 9); err != nil || len(audit) != 2 {
		t.Errorf("audit %v, %v", audit, err)
	}
	sound(t, s)
	s.Close()
	sound(t, open(t, srv, zookeeper.Options{}))
}

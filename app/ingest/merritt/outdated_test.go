package merritt

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// known returns the records as a reading begins with them.
func (h *harness) known() map[string]zookeeper.Shown {
	h.Helper()
	all, err := h.store.Nodes(h.Context())
	h.ok(err)
	return all
}

// read compares the nodes with records that were read before.
func (h *harness) read(known map[string]zookeeper.Shown) []merritt.Seen {
	h.Helper()
	seen, _, err := h.f.link.Read(h.Context(), known)
	h.ok(err)
	if len(seen) != 1 {
		h.Fatalf("the reading has %+v", seen)
	}
	return seen
}

// count returns how many records the store has.
func (h *harness) count() int {
	h.Helper()
	page, err := h.store.List(h.Context(), job.Query{Limit: 1000})
	h.ok(err)
	return len(page.Jobs)
}

// What the server changes between the reading of its records and that of the nodes, and after both, is not undone in
// the name of Merritt.
func TestOutdatedReading(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	p := &pass{Follower: h.f}
	prioritize := func(n int) {
		_, err := h.engine.Operator().SetPriority(t.Context(), j.ID, 0, n, "op", "test")
		h.ok(err)
	}

	known := h.known()
	prioritize(12)
	seen := h.read(known)
	prioritize(20)
	h.ok(p.follow(t.Context(), &seen[0]))
	if got := h.get(j.ID); got.Priority != 20 {
		t.Errorf("the priority of a person became %d", got.Priority)
	}

	known = h.known()
	h.drive(j.ID, record.Estimating)
	seen = h.read(known)
	h.do(j.ID, record.Stop, lifecycle.Operator)
	h.ok(p.follow(t.Context(), &seen[0]))
	if got := h.get(j.ID); got.State != record.Failed {
		t.Errorf("the job that a person stopped became %s", got.State)
	}
	if !p.again {
		t.Error("the nodes are not read again")
	}
	history, err := h.store.History(t.Context(), j.ID, 0, 0)
	h.ok(err)
	for _, e := range history {
		if e.Actor == merritt.Actor {
			t.Errorf("%s by %s", e.Event, e.Actor)
		}
	}
}

// Nodes that Merritt has written again since they were read are not given the state of the record.
func TestOutdatedRestore(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	h.fail(j.ID)
	h.do(j.ID, record.Delete, lifecycle.Operator)
	h.ok(h.program.Move(id, "Notify", "")) // the Ruby library checks nothing
	seen := h.read(h.known())
	now := h.get(j.ID)
	h.ok(h.program.Move(id, "Completed", ""))
	done, err := h.f.link.Restore(t.Context(), &now, &seen[0], "")
	h.ok(err)
	if s := h.program.Status("/jobs/" + id); done || s != "Completed" {
		t.Errorf("the nodes of Merritt became %s", s)
	}
	seen = h.read(h.known()) // the control
	if done, err := h.f.link.Restore(t.Context(), &now, &seen[0], ""); err != nil || !done {
		t.Errorf("nodes that were not written since are not restored: %v", err)
	}
}

// A batch that this server creates between the reading of its records and that of the nodes is no batch of Merritt.
func TestOwnBatchIsNotAdopted(t *testing.T) {
	h := newHarness(t)
	h.f.app, h.f.engine = h.app, h.engine
	p := &pass{Follower: h.f}
	known := h.known()
	h.submit("hello")
	seen := h.read(known)
	h.ok(p.unknown(t.Context(), &seen[0]))
	if n := h.count(); n != 1 {
		t.Errorf("%d records of one batch", n)
	}
	h.payload("bid-1", "one")
	_, err := h.program.Submit("bid-1", "maps_content", "one", "batchManifestFile") // the control
	h.ok(err)
	seen = h.read(h.known())
	h.ok(p.unknown(t.Context(), &seen[0]))
	if n := h.count(); n != 2 {
		t.Errorf("%d records of two batches", n)
	}
}

// A second record of the nodes of another one, as earlier versions made it, ends. The nodes remain those of the first.
func TestDoubleEnds(t *testing.T) {
	h := newHarness(t)
	b, _ := h.pending()
	node := h.node(b.ID)
	h.f.link.Adopt(node)
	double, err := h.engine.Submit(t.Context(), engine.Order{Kind: record.BatchKind, Key: merritt.KeyOf(node),
		Spec: record.BatchSpec{}})
	h.ok(err)
	none := 1
	results, err := h.store.Commit(t.Context(), job.Change{Job: double.ID, Version: double.Version,
		Set: job.Fields{Expected: &none}})
	h.ok(err)
	h.ok(results[0].Err)
	h.do(double.ID, record.Begin, lifecycle.Worker)
	if id, _, err := h.store.Node(t.Context(), node); err != nil || id != b.ID {
		t.Errorf("%s shows %s, not %s: %v", node, id, b.ID, err)
	}
	h.ok(h.f.endDoubles(t.Context()))
	if got := h.get(double.ID); got.State != record.Deleted {
		t.Errorf("the second record is %s", got.State)
	}
	h.purge(double.ID)
	if got := h.get(b.ID); got.State != record.Processing || h.program.Status("/batches/"+node) != "Processing" {
		t.Errorf("the batch is %s, its nodes %s", got.State, h.program.Status("/batches/"+node))
	}
	h.sound()
}

// A job whose status a program of Merritt has written before it ended, without the queue entry, goes on after a repair.
func TestHalfWritten(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	path := "/jobs/" + id + "/status"
	_, err := h.program.Conn.Set(path, []byte(strings.Replace(h.program.Text(path), "Pending", "Estimating", 1)), -1)
	h.ok(err)
	h.pass()
	if got := h.get(j.ID); got.State != record.Pending || len(h.claims(record.Pending)) > 0 {
		t.Fatalf("it is %s", got.State)
	}
	h.f.mend(t.Context())
	h.pass()
	if got := h.get(j.ID); got.State != record.Estimating {
		t.Errorf("it is %s after the repair; %v", got.State, h.f.Findings())
	}
	h.sound()
}

// Records whose nodes are gone in two readings end, a job before its batch.
func TestGone(t *testing.T) {
	h := newHarness(t)
	b, j := h.pending()
	request, err := h.engine.Submit(t.Context(), engine.Order{Kind: access.Kind, Tags: []string{access.SmallTag},
		Spec: map[string]string{"ark": "ark:/99999/fk4a", "name": "a"}})
	h.ok(err)
	other := h.submit("hello again")
	h.drive(j.ID, record.Downloading)
	for _, path := range []string{"/jobs/" + h.node(j.ID), "/batches/" + h.node(b.ID), "/access/" + h.node(request.ID),
		"/jobs/states/downloading/05-" + h.node(j.ID)} {
		zktest.Remove(t, h.program.Conn, path)
	}
	h.pass()
	for _, id := range []job.ID{b.ID, j.ID, request.ID} {
		if got := h.get(id); got.Ended {
			t.Errorf("%s is %s after one reading", id, got.State)
		}
	}
	if f := h.f.Findings(); len(f) != 3 {
		t.Errorf("findings %v", f)
	}
	h.pass()
	for _, id := range []job.ID{b.ID, j.ID, request.ID} {
		if got := h.get(id); got.State != record.Deleted {
			t.Errorf("%s is %s: %v", id, got.State, h.f.Findings())
		}
	}
	h.pass()
	if f := h.f.Findings(); len(f) > 0 {
		t.Errorf("findings %v", f)
	}
	if got := h.get(other.ID); got.State != record.Pending {
		t.Errorf("another batch is %s", got.State)
	}
	history, err := h.store.History(t.Context(), j.ID, 0, 0)
	h.ok(err)
	if last := history[len(history)-1]; last.Actor != merritt.Actor || !strings.Contains(last.Note, "removed") {
		t.Errorf("%s by %s: %s", last.Event, last.Actor, last.Note)
	}
}

// The lock of an object that a program of Merritt has remains when a person stops a job that waits for it.
func TestStopLeavesTheirLock(t *testing.T) {
	h := newHarness(t)
	h.ok(h.program.Put(storageLock))
	h.run()
	j := h.object()
	h.await(j.ID, func(j *job.Job) bool { return j.State == record.Storing && j.Cause == merritt.LockedCause })
	h.do(j.ID, record.Stop, lifecycle.Operator)
	if got := h.get(j.ID); got.State != record.Failed {
		t.Errorf("it is %s", got.State)
	}
	if !h.anyLock() {
		t.Error("the lock of Merritt's program was removed")
	}
}

// A priority above 99, as the estimate of Merritt may write it, becomes 99 in all nodes with the next change here.
func TestPriorityOutside(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	h.ok(h.program.Lock("/jobs/" + id))
	h.ok(h.program.Move(id, "Estimating", "Success"))
	h.ok(h.program.Priority(id, 105))
	h.ok(h.program.Unlock("/jobs/" + id))
	h.pass()
	h.do(j.ID, record.Stop, lifecycle.Operator)
	if got := h.get(j.ID); got.Priority != 99 || h.program.Text("/jobs/"+id+"/priority") != "99" {
		t.Errorf("priority %d, in Merritt %s", got.Priority, h.program.Text("/jobs/"+id+"/priority"))
	}
	h.sound()
}

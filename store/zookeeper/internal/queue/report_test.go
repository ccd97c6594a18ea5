package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// TestReport writes bad data of each rule: the report finds them, with the node whose removal mends them. Repair mends
// those that follow from a status.
func TestReport(t *testing.T) {
	const (
		batch = "/batches/bid0000000000"
		job   = "/jobs/jid0000000001"
		entry = "/jobs/states/pending/07-jid0000000001"
		ref   = batch + "/states/batch-processing/jid0000000001"
	)
	for _, one := range []struct {
		name, rule, path, deletable string
		damage                      func(h *harness)
		left                        string // rules that Repair leaves to a person
	}{
		{"uuid of no batch", "1", "/batch-uuids/bid-1", "/batch-uuids/bid-1", put("/batch-uuids/bid-1",
			"bid0000000900"), ""},
		{"batch without uuid", "2", batch + "/submission", "", del("/batch-uuids/bid-9000000"), "2"},
		{"reference to no job", "3", batch + "/states/batch-processing/jid0000000900",
			batch + "/states/batch-processing/jid0000000900", put(batch+"/states/batch-processing/jid0000000900", ""),
			""},
		{"job of no batch", "4", job + "/bid", "", put(job+"/bid", "bid0000000900"), "3 4"},
		{"job in two directories", "4", job + "/bid", batch + "/states/batch-failed/jid0000000001", func(h *harness) {
			h.put(batch+"/states/batch-failed", "", batch+"/states/batch-failed/jid0000000001", "")
		}, ""},
		{"job without reference", "4", job + "/bid", "", del(ref), ""},
		{"job without status", "5", job, job, del(job + "/status"), ""},
		{"job without entry", "5", job, "", del(entry), ""},
		{"entry of no job", "6", "/jobs/states/held/05-jid0000000900", "/jobs/states/held/05-jid0000000900",
			put("/jobs/states/held/05-jid0000000900", ""), ""},
		{"states without children", "7", "/batches/bid0000000001/states", "/batches/bid0000000001/states",
			func(h *harness) {
				need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
				h.put("/batches/bid0000000001/states", "")
			}, ""},
		{"job with two entries", "9", "/jobs/states/notify/07-jid0000000001", "/jobs/states/notify/07-jid0000000001",
			put("/jobs/states/notify/07-jid0000000001", ""), ""},
		{"priority above 99", "priority", "/jobs/states/pending/107-jid0000000001",
			"/jobs/states/pending/107-jid0000000001", func(h *harness) {
				h.remove(entry)
				h.put(job+"/priority", "107", "/jobs/states/pending/107-jid0000000001", "")
			}, ""},
		{"no identifiers", "identifiers", job, "", del(job + "/identifiers"), ""},
		{"status of a job", "status", job + "/status", "", put(job+"/status", "{"), "status"},
		{"status of a batch", "status", batch, "", put(batch+"/status", "{"), "status"},
		{"submission of a batch", "submission", batch, "", put(batch+"/submission", "{"), "submission"},
		{"name of an entry", "name", "/jobs/states/held/x", "/jobs/states/held/x", put("/jobs/states/held/x", ""),
			"name"},
		{"name of a queue", "name", "/jobs/states/lost", "", put("/jobs/states/lost", ""), "name"},
		{"name of a job", "name", "/jobs/x", "", put("/jobs/x", ""), "name"},
		{"name of a batch", "name", "/batches/x", "", put("/batches/x", ""), "name"},
		{"access without status", "access", "/access/small/qid0000000000", "/access/small/qid0000000000",
			put("/access/small/qid0000000000", ""), "access"},
	} {
		t.Run(one.name, func(t *testing.T) {
			h := newHarness(t)
			h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob)
			h.put(job+"/identifiers", `{"primary_id":"","local_id":[]}`)
			h.sound() // the control
			one.damage(h)
			findings, err := h.q.Report(t.Context())
			h.ok(err)
			found := false
			for _, f := range findings {
				found = found || f.Rule == one.rule && f.Path == one.path && f.Deletable == one.deletable &&
					f.Level != "" && f.Text != ""
			}
			if !found {
				t.Errorf("not found: %+v", findings)
			}
			h.repair(strings.Fields(one.left)...)
		})
	}
}

// Old findings are failures; locks and records of a day are found by their age.
func TestReportAges(t *testing.T) {
	h := newHarness(t)
	h.batch(5)
	h.acquire(layout.Pending)
	h.put("/batch-uuids/bid-1", "bid0000000900")
	now := time.Now()
	for _, one := range []struct {
		age  time.Duration
		want string
	}{
		{0, "1:WARN"},
		{3 * time.Minute, "1:WARN 8:FAIL"},
		{2 * time.Hour, "1:FAIL 8:FAIL"},
		{25 * time.Hour, "1:FAIL 8:FAIL stuck:WARN stuck:WARN"},
	} {
		q := queue.New(h.s, queue.Options{Now: func() time.Time { return now.Add(one.age) }})
		findings, err := q.Report(t.Context())
		h.ok(err)
		var got []string
		for _, f := range findings {
			got = append(got, f.Rule+":"+string(f.Level))
		}
		if strings.Join(got, " ") != one.want {
			t.Errorf("after %s: %q, want %s", one.age, got, one.want)
		}
	}
}

// Repair leaves young nodes and locked records as they are: they may be a change that is being made.
func TestRepairWaits(t *testing.T) {
	h := newHarness(t)
	h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob)
	h.put("/jobs/jid0000000001/identifiers", `{"primary_id":"","local_id":[]}`)
	h.remove("/jobs/states/pending/07-jid0000000001")
	if done, _, err := h.q.Repair(t.Context(), time.Hour); err != nil || len(done) > 0 {
		t.Errorf("young nodes were repaired: %v, %v", done, err)
	}
	h.put("/jobs/jid0000000001/lock", "")
	if done, _, err := h.q.Repair(t.Context(), -time.Hour); err != nil || len(done) > 0 {
		t.Errorf("a locked job was repaired: %v, %v", done, err)
	}
	h.remove("/jobs/jid0000000001/lock")
	if done, _, err := h.q.Repair(t.Context(), -time.Hour); err != nil || len(done) != 1 {
		t.Errorf("repaired %v, %v", done, err)
	}
	h.sound()
}

// TestPauses pauses each queue: nothing is acquired, except by the inventory, and running work ends.
func TestPauses(t *testing.T) {
	h := newHarness(t)
	ctx := t.Context()
	_, ids := h.batch(5, 6)
	running := h.acquire(layout.Pending)
	need[*queue.Batch](h)(h.q.CreateBatch(ctx, submission("bid-1000000")))
	for range 2 { // it may be repeated
		h.ok(h.q.PauseIngest(ctx))
	}
	_, _, err := h.q.AcquireJob(ctx, layout.Pending)
	h.is(err, queue.ErrPaused)
	_, _, err = h.q.AcquireBatch(ctx)
	h.is(err, queue.ErrPaused)
	need[*queue.Job](h)(h.q.SucceedJob(ctx, running, queue.Results{}))
	for range 2 {
		h.ok(h.q.ResumeIngest(ctx))
	}
	h.drive(ids[0], layout.Recording)
	h.ok(h.q.PauseIngest(ctx))
	h.acquire(layout.Recording)
	for _, in := range []layout.Queue{layout.Small, layout.Large} {
		need[*queue.Request](h)(h.q.CreateRequest(ctx, in, layout.Token{Status: 201}))
		h.ok(h.q.PauseAccess(ctx, in))
		_, _, err := h.q.AcquireRequest(ctx, in)
		h.is(err, queue.ErrPaused)
		h.ok(h.q.ResumeAccess(ctx, in))
		got[queue.Request](h)(h.q.AcquireRequest(ctx, in))
	}
}

// A batch whose jobs are created by several calls is not reported before all exist. The control is the number of jobs
// that is recorded: with a lower one, the batch is reported too early.
func TestExpected(t *testing.T) {
	for _, one := range []struct {
		expected int
		early    bool
	}{{2, false}, {1, true}} {
		h := newHarness(t)
		ctx := t.Context()
		need[*queue.Batch](h)(h.q.CreateBatch(ctx, submission("bid-1000000")))
		b := got[queue.Batch](h)(h.q.AcquireBatch(ctx))
		b, ids, err := h.q.CreateJobs(ctx, b, one.expected, newJob("a", 5))
		h.ok(err)
		h.drive(ids[0], layout.Completed)
		h.ok(h.q.ReleaseBatch(ctx, b)) // as after a crash
		found, _, err := h.q.AcquireForReporting(ctx)
		h.ok(err)
		if (found != nil) != one.early {
			t.Errorf("%d jobs expected: acquired %v", one.expected, found)
		}
	}
}

// MostJobs divides many jobs into calls that servers accept, of which each is all or none.
func TestManyJobs(t *testing.T) {
	h := newHarness(t)
	ctx := t.Context()
	need[*queue.Batch](h)(h.q.CreateBatch(ctx, submission("bid-1000000")))
	b := got[queue.Batch](h)(h.q.AcquireBatch(ctx))
	jobs := make([]queue.NewJob, 1500)
	for i := range jobs {
		jobs[i] = newJob("job", i%100)
	}
	if _, _, err := h.q.CreateJobs(ctx, b, len(jobs), jobs...); err == nil || errors.Is(err, queue.ErrChanged) {
		t.Errorf("all at once: %v", err)
	}
	if names, _, err := h.raw.Children("/jobs"); err != nil || len(names) != 1 {
		t.Errorf("after the refusal: %d nodes, %v", len(names), err)
	}
	for left := jobs; len(left) > 0; {
		n := h.q.MostJobs(left)
		var err error
		if b, _, err = h.q.CreateJobs(ctx, b, len(jobs), left[:n]...); err != nil {
			t.Fatal(err)
		}
		left = left[n:]
	}
	c, err := h.q.Count(ctx, b.ID)
	if err != nil || c.InProcess != len(jobs) {
		t.Errorf("%+v, %v", c, err)
	}
	h.sound()
	h.ok(h.q.ReleaseBatch(ctx, b))
	for range 3 { // in the order of priority, then of creation
		if j := h.acquire(layout.Pending); j.Priority != 0 {
			t.Errorf("acquired priority %d", j.Priority)
		}
	}
}

// Several workers acquire at the same time: no job is acquired twice.
func TestConcurrentWorkers(t *testing.T) {
	h := newHarness(t)
	const workers, n = 4, 40
	h.batch(make([]int, n)...)
	type one struct {
		id  layout.JobID
		err error
	}
	all := make(chan one)
	for range workers {
		q, _ := h.open()
		go func() {
			for {
				j, _, err := q.AcquireJob(t.Context(), layout.Pending)
				if j == nil {
					all <- one{"", err}
					return
				}
				all <- one{j.ID, nil}
				if _, err := q.SucceedJob(t.Context(), j, queue.Results{}); err != nil {
					all <- one{"", err}
					return
				}
			}
		}()
	}
	seen := map[layout.JobID]bool{}
	for ended := 0; ended < workers; {
		o := <-all
		switch {
		case o.err != nil:
			t.Error(o.err)
			ended++
		case o.id == "":
			ended++
		case seen[o.id]:
			t.Errorf("%s was acquired twice", o.id)
		default:
			seen[o.id] = true
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d jobs were acquired", len(seen), n)
	}
	h.sound()
}

// Several clients create batches and jobs at the same time: each gets a name of its own.
func TestConcurrentCreation(t *testing.T) {
	h := newHarness(t)
	const clients, n = 4, 10
	failed := make(chan error)
	for range clients {
		q, _ := h.open()
		go func() {
			var err error
			for range n {
				o := submission("")
				delete(o, "batchID")
				if _, e := q.CreateBatch(t.Context(), o); e != nil {
					err = e
				}
				if b, _, e := q.AcquireBatch(t.Context()); e != nil {
					err = e
				} else if b != nil {
					if b, _, e = q.CreateJobs(t.Context(), b, 2, newJob("a", 1), newJob("b", 2)); e != nil {
						err = e
					} else if e := q.ReleaseBatch(t.Context(), b); e != nil {
						err = e
					}
				}
			}
			failed <- err
		}()
	}
	for range clients {
		h.ok(<-failed)
	}
	for { // those that another client was about to acquire
		b, _, err := h.q.AcquireBatch(t.Context())
		h.ok(err)
		if b == nil {
			break
		}
		b, _, err = h.q.CreateJobs(t.Context(), b, 2, newJob("a", 1), newJob("b", 2))
		h.ok(err)
		h.ok(h.q.ReleaseBatch(t.Context(), b))
	}
	batches, _, err := h.raw.Children("/batches")
	h.ok(err)
	jobs, _, err := h.raw.Children("/jobs")
	h.ok(err)
	if len(batches) != clients*n || len(jobs) != 2*clients*n+1 {
		t.Errorf("%d batches, %d jobs", len(batches), len(jobs)-1)
	}
	h.sound()
}

// Nodes that were created under names of their own, as by a restore, do not stop the creation of others.
func TestTakenNames(t *testing.T) {
	h := newHarness(t)
	ctx := t.Context()
	h.put("/batches/bid0000000001", "", "/jobs/jid0000000003", "", "/jobs/jid0000000005", "",
		"/access/small/qid0000000001", "")
	b := need[*queue.Batch](h)(h.q.CreateBatch(ctx, submission("bid-1000000")))
	if b.ID != "bid0000000002" {
		t.Errorf("created %s", b.ID)
	}
	b, _, err := h.q.AcquireBatch(ctx)
	h.ok(err)
	_, ids, err := h.q.CreateJobs(ctx, b, 3, newJob("a", 1), newJob("b", 1), newJob("c", 1))
	if h.ok(err); len(ids) != 3 || ids[0] != "jid0000000006" {
		t.Errorf("created %s", ids)
	}
	if id := access(h); id != "qid0000000002" {
		t.Errorf("created %s", id)
	}
}

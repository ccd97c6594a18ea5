package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// steps are writes of another library, one after the other. The tests end it between any two of them.
type steps []func(h *harness)

func put(path, data string) func(h *harness) { return func(h *harness) { h.put(path, data) } }
func del(path string) func(h *harness)       { return func(h *harness) { h.remove(path) } }

const foreignSubmission = `{"batchID":"bid-9000000","profile":"maps_content","type":"file","size":1,"filename":"f",` +
	`"update":false,"submitter":"u","submissionDate":"d","notificationFormat":"xml","custom":{"kept":[1,2]}}`

func foreignStatus(state, last string) string {
	return fmt.Sprintf(`{"status":%q,"last_successful_status":%s,"last_modified":"2026-11-20 10:21:44 +0000",`+
		`"retry_count":0,"message":"Success","custom":{"kept":true}}`, state, last)
}

// javaCreatesBatch are the steps of createBatch.
var javaCreatesBatch = steps{
	put("/batches/bid0000000000", ""),
	put("/batch-uuids/bid-9000000", "bid0000000000"),
	put("/batches/bid0000000000/submission", foreignSubmission),
	put("/batches/bid0000000000/status",
		`{"status":"Pending","last_modified":"2026-11-20 10:21:44 +0000","message":""}`),
}

// javaAcquiresBatch are those of acquirePendingBatch. The lock is ephemeral, so that it is gone after a crash.
var javaAcquiresBatch = steps{
	put("/batches/bid0000000000/states", ""),
	put("/batches/bid0000000000/status",
		`{"status":"Processing","last_modified":"2026-11-20 10:21:44 +0000","message":""}`),
}

// javaCreatesJob are those of createJob; the directory of references is created by the first one.
var javaCreatesJob = steps{
	put("/jobs/jid0000000001", ""),
	put("/jobs/jid0000000001/bid", "bid0000000000"),
	put("/jobs/jid0000000001/priority", "5"),
	put("/jobs/jid0000000001/space_needed", "0"),
	put("/jobs/jid0000000001/configuration", `{"profile":"maps_content","update":false,"custom":{"kept":1}}`),
	put("/jobs/jid0000000001/priority", "7"),
	put("/jobs/jid0000000001/status", foreignStatus("Pending", "null")),
	put("/jobs/states/pending/07-jid0000000001", ""),
	put("/batches/bid0000000000/states/batch-processing", ""),
	put("/batches/bid0000000000/states/batch-processing/jid0000000001", ""),
}

// javaMoves are the steps of setStatus, with those of a new priority. Every directory exists.
func javaMoves(from, to layout.Status, priority int) steps {
	const id = "jid0000000001"
	ref := "/batches/bid0000000000/states/"
	entry := func(s layout.Status, p int) string {
		return fmt.Sprintf("/jobs/states/%s/%02d-%s", strings.ToLower(string(s)), p, id)
	}
	dir := func(s layout.Status) string {
		return ref + map[layout.Status]string{"Failed": "batch-failed", "Completed": "batch-completed",
			"Deleted": "batch-deleted"}[s] + "/" + id
	}
	path := func(s layout.Status) string {
		return strings.Replace(dir(s), "states//", "states/batch-processing/", 1)
	}
	var all steps
	if priority != 7 {
		all = append(all, put("/jobs/"+id+"/priority", fmt.Sprint(priority)))
	}
	return append(all, put("/jobs/"+id+"/status", foreignStatus(string(to), fmt.Sprintf("%q", from))),
		del(entry(from, 7)), put(entry(to, priority), ""), del(path(from)), put(path(to), ""))
}

// directories makes the directories of references.
func (h *harness) directories() {
	h.Helper()
	for _, d := range []string{"batch-processing", "batch-failed", "batch-completed", "batch-deleted"} {
		h.put("/batches/bid0000000000/states/"+d, "")
	}
}

func (h *harness) run(s ...steps) {
	h.Helper()
	for _, step := range slices.Concat(s...) {
		step(h)
	}
}

// repair repairs the tree, whatever its age, and checks that nothing is left to repair.
func (h *harness) repair(except ...string) (done []queue.Repaired, left []queue.Bad) {
	h.Helper()
	done, left, err := h.q.Repair(h.Context(), -1<<40)
	h.ok(err)
	again, _, err := h.q.Repair(h.Context(), -1<<40)
	if err != nil || len(again) > 0 {
		h.Errorf("repaired again: %v, %v", again, err)
	}
	h.sound(except...)
	return done, left
}

// After each step of createBatch, the batch is either removed or pending, and can be acquired.
func TestHalfCreatedBatch(t *testing.T) {
	for n := range len(javaCreatesBatch) + 1 {
		h := newHarness(t)
		h.run(javaCreatesBatch[:n])
		h.repair()
		b, bad, err := h.q.AcquireBatch(t.Context())
		if want := n >= 3; err != nil || len(bad) > 0 || (b != nil) != want {
			t.Errorf("after %d steps: acquired %+v, %v, %v", n, b, bad, err)
		}
		if n < 3 && h.tree() != "" {
			t.Errorf("after %d steps:\n%s", n, h.tree())
		}
		if b != nil && !strings.Contains(h.data("/batches/bid0000000000/submission"), `"custom":{"kept":[1,2]}`) {
			t.Errorf("the submission changed: %s", h.data("/batches/bid0000000000/submission"))
		}
	}
}

// A batch with a directory of references that is pending was not acquired to its end: it can be acquired after the
// repair, and not before.
func TestHalfAcquiredBatch(t *testing.T) {
	h := newHarness(t)
	h.run(javaCreatesBatch, javaAcquiresBatch[:1])
	if b, _, err := h.q.AcquireBatch(t.Context()); b != nil || err != nil {
		t.Fatalf("acquired %v, %v", b, err)
	}
	if done, _ := h.repair(); len(done) != 1 {
		t.Errorf("repaired %v", done)
	}
	got[queue.Batch](h)(h.q.AcquireBatch(t.Context()))

	h = newHarness(t) // in Processing, without jobs
	h.run(javaCreatesBatch, javaAcquiresBatch)
	if done, left := h.repair(); len(done) != 1 || len(left) != 0 {
		t.Errorf("repaired %v, left %v", done, left)
	}
	got[queue.Batch](h)(h.q.AcquireBatch(t.Context()))
}

// After each step of createJob, the job is either removed or can be acquired and driven to its end.
func TestHalfCreatedJob(t *testing.T) {
	for n := range len(javaCreatesJob) + 1 {
		h := newHarness(t)
		h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob[:n])
		h.repair()
		if n < 7 {
			if _, err := h.q.Job(t.Context(), "jid0000000001"); !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("after %d steps: %v", n, err)
			}
			continue
		}
		j := h.acquire(layout.Pending)
		if j.Priority != 7 {
			t.Errorf("after %d steps: priority %d", n, j.Priority)
		}
		need[*queue.Job](h)(h.q.SucceedJob(t.Context(), j, queue.Results{}))
		if !strings.Contains(h.data("/jobs/jid0000000001/status"), `"custom":{"kept":true}`) {
			t.Errorf("the key of another program is lost: %s", h.data("/jobs/jid0000000001/status"))
		}
		h.sound()
	}
}

// TestHalfMovedJob ends another library after each step of each transition of a job. After the repair the job is in the
// state of its status, in exactly one queue and one directory of its batch.
func TestHalfMovedJob(t *testing.T) {
	h := newHarness(t)
	for _, from := range layout.JobStatuses {
		for _, to := range layout.JobStatuses {
			if !layout.JobTable.Allowed(from, to) {
				continue
			}
			for _, priority := range []int{7, 17} {
				if priority != 7 && from != layout.Estimating && from != layout.Failed {
					continue // a worker changes it in Estimating, an operator when it is requeued
				}
				all := javaMoves(from, to, priority)
				for n := range len(all) + 1 {
					h.halfMoved(from, to, all, n)
				}
			}
		}
	}
}

func (h *harness) halfMoved(from, to layout.Status, all steps, n int) {
	h.Helper()
	h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob)
	h.directories()
	if from != layout.Pending {
		h.run(javaMoves(layout.Pending, from, 7))
	}
	h.put("/jobs/jid0000000001/identifiers", `{"primary_id":"","local_id":[]}`)
	h.run(all[:n])
	h.repair()
	j := need[*queue.Job](h)(h.q.Job(h.Context(), "jid0000000001"))
	if want := map[bool]layout.Status{true: to, false: from}; j.Status.Status != want[n >= len(all)-4] {
		h.Errorf("%s to %s, %d steps: it is %s", from, to, n, j.Status.Status)
	}
	if !h.exists(j.Entry()) || !h.exists(j.Batch.Reference(j.Status.Status.BatchDir(), j.ID)) {
		h.Errorf("%s to %s, %d steps: %s or the reference is missing", from, to, n, j.Entry())
	}
	for _, p := range []string{"/batches", "/batch-uuids", "/jobs"} {
		zktestRemove(h, p)
	}
	h.ok(h.q.Init(h.Context()))
}

// A worker repairs the entry of a job that it has acquired, without a call of Repair.
func TestMoveRepairs(t *testing.T) {
	for name, damage := range map[string]func(h *harness){
		"no entry":     func(h *harness) { h.remove("/jobs/states/pending/07-jid0000000001") },
		"old priority": func(h *harness) { h.put("/jobs/jid0000000001/priority", "9") },
		"no reference": func(h *harness) { h.remove("/batches/bid0000000000/states/batch-processing/jid0000000001") },
		"two references": func(h *harness) {
			h.put("/batches/bid0000000000/states/batch-failed", "",
				"/batches/bid0000000000/states/batch-failed/jid0000000001", "")
		},
	} {
		h := newHarness(t)
		h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob)
		h.put("/jobs/jid0000000001/identifiers", `{"primary_id":"","local_id":[]}`)
		j := h.acquire(layout.Pending)
		damage(h)
		need[*queue.Job](h)(h.q.FailJob(t.Context(), j, "broken"))
		t.Log(name)
		h.sound()
	}
}

// After each step of Job.delete and Batch.delete, the rest is removed.
func TestHalfRemoved(t *testing.T) {
	const job, ref = "/jobs/jid0000000001", "/batches/bid0000000000/states/batch-completed/jid0000000001"
	all := steps{del("/jobs/states/completed/07-jid0000000001"), del(ref), del(job + "/bid"),
		del(job + "/configuration"),
		del(job + "/priority"), del(job + "/space_needed"), del(job + "/status"), del(job + "/identifiers"), del(job),
		del("/batch-uuids/bid-9000000"), del("/batches/bid0000000000/status")}
	for n := range len(all) + 1 {
		h := newHarness(t)
		h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob)
		h.directories()
		h.put(job+"/identifiers", `{"primary_id":"","local_id":[]}`,
			"/batches/bid0000000000/status", `{"status":"Completed","message":""}`)
		h.run(javaMoves(layout.Notify, layout.Completed, 7)[:1])
		h.put("/jobs/states/completed/07-jid0000000001", "", ref, "")
		h.remove("/jobs/states/pending/07-jid0000000001",
			"/batches/bid0000000000/states/batch-processing/jid0000000001")
		h.run(all[:n])
		if _, left := h.repair("2"); len(left) > 0 {
			t.Errorf("after %d steps %v is left", n, left)
		}
		if n < len(all) {
			h.cleanup(1)
		}
		if got := h.tree(); got != "" {
			t.Errorf("after %d steps:\n%s", n, got)
		}
	}
}

// What another library writes is read, and driven on.
func TestForeignOddities(t *testing.T) {
	h := newHarness(t)
	h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob)
	h.directories()
	const id = layout.JobID("jid0000000001")
	h.put("/jobs/jid0000000001/priority", "105", "/jobs/jid0000000001/space_needed", "-1",
		"/jobs/states/pending/105-jid0000000001", "")
	h.remove("/jobs/states/pending/07-jid0000000001")
	j := h.acquire(layout.Pending)
	if j.Priority != 99 || j.Space != 0 {
		t.Errorf("read %+v", j)
	}
	need[*queue.Job](h)(h.q.FailJob(t.Context(), j, "broken"))
	if !h.exists("/jobs/states/failed/99-jid0000000001") {
		t.Error("the entry has no readable priority")
	}
	h.put("/jobs/jid0000000001/status", `{"status":"Failed","last_successful_status":"Failed","message":""}`)
	requeued := need[*queue.Job](h)(h.q.RequeueJob(t.Context(), id))
	if requeued.Status.Status != layout.Estimating || requeued.Status.Retries != 1 {
		t.Errorf("requeued as %+v", requeued.Status)
	}
	h.repair()
}

// TestPoison puts a malformed entry first into each state: the others are still acquired, and the bad one is returned.
func TestPoison(t *testing.T) {
	h := newHarness(t)
	_, ids := h.batch(5, 6)
	for _, p := range []struct{ name, path, data string }{
		{"no entry", "", ""},
		{"no job", "00-jid0000000900", ""},
		{"no status", "00-jid0000000901", ""},
		{"bad status", "00-jid0000000902", "{"},
		{"unknown status", "00-jid0000000903", `{"status":"Lost"}`},
		{"another status", "00-jid0000000904", `{"status":"Completed"}`},
	} {
		for _, state := range []layout.Status{layout.Pending, layout.Estimating, layout.Storing} {
			name, job := p.path, ""
			if name == "" {
				name = "garbage"
			} else if job = "/jobs/" + name[3:]; p.name != "no job" {
				h.put(job, "", job+"/bid", "bid0000000000", job+"/configuration", "{}")
				if p.data != "" {
					h.put(job+"/status", p.data)
				}
			}
			entry := state.Queue() + "/" + name
			h.put(entry, "")
			h.drive(ids[0], state)
			j, bad, err := h.q.AcquireJob(t.Context(), state)
			if err != nil || j == nil || j.ID != ids[0] {
				t.Errorf("%s in %s: acquired %v, %v", p.name, state, j, err)
			}
			// of the same priority, entries are sorted by job; what is no entry is last
			if p.path != "" && (len(bad) != 1 || bad[0].Path != entry || !errors.Is(bad[0].Err, queue.ErrMalformed) &&
				!errors.Is(bad[0].Err, queue.ErrNotFound)) {
				t.Errorf("%s in %s: bad is %v", p.name, state, bad)
			}
			if j != nil {
				h.ok(h.q.ReleaseJob(t.Context(), j))
			}
			h.remove(entry)
			if job != "" && h.exists(job) {
				zktestRemove(h, job)
			}
		}
		h.reset(ids[0])
	}
	h.put("/batches/bid0000000000", "", "/batches/zzz", "", "/access/small/zzz", "")
	b := need[*queue.Batch](h)(h.q.CreateBatch(t.Context(), submission("bid-1000000")))
	h.put("/batches/bid0000000900", "", "/batches/bid0000000901", "", "/batches/bid0000000901/status", "[")
	one, bad, err := h.q.AcquireBatch(t.Context())
	if err != nil || one == nil || one.ID != b.ID || len(bad) == 0 {
		t.Errorf("acquired %v, %v, %v", one, bad, err)
	}
	findings, err := h.q.Report(t.Context())
	if err != nil || len(findings) == 0 {
		t.Errorf("the report has %v, %v", findings, err)
	}
}

// reset moves a job back to Pending.
func (h *harness) reset(id layout.JobID) {
	h.Helper()
	j := need[*queue.Job](h)(h.q.Job(h.Context(), id))
	h.remove(j.Entry())
	h.put(string(id.Status()), foreignStatus("Pending", "null"), layout.Pending.Entry(j.Priority, id), "")
}

func zktestRemove(h *harness, path string) {
	h.Helper()
	names, _, err := h.raw.Children(path)
	h.ok(err)
	for _, n := range names {
		zktestRemove(h, path+"/"+n)
	}
	h.remove(path)
}

// TestRaceX1 changes the state of the last job of a batch as the Java library does, by removing its reference and
// creating it again, while other processes search for batches whose jobs have ended. The control is a process that does
// not wait for Settle: it acquires the batch.
func TestRaceX1(t *testing.T) {
	h := newHarness(t)
	h.run(javaCreatesBatch, javaAcquiresBatch, javaCreatesJob)
	_, s := h.open()
	careful := queue.New(s, queue.Options{Settle: time.Second})
	stop := make(chan struct{})
	var searchers sync.WaitGroup
	search := func(q *queue.Queue, found *atomic.Int64) {
		searchers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch b, _, err := q.AcquireForReporting(t.Context()); {
				case err != nil:
					t.Error(err)
					return
				case b != nil:
					found.Add(1)
					if err := q.ReleaseBatch(t.Context(), b); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	var wrong, control atomic.Int64
	search(careful, &wrong)
	search(h.q, &control)
	const ref = "/batches/bid0000000000/states/batch-processing/jid0000000001"
	for begin := time.Now(); time.Since(begin) < 3*time.Second || control.Load() == 0; {
		if err := h.raw.Delete(ref, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := h.raw.Create(ref, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	if wrong.Load() > 0 {
		t.Errorf("a batch whose job had not ended was acquired %d times (control: %d)", wrong.Load(), control.Load())
	}
	h.remove(ref) // it ends
	for wrong.Load() == 0 && !t.Failed() {
		h.s.Sync(t.Context())
	}
	close(stop)
	searchers.Wait()
}

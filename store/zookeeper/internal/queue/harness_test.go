package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// harness is a queue on an empty server, with a connection that shares no code with it.
type harness struct {
	*testing.T
	q   *queue.Queue
	s   *session.Session
	raw *zk.Conn
	srv *zktest.Server
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	srv := zktest.Shared(t)
	h := &harness{T: t, srv: srv, raw: srv.Raw(t)}
	h.q, h.s = h.open()
	if err := h.q.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// open opens a further queue, with a session of its own.
func (h *harness) open() (*queue.Queue, *session.Session) {
	h.Helper()
	s, err := session.Open(h.Context(), []string{h.srv.Address}, session.Options{Timeout: 20 * zktest.Tick})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(s.Close)
	return queue.New(s, queue.Options{Settle: time.Nanosecond}), s
}

// need returns the value of an operation that must succeed.
func need[T any](h *harness) func(v T, err error) T {
	h.Helper()
	return func(v T, err error) T {
		h.Helper()
		if err != nil {
			h.Fatal(err)
		}
		return v
	}
}

// got returns what was acquired: there must be one, and no bad node.
func got[T any](h *harness) func(v *T, bad []queue.Bad, err error) *T {
	h.Helper()
	return func(v *T, bad []queue.Bad, err error) *T {
		h.Helper()
		if err != nil || len(bad) > 0 || v == nil {
			h.Fatalf("acquired %v, bad %v, error %v", v, bad, err)
		}
		return v
	}
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// submission returns the submission of a batch.
func submission(uuid string) layout.Object {
	o := layout.Object{}
	for key, v := range map[string]any{"batchID": uuid, "profile": "maps_content", "type": "manifest",
		"size": 10, "filename": "a.checkm", "update": false, "submitter": "u/User",
		"submissionDate": "Thu Nov 20 10:17:00 PST 2025", "notificationFormat": "xml"} {
		o.Set(key, v)
	}
	return o
}

func newJob(name string, priority int) queue.NewJob {
	o := layout.Object{}
	for key, v := range map[string]any{"profile": "maps_content", "jobID": name, "filename": name, "type": "file",
		"update": false, "submitter": "u/User", "batchID": "bid-1", "submissionDate": "2025-01-01T00:00:00-08:00"} {
		o.Set(key, v)
	}
	return queue.NewJob{Configuration: o, Priority: priority}
}

// batch creates a batch with jobs of the priorities and releases it.
func (h *harness) batch(priorities ...int) (*queue.Batch, []layout.JobID) {
	h.Helper()
	need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission(fmt.Sprintf("bid-%d", time.Now().UnixNano()))))
	b := got[queue.Batch](h)(h.q.AcquireBatch(h.Context()))
	jobs := make([]queue.NewJob, len(priorities))
	for i, p := range priorities {
		jobs[i] = newJob(fmt.Sprint("job-", i), p)
	}
	b, ids, err := h.q.CreateJobs(h.Context(), b, len(jobs), jobs...)
	h.ok(err)
	h.ok(h.q.ReleaseBatch(h.Context(), b))
	return b, ids
}

// drive moves a job by success until it is in a state.
func (h *harness) drive(id layout.JobID, to layout.Status) {
	h.Helper()
	for {
		j := need[*queue.Job](h)(h.q.Job(h.Context(), id))
		if j.Status.Status == to {
			return
		}
		j = h.acquire(j.Status.Status)
		if j.ID != id {
			h.Fatalf("acquired %s, want %s", j.ID, id)
		}
		need[*queue.Job](h)(h.q.SucceedJob(h.Context(), j, queue.Results{}))
	}
}

func (h *harness) acquire(state layout.Status) *queue.Job {
	h.Helper()
	return got[queue.Job](h)(h.q.AcquireJob(h.Context(), state))
}

// tree returns the normal form of the nodes of the server.
func (h *harness) tree() string {
	h.Helper()
	return strings.Join(zktest.Normal(h, h.raw), "\n")
}

// sound checks that the orphan report is empty, except for findings with the rules.
func (h *harness) sound(except ...string) {
	h.Helper()
	findings, err := h.q.Report(h.Context())
	h.ok(err)
	for _, f := range findings {
		if !slices.Contains(except, f.Rule) {
			h.Errorf("%s: %s %s: %s", f.Level, f.Rule, f.Path, f.Text)
		}
	}
}

// put writes nodes as another library would, one after the other.
func (h *harness) put(nodes ...string) {
	h.Helper()
	for i := 0; i < len(nodes); i += 2 {
		if _, err := h.raw.Create(nodes[i], []byte(nodes[i+1]), 0, zk.WorldACL(zk.PermAll)); err == zk.ErrNodeExists {
			_, err = h.raw.Set(nodes[i], []byte(nodes[i+1]), -1)
			h.ok(err)
		} else if err != nil {
			h.Fatal(nodes[i], err)
		}
	}
}

func (h *harness) remove(paths ...string) {
	h.Helper()
	for _, p := range paths {
		if err := h.raw.Delete(p, -1); err != nil {
			h.Fatal(p, err)
		}
	}
}

// data reads a node.
func (h *harness) data(path string) string {
	h.Helper()
	b, _, err := h.raw.Get(path)
	if err != nil {
		h.Fatal(path, err)
	}
	return string(b)
}

func (h *harness) exists(path string) bool {
	h.Helper()
	found, _, err := h.raw.Exists(path)
	h.ok(err)
	return found
}

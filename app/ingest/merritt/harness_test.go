package merritt

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// harness is ingest on a store in ZooKeeper, beside a program of Merritt.
type harness struct {
	*testing.T
	app     *ingest.App
	access  *access.App
	engine  *engine.Engine
	store   *zookeeper.Store
	f       *Follower
	program *zktest.Program
	dir     string // the data directory
	queue   string // Merritt's directory of payloads
	files   string // URL of the work directories; "": Merritt's programs cannot read them
	address string // of the ZooKeeper server
}

const guard = 2 * time.Minute

func plenty(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil }

// newHarness opens ingest. Its engine runs after run.
func newHarness(t *testing.T) *harness { return openHarness(t, false) }

// openHarness opens ingest. With gives, Merritt's storage can store what it has processed.
func openHarness(t *testing.T, gives bool) *harness {
	t.Helper()
	dir := t.TempDir()
	srv := zktest.Shared(t)
	h := &harness{T: t, program: &zktest.Program{Conn: srv.Raw(t)}, queue: t.TempDir(),
		dir: dir, address: srv.Address}
	set, err := profile.New(profile.Profile{ID: "maps_content", Collection: "maps", Owner: "library",
		Networks: []string{"127.0.0.0/8"}})
	h.ok(err)
	h.store, err = zookeeper.Open(t.Context(), []string{srv.Address},
		zookeeper.Options{SessionTimeout: 20 * zktest.Tick})
	h.ok(err)
	t.Cleanup(func() { h.store.Close() })
	o := Options{Every: 100 * time.Millisecond, Settle: time.Nanosecond, Queue: h.queue, Profiles: set}
	if gives {
		files := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, workdir.WorkName))))
		t.Cleanup(files.Close)
		o.Files, o.Storage, o.Node = files.URL, "http://storage.example:35121/", 9
		h.files = files.URL
	}
	h.f, err = New(t.Context(), h.store, o)
	h.ok(err)
	h.app, err = ingest.New(ingest.Options{Dir: dir, Profiles: set, Disk: plenty, Peers: h.f,
		Look: 10 * time.Millisecond, TrashKeep: job.Off,
		Fetch:   fetch.Policy{Retries: -1, Backoff: time.Millisecond, IdleTimeout: 5 * time.Second},
		Backoff: engine.Backoff{First: time.Millisecond, Max: 5 * time.Millisecond}})
	h.ok(err)
	h.access, err = access.New(access.Options{Dir: t.TempDir(), Holdings: h.app})
	h.ok(err)
	h.engine, err = engine.New(h.store, append(h.app.Works(), h.access.Works()...), engine.Options{
		Deliver: h.app.Deliver(), Sweep: 50 * time.Millisecond, Grace: 5 * time.Second})
	h.ok(err)
	h.app.Bind(h.engine)
	h.access.Bind(h.engine)
	return h
}

// run lets the engine and the follower work until the test ends.
func (h *harness) run() {
	h.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	enginetest.Run(h.T, h.engine, h.access.Close, h.app.Close)
	go func() { defer close(done); h.f.Run(ctx, h.app, h.engine) }()
	h.Cleanup(func() { stop(); <-done })
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// pass lets the follower read until nothing is left to follow. The engine need not run.
func (h *harness) pass() {
	h.Helper()
	h.f.app, h.f.engine = h.app, h.engine
	for range 20 {
		again, err := h.f.pass(h.Context())
		h.ok(err)
		if !again {
			return
		}
	}
	h.Fatal("the follower does not end")
}

func (h *harness) submit(text string) job.Job {
	h.Helper()
	j, err := h.app.Submit(h.Context(), ingest.Submission{Profile: "maps_content", Submitter: "ann",
		Filename: "a.txt"}, strings.NewReader(text))
	h.ok(err)
	return j
}

// await waits until a record is as it should be.
func (h *harness) await(id job.ID, done func(*job.Job) bool) job.Job {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), guard)
	defer cancel()
	j, err := h.engine.Await(ctx, id, done)
	if err != nil {
		h.Fatalf("%v: %s is %s (%s: %s); findings %v", err, id, j.State, j.Cause, j.Message, h.f.Findings())
	}
	return j
}

func (h *harness) ended(id job.ID) job.Job {
	h.Helper()
	return h.await(id, func(j *job.Job) bool { return j.Ended })
}

func (h *harness) get(id job.ID) job.Job {
	h.Helper()
	j, err := h.store.Get(h.Context(), id)
	h.ok(err)
	return j
}

// node returns the nodes of a record.
func (h *harness) node(id job.ID) string {
	h.Helper()
	all, err := h.store.Nodes(h.Context())
	h.ok(err)
	for node, s := range all {
		if s.Job.ID == id {
			return node
		}
	}
	h.Fatalf("%s has no nodes", id)
	return ""
}

// do causes an event as an operator, or by work without a claim.
func (h *harness) do(id job.ID, e lifecycle.Event, by lifecycle.Actor) {
	h.Helper()
	_, err := h.engine.Do(h.Context(), operator.Act{Job: id, Event: e, By: by, Actor: "op", Note: "test",
		Confirm: true})
	h.ok(err)
}

// sound checks that the report of orphans is empty.
func (h *harness) sound() {
	h.Helper()
	tree, err := merritt.OpenTree(h.Context(), []string{h.address}, "", "")
	h.ok(err)
	defer tree.Close()
	faults, err := tree.Check(h.Context())
	h.ok(err)
	for _, f := range faults {
		h.Errorf("%s %s: %s: %s", f.Level, f.Rule, f.Node, f.Text)
	}
}

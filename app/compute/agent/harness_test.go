package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/ziptest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/crash/power"
	"github.com/stagepost/stagepost/store/mem"
)

// childVariable makes this program an agent on the directory that it names.
const childVariable = "STAGEPOST_TEST_AGENT"

func TestMain(m *testing.M) {
	power.Main()
	sandbox.Init()
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// actor is a runner that plays the script of a test instead of running anything, and counts.
type actor struct {
	play func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error)

	mu   sync.Mutex // guards the rest
	runs int
	now  int
	most int // at once
}

// Run is part of [Runner].
func (f *actor) Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
	f.mu.Lock()
	f.runs++
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	return f.play(ctx, c)
}

func (f *actor) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs
}

// writes is a play that leaves a file and some output, and ends with a code.
func writes(exit int) func(context.Context, *sandbox.Command) (sandbox.Ending, error) {
	return func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		fmt.Fprintln(c.Stdout, "hello")
		fmt.Fprintln(c.Stderr, "oh")
		err := os.WriteFile(filepath.Join(c.Dir, "made.txt"), []byte("made"), 0o644)
		return sandbox.Ending{Exit: exit, Tier: "none", Sentence: "it ended"}, err
	}
}

// blocks is a play that runs until it is ended, or until release is closed. Each run is announced.
func blocks(begun chan<- *sandbox.Command, release <-chan struct{}) func(context.Context,
	*sandbox.Command) (sandbox.Ending, error) {
	return func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		fmt.Fprintln(c.Stdout, "begun")
		begun <- c
		select {
		case <-ctx.Done():
			return sandbox.Ending{Exit: -1, Signal: "SIGTERM", Cause: sandbox.Killed}, nil
		case <-release:
			return sandbox.Ending{}, nil
		}
	}
}

// harness is one agent on a store.
type harness struct {
	*testing.T
	app    *App
	engine *engine.Engine
	store  job.Store
	dir    string
	runner *actor
	stop   func()
}

func (w *harness) options() Options {
	return Options{Dir: w.dir, Name: "a1", Slots: 4, Runner: w.runner, Sandbox: "none", Reserve: 1}
}

// newHarness starts an agent in a new directory.
func newHarness(t *testing.T, play func(context.Context, *sandbox.Command) (sandbox.Ending, error),
	set func(*Options)) *harness {
	t.Helper()
	w := &harness{T: t, store: mem.New(), dir: t.TempDir(), runner: &actor{play: play}}
	w.start(set)
	return w
}

// start starts an agent on what there is.
func (w *harness) start(set func(*Options)) {
	w.Helper()
	o := w.options()
	if set != nil {
		set(&o)
	}
	app, err := New(o)
	if err != nil {
		w.Fatal(err)
	}
	e, err := engine.New(w.store, app.Works(), engine.Options{Name: "agent", Sweep: 20 * time.Millisecond,
		Grace: 50 * time.Millisecond})
	if err != nil {
		w.Fatal(err)
	}
	if app.Bind(e); app.Fault() != nil {
		w.Fatal(app.Fault())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	w.app, w.engine = app, e
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if err := app.Close(); err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(func() { w.stop() })
}

// enough is how long anything may take here that must come: long, since machines are slow and busy.
const enough = time.Minute

const secret = "0123456789abcdef0123456789abcdef"

// ticket makes a new ticket.
func ticket() compute.Ticket {
	return compute.Ticket{Job: job.ID("job_" + ulid.Make().String()), Attempt: 1, Secret: secret}
}

// parcel makes a parcel of files given by name and content, the script first.
func parcel(t compute.Ticket, script string, more ...string) *compute.Parcel {
	content := map[string]string{}
	p := &compute.Parcel{Ticket: t, Service: "test", Owner: "ann"}
	add := func(name, text string) {
		content[name] = text
		sum := sha256.Sum256([]byte(text))
		p.Files = append(p.Files, compute.File{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
	}
	if script != "" {
		add(scriptName, script)
	}
	for i := 0; i+1 < len(more); i += 2 {
		add(more[i], more[i+1])
	}
	p.Open = func(name string) (io.ReadSeekCloser, error) {
		return struct {
			io.ReadSeeker
			io.Closer
		}{strings.NewReader(content[name]), io.NopCloser(nil)}, nil
	}
	return p
}

func handle(t compute.Ticket) compute.Handle { return compute.Handle{Ticket: t} }

// submit passes a parcel to an executor, which must take it.
func (w *harness) submit(x compute.Executor, p *compute.Parcel) compute.Notice {
	w.Helper()
	n, err := x.Submit(w.Context(), p)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// end waits for the end of a payload.
func (w *harness) end(t compute.Ticket) compute.Notice {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), enough)
	defer cancel()
	for {
		n, err := w.app.await(ctx, handle(t), "", enough)
		if err != nil {
			w.Fatalf("%v: %v", t.Job, err)
		}
		if n.Standing != compute.Waits && n.Standing != compute.Works {
			return n
		}
	}
}

// remote serves the agent over HTTP and dials it.
func (w *harness) remote(o HandlerOptions) (*Remote, *httptest.Server) {
	w.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = Server(w.app.Handler(o), w.app.log)
	s.Start()
	w.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	r, err := Dial(DialOptions{Name: "a1", URL: s.URL, Token: o.Token})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(r.Close)
	return r, s
}

// unzip reads results that are a ZIP into names and contents.
func unzip(t *testing.T, r io.ReadCloser, err error) map[string]string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return ziptest.Files(t, text)
}

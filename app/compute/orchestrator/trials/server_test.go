//go:build linux

package trials

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// setting is how a server is made.
type setting struct {
	compute compute.Options
	engine  engine.Options
	wire    wire.Options
	store   job.Store
	agents  map[string]compute.Executor
}

// server is our server in this process. Users reach it over HTTP.
type server struct {
	user
	app    *compute.App
	engine *engine.Engine
	store  job.Store
	dir    string
}

// open starts a server with the service example, which all agents serve, under options that let nothing take long: but
// no trial fails by them alone because the machine is slow. No check comes within the patience but for news.
func open(t *testing.T, agents map[string]compute.Executor, set func(*setting)) *server {
	t.Helper()
	s := setting{
		compute: compute.Options{
			Dir: t.TempDir(), Services: []compute.Service{{Name: "example", RunsPerUser: 100, MaxRuns: 200}},
			Retries: -1, RetryFor: 5 * time.Second, Silence: 100 * time.Millisecond,
			Poll: 5 * time.Millisecond, Recheck: 10 * patience, Lost: 10 * patience,
		},
		engine: engine.Options{Sweep: 20 * time.Millisecond, Lease: patience, Grace: 100 * time.Millisecond},
		store:  mem.New(), agents: agents,
	}
	if set != nil {
		set(&s)
	}
	app, err := compute.New(s.compute)
	if err != nil {
		t.Fatal(err)
	}
	s.engine.Deliver = app.Deliver()
	e, err := engine.New(s.store, app.Works(), s.engine)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range s.agents {
		app.Join(name, x)
	}
	app.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	web := httptest.NewServer(wire.Users(orchestrator.Users(app, s.store), s.wire))
	t.Cleanup(sync.OnceFunc(func() {
		web.CloseClientConnections()
		web.Close()
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	}))
	return &server{user: user{T: t, url: web.URL}, app: app, engine: e, store: s.store, dir: s.compute.Dir}
}

// job gives the record of a job.
func (s *server) job(id int) job.Job {
	s.Helper()
	j, err := s.store.Numbered(s.Context(), compute.JobKind, int64(id))
	if err != nil {
		s.Fatalf("job %d: %v", id, err)
	}
	return j
}

// data gives what the server's steps know of a job.
func (s *server) data(id int) compute.Data {
	s.Helper()
	j := s.job(id)
	d, err := compute.DataOf(&j)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// await waits until a job is in one of the states, by the engine's own signal.
func (s *server) await(id int, states ...lifecycle.State) job.Job {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	j := s.job(id)
	got, err := s.engine.Await(ctx, j.ID, func(j *job.Job) bool { return slices.Contains(states, j.State) })
	if err != nil {
		now := s.job(id)
		s.Fatalf("job %d never came to %v: it is %s (%s: %s)", id, states, now.State, now.Cause, now.Message)
	}
	return got
}

// ends waits for the end of a job, which must be in that state and for that cause.
func (s *server) ends(id int, state lifecycle.State, cause string) job.Job {
	s.Helper()
	j := s.await(id, compute.Completed, compute.Failed, compute.Invalid, compute.Killed, compute.Cleaned)
	if j.State != state || j.Cause != cause {
		s.Errorf("job %d is %s (%s: %s), want %s (%s)", id, j.State, j.Cause, j.Message, state, cause)
	}
	return j
}

// holding is how many jobs hold a slot.
func (s *server) holding() int {
	s.Helper()
	page, err := s.store.List(s.Context(), job.Query{Kinds: []job.Kind{compute.JobKind}, States: compute.SlotStates(),
		Limit: 100})
	if err != nil {
		s.Fatal(err)
	}
	return len(page.Jobs)
}

// original makes an executor of an original client.
func original(t *testing.T, c *wiretest.FakeClient, set func(*legacy.Options)) compute.Executor {
	t.Helper()
	return originalAt(t, c.URL, set)
}

func originalAt(t *testing.T, url string, set func(*legacy.Options)) compute.Executor {
	t.Helper()
	e, err := wire.AgentAt(url)
	if err != nil {
		t.Fatal(err)
	}
	o := legacy.Options{Endpoints: e, Temp: t.TempDir()}
	if set != nil {
		set(&o)
	}
	x, err := legacy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// with is a list of one agent.
func with(x compute.Executor) map[string]compute.Executor {
	return map[string]compute.Executor{"a1": x}
}

// dial makes an executor of our agent at an address.
func dial(t *testing.T, url string) *agent.Remote {
	t.Helper()
	r, err := agent.Dial(agent.DialOptions{Name: "a1", URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// skewed is a clock that a test puts forward.
type skewed struct {
	clock.Clock
	by atomic.Int64
}

func newSkewed() *skewed { return &skewed{Clock: clock.System()} }

// Now is part of clock.Clock.
func (c *skewed) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// Wall is part of clock.Clock.
func (c *skewed) Wall() time.Time { return c.Clock.Wall().Add(time.Duration(c.by.Load())) }

// contains reports whether a text has a part, whatever its case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// log gives what a job has written to its standard output, or nothing if that cannot be had now.
func (s *server) log(id int) string {
	s.Helper()
	j := s.job(id)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	r, err := s.app.Log(ctx, &j, "stdout", 0, false)
	if err != nil {
		return ""
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return ""
	}
	return string(text)
}

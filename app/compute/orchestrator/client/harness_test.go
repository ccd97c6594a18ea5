package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// play is a runner that does what a test defines instead of running anything.
type play func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error)

// Run is part of [agent.Runner].
func (p play) Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) { return p(ctx, c) }

// writes is a play that leaves a file and some output, and ends with a code.
func writes(exit int) play {
	return func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		fmt.Fprintln(c.Stdout, "hello")
		err := os.WriteFile(filepath.Join(c.Dir, "made.txt"), []byte("made"), 0o644)
		return sandbox.Ending{Exit: exit, Tier: "none", Sentence: "it ended"}, err
	}
}

// blocks is a play that runs until it is ended. Each run is announced.
func blocks(begun chan<- *sandbox.Command) play {
	return func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		fmt.Fprintln(c.Stdout, "begun")
		begun <- c
		<-ctx.Done()
		return sandbox.Ending{Exit: -1, Signal: "SIGTERM", Cause: sandbox.Killed}, nil
	}
}

// harness is one agent on a store.
type harness struct {
	*testing.T
	app    *agent.App
	client *client
	store  job.Store
	dir    string
	runner play
	stop   func()
}

// newHarness starts an agent in a new directory.
func newHarness(t *testing.T, p play, set func(*agent.Options)) *harness {
	t.Helper()
	h := &harness{T: t, store: mem.New(), dir: t.TempDir(), runner: p}
	h.start(set)
	return h
}

// start starts an agent on what there is.
func (h *harness) start(set func(*agent.Options)) {
	h.Helper()
	o := agent.Options{Dir: h.dir, Name: "a1", Slots: 4, Runner: h.runner, Sandbox: "none", Reserve: 1}
	if set != nil {
		set(&o)
	}
	app, err := agent.New(o)
	if err != nil {
		h.Fatal(err)
	}
	e, err := engine.New(h.store, app.Works(), engine.Options{
		Name: "agent", Sweep: 20 * time.Millisecond, Grace: 50 * time.Millisecond,
	})
	if err != nil {
		h.Fatal(err)
	}
	if app.Bind(e); app.Fault() != nil {
		h.Fatal(app.Fault())
	}
	if h.client, err = newClient(h.Context(), app); err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	h.app = app
	h.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if err := app.Close(); err != nil {
			h.Error(err)
		}
	})
	h.Cleanup(func() { h.stop() })
}

// serve serves the agent over HTTP.
func (h *harness) serve(token string) *httptest.Server {
	h.Helper()
	other, err := Handler(h.Context(), h.app, token, wire.AgentOptions{})
	if err != nil {
		h.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Config = agent.Server(h.app.Handler(agent.HandlerOptions{Token: token, Other: other}),
		slog.New(slog.DiscardHandler))
	s.Start()
	h.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// until waits until a payload has ended, as the server at an address reports.
func (h *harness) until(url string, n uint32) {
	h.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); ; {
		a, text := ask(h.T, "GET", fmt.Sprintf("%s/retrieve/%d", url, n), "", nil)
		if a.Header.Get("Content-Type") == "application/zip" || wire.Status(payloadOf(h.T, text).Status).Ended() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			h.Fatalf("payload %d does not end: %s", n, text)
		}
	}
}

// fills is a disk that is full after so many checks.
type fills struct{ looks, room atomic.Int64 }

func (f *fills) free(string) (int64, error) {
	if f.looks.Add(1) > f.room.Load() {
		return 0, nil
	}
	return 1 << 40, nil
}

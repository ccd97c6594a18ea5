//go:build linux

package trials

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/client"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// counted counts what it runs.
type counted struct {
	agent.Runner
	mu   sync.Mutex // guards runs
	runs int
}

// Run is part of agent.Runner.
func (c *counted) Run(ctx context.Context, cmd *sandbox.Command) (sandbox.Ending, error) {
	c.mu.Lock()
	c.runs++
	c.mu.Unlock()
	return c.Runner.Run(ctx, cmd)
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs
}

// ours is our agent in this process, reached over HTTP.
type ours struct {
	*testing.T
	app   *agent.App
	store job.Store
	url   string
	dir   string
	runs  *counted
	stop  func()
}

// employ starts an agent without namespaces, or as set defines.
func employ(t *testing.T, set func(*agent.Options)) *ours {
	t.Helper()
	return employOn(t, mem.New(), agent.HandlerOptions{}, set)
}

func employOn(t *testing.T, store job.Store, h agent.HandlerOptions, set func(*agent.Options)) *ours {
	t.Helper()
	return employWith(t, store, h, set, nil)
}

// employWith sets its engine's options besides.
func employWith(t *testing.T, store job.Store, h agent.HandlerOptions, set func(*agent.Options),
	tune func(*engine.Options)) *ours {
	t.Helper()
	runs := &counted{Runner: box(t, sandbox.None)}
	o := agent.Options{Dir: t.TempDir(), Name: "a1", Slots: 16, Cores: -1, Memory: -1, Runner: runs,
		Sandbox: sandbox.None, Reserve: 1, Grace: 200 * time.Millisecond}
	if set != nil {
		set(&o)
	}
	app, err := agent.New(o)
	if err != nil {
		t.Fatal(err)
	}
	eo := engine.Options{Name: "agent", Sweep: 20 * time.Millisecond, Grace: 50 * time.Millisecond, Lease: patience,
		Retain: engine.Retention{Every: 50 * time.Millisecond}}
	if tune != nil {
		tune(&eo)
	}
	e, err := engine.New(store, app.Works(), eo)
	if err != nil {
		t.Fatal(err)
	}
	if app.Bind(e); app.Fault() != nil {
		t.Fatal(app.Fault())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	web := httptest.NewUnstartedServer(nil)
	if h.Other, err = client.Handler(t.Context(), app, h.Token, wire.AgentOptions{}); err != nil {
		t.Fatal(err)
	}
	web.Config = agent.Server(app.Handler(h), quiet())
	web.Start()
	a := &ours{T: t, app: app, store: store, url: web.URL, dir: o.Dir, runs: runs}
	a.stop = sync.OnceFunc(func() {
		web.CloseClientConnections()
		cancel()
		<-done
		if err := app.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	t.Cleanup(func() { a.stop() })
	return a
}

// payloads lists what the agent remembers.
func (a *ours) payloads() []job.Job {
	a.Helper()
	page, err := a.store.List(a.Context(), job.Query{Kinds: []job.Kind{compute.PayloadKind}, Limit: 100})
	if err != nil {
		a.Fatal(err)
	}
	return page.Jobs
}

// gone waits until the agent has no payload's files any more: the server gave its receipts.
func (a *ours) gone() {
	a.Helper()
	eventually(a.T, "the agent clears its payloads away", func() bool {
		return len(inside(a.T, filepath.Join(a.dir, "payloads"))) == 0
	})
}

// inside lists a directory.
func inside(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// eventually waits for what gives no signal: another process, or the disk.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	within(t, patience, what, cond)
}

func within(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", limit, what)
		}
	}
}

// latch is what scripts wait for, in a directory that they can reach.
type latch struct {
	t   *testing.T
	dir string
}

// newLatch makes one that is shut.
func newLatch(t *testing.T) *latch {
	t.Helper()
	dir, err := os.MkdirTemp(common, "latch-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &latch{t, dir}
}

// lift lets the scripts go on.
func (l *latch) lift() {
	if err := os.WriteFile(filepath.Join(l.dir, "lifted"), nil, 0o644); err != nil {
		l.t.Error(err)
	}
}

// wait is the line of a script that waits. It notes that a run has come there.
func (l *latch) wait() string {
	return fmt.Sprintf("mktemp %[1]s/run-XXXXXXXX >/dev/null\nuntil [ -e %[1]s/lifted ]; do sleep 0.02; done\n", l.dir)
}

// runs is how many runs have come to the latch.
func (l *latch) runs() int {
	n := 0
	for _, name := range inside(l.t, l.dir) {
		if strings.HasPrefix(name, "run-") {
			n++
		}
	}
	return n
}

// arrived waits until so many have.
func (l *latch) arrived(n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%d runs", n), func() bool { return l.runs() >= n })
}

// script is one that the original takes: it has the trap.
func script(body string) string {
	return "#!/bin/bash\ntrap 'echo $? > .orchestrator.exit' EXIT\n" + body + "\n"
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/store/sqlite"
)

// TestMain lets the sandbox start this program as the first process of a job.
func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}

// noopScript is the job that is measured: nothing.
var noopScript = map[string]string{"run.sh": "#!/bin/bash\nexit 0\n"}

// computing is a server with compute and an agent in itself, as `stagepost serve --compute-local` assembles it, on a
// store and files on disk.
type computing struct {
	b      *testing.B
	app    *compute.App
	engine *engine.Engine
	url    string // where users of job-orchestrator find it
	client *http.Client
	runner *timed
}

// timed is a sandbox that remembers how long its commands took, with what starts and ends them.
type timed struct {
	*sandbox.Sandbox
	mu   sync.Mutex // guards took
	took []float64  // ms
}

// Run is part of [agent.Runner].
func (t *timed) Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) {
	start := time.Now()
	e, err := t.Sandbox.Run(ctx, c)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, ms(time.Since(start)))
	return e, err
}

// newComputing starts one whose agent has so many slots; the quotas are as large.
func newComputing(b *testing.B, tier string, slots int) *computing {
	b.Helper()
	c := &computing{b: b, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	dir := b.TempDir()
	fatal := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	store, err := sqlite.Open(filepath.Join(dir, "store"), sqlite.Options{})
	fatal(err)
	box, err := sandbox.Open(b.Context(), sandbox.Options{Tier: tier, Name: "stagepost-bench"})
	fatal(err)
	c.runner = &timed{Sandbox: box}
	local, err := agent.New(agent.Options{Dir: filepath.Join(dir, "agent"), Name: "local", Slots: slots,
		Cores: -1, Memory: -1, Runner: c.runner, Sandbox: box.Tier()})
	fatal(err)
	c.app, err = compute.New(compute.Options{Dir: dir,
		Services: []compute.Service{{Name: "example", RunsPerUser: slots, MaxRuns: slots}}})
	fatal(err)
	c.engine, err = engine.New(store, append(c.app.Works(), local.Works()...),
		engine.Options{Slots: 16, Deliver: c.app.Deliver()})
	fatal(err)
	local.Bind(c.engine)
	c.app.Bind(c.engine)
	c.app.Join("local", local.Local())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(err)
	c.url = "http://" + listener.Addr().String()
	h := &http.Server{Handler: wire.Users(orchestrator.Users(c.app, store), wire.Options{})}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(listener) })
	serving.Go(func() {
		if err := c.engine.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		c.client.CloseIdleConnections()
		_ = h.Close()
		stop()
		serving.Wait()
		_, _, _, _ = c.app.Close(), local.Close(), box.Close(), store.Close()
	})
	return c
}

// upload sends files as one form and gives the job's id.
func (c *computing) upload(user int, files map[string]string) int {
	c.b.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range files {
		w, err := form.CreateFormFile("file", name)
		if err != nil {
			c.b.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
	}
	_, _ = form.WriteField("user_id", fmt.Sprint(user)), form.WriteField("service", "example")
	if err := form.Close(); err != nil {
		c.b.Fatal(err)
	}
	resp, err := c.client.Post(c.url+"/upload", form.FormDataContentType(), &body)
	if err != nil {
		c.b.Error(err)
		return 0
	}
	defer resp.Body.Close()
	var answer wire.StatusBody
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusCreated {
		c.b.Errorf("upload: %d %+v, %v", resp.StatusCode, answer, err)
	}
	return int(answer.ID)
}

// The pause between two questions of a client that waits for its results: short where it waits alone, longer where many
// do, so that the questions are not what is measured.
const (
	alone = 2 * time.Millisecond
	crowd = 25 * time.Millisecond
)

// await asks /download until the results are there, and reads them.
func (c *computing) await(id int, pause time.Duration) {
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(pause) {
		resp, err := c.client.Get(fmt.Sprintf("%s/download/%d", c.url, id))
		if err != nil {
			c.b.Error(err)
			return
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.Header.Get("Content-Type") == "application/zip" && err == nil {
			return
		}
		var answer wire.StatusBody
		err = json.Unmarshal(text, &answer)
		if err != nil || answer.Status == wire.Failed || answer.Status == wire.Invalid || time.Now().After(deadline) {
			c.b.Errorf("job %d: %d %q, %v", id, resp.StatusCode, text, err)
			return
		}
	}
}

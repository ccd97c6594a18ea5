package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

var clusterFaults = flag.Bool("cluster.faults", false,
	"run TestClusterDatabase, which waits for time limits of the store")

// batch submits one batch and waits for its end.
func (c *cluster) batch(ctx context.Context, api *client.Client, key string) {
	c.t.Helper()
	d := &depositors{acked: map[string]job.ID{}}
	j, err := api.Submit(ctx, client.Submission{Type: "file", Filename: key + ".txt", Key: key, Submitter: "ann",
		LocalIDs: []string{key}, Title: key}, strings.NewReader("the text of "+key))
	if err != nil {
		c.t.Fatalf("%s: %v", key, err)
	}
	d.acked[key] = j.ID
	if n := finish(c.t, api, d); n > 0 {
		c.t.Errorf("%s counts as poison", key)
	}
}

// healthy waits until a server reports that it works.
func healthy(ctx context.Context, t *testing.T, api *client.Client) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		h, err := api.Health(ctx)
		if err == nil && h.Status == "ok" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%+v, %v", h, err)
		}
	}
}

// TestClusterDatabase has faults of the database while a server with all modules runs: its connections are terminated,
// it crashes and starts again, and it accepts no further connections. The server continues by itself, and a batch that
// is submitted afterwards is completed.
func TestClusterDatabase(t *testing.T) {
	if !*clusterFaults {
		t.Skip("a part of make soak: -cluster.faults")
	}
	c := newCluster(t, 1, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	api, err := client.New(c.servers[0].url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	c.batch(ctx, api, "control")
	const terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'cluster'"
	if err := c.of.Exec("postgres", terminate); err != nil {
		t.Fatal(err)
	}
	c.batch(ctx, api, "terminated")
	if err := c.of.End(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if h, err := api.Health(ctx); err == nil && h.Status == "ok" {
		t.Error("without a database, the server reports that it works")
	}
	if err := c.of.Start(); err != nil {
		t.Fatal(err)
	}
	healthy(ctx, t, api)
	c.batch(ctx, api, "restarted")
	for _, statement := range []string{"ALTER ROLE " + clusterRole + " CONNECTION LIMIT 1", terminate} {
		if err := c.of.Exec("postgres", statement); err != nil {
			t.Fatal(err)
		}
	}
	for h, err := api.Health(ctx); err == nil && h.Status == "ok"; h, err = api.Health(ctx) {
		if ctx.Err() != nil {
			t.Fatal("with one connection, the server always reports that it works")
		}
	}
	if err := c.of.Exec("postgres", "ALTER ROLE "+clusterRole+" CONNECTION LIMIT -1"); err != nil {
		t.Fatal(err)
	}
	healthy(ctx, t, api)
	c.batch(ctx, api, "exhausted")
}

// TestClusterRolls restarts one server after the other while a client sends requests to the address of a proxy, which
// sends them to a server that runs. No request fails, and a batch that was handed in before is completed after.
func TestClusterRolls(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	front := newRelay(t)
	front.to.Store(strings.TrimPrefix(c.servers[0].url, "http://"))
	api, err := client.New("http://"+front.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	var failed atomic.Int64
	var done atomic.Int64
	answered := make(chan struct{}, 1)
	asking, stop := context.WithCancel(ctx)
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := 0; asking.Err() == nil; n++ {
			key := fmt.Sprint("roll-", n)
			_, err := api.Submit(asking, client.Submission{Type: "file", Filename: key, Key: key, Submitter: "ann",
				LocalIDs: []string{key}}, strings.NewReader(key))
			switch {
			case asking.Err() != nil:
				continue
			case err != nil:
				failed.Add(1)
				t.Errorf("%s: %v", key, err)
			}
			done.Add(1)
			select {
			case answered <- struct{}{}:
			default: // the last answer was not counted yet
			}
		}
	})
	for i, m := range c.servers {
		front.to.Store(strings.TrimPrefix(c.servers[1-i].url, "http://"))
		m.signal(t, os.Interrupt)
		if err := m.Wait(); err != nil {
			t.Errorf("the server did not stop well: %v", err)
		}
		c.begin(m)
		for range 3 {
			select {
			case <-answered:
			case <-ctx.Done():
				t.Fatal("no request was answered")
			}
		}
	}
	stop()
	busy.Wait()
	c.batch(ctx, api, "after")
	for _, m := range c.servers {
		m.signal(t, os.Interrupt)
		if err := m.Wait(); err != nil {
			t.Errorf("the server did not stop well: %v", err)
		}
	}
	for _, command := range []string{"verify", "fsck"} { // without a server
		check := exec.Command(c.servers[0].Path, "admin", command, "--data", c.servers[1].data)
		check.Env = append(os.Environ(), "STAGEPOST_STORE="+databaseURL(c.database), "STAGEPOST_SHARED="+c.shared)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	t.Logf("%d requests during two restarts, %d failed", done.Load(), failed.Load())
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// until waits until a server reports something.
func until(ctx context.Context, t *testing.T, what string, is func() (bool, error)) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := is()
		if yes && err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s (%v)", what, err)
		}
	}
}

// TestClusterPartition partitions a worker from its server while it waits for jobs: a job is granted to it, and the
// answer does not arrive. After the lease a worker at another server does the job. When the partition ends, the first
// worker gets the old answer and may do the work again, but its report is refused: the job was done once. Then it takes
// jobs as before. Control: without a partition the first worker does the job under its first claim.
func TestClusterPartition(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	api, err := client.New(c.servers[0].url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	for n, directions := range [][]direction{nil, {toServer, fromServer}, {fromServer}} {
		c.partitioned(ctx, api, n, directions)
	}
	for _, command := range []string{"verify", "fsck"} {
		out, err := exec.CommandContext(ctx, c.servers[1].Path, "admin", command, "--server",
			c.servers[1].url).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

// partitioned is one turn of TestClusterPartition, with the workers 2n and 2n+1.
func (c *cluster) partitioned(ctx context.Context, of *client.Client, n int, directions []direction) {
	t := c.t
	t.Helper()
	link, name := newRelay(t), fmt.Sprint("w", 2*n)
	link.to.Store(c.servers[0].front.Addr().String())
	first := startWork(t, 2*n, "http://"+link.Addr().String())
	defer killWorker(first)
	until(ctx, t, name+" waits for jobs", func() (bool, error) {
		all, err := of.Workers(ctx)
		return slices.ContainsFunc(all, func(w api.WorkerInfo) bool { return w.Name == name && w.Where == "api" }), err
	})
	heal := link.partition(directions...)
	id := orderTally(ctx, t, of, 2*n)
	until(ctx, t, "the job is granted to "+name, func() (bool, error) {
		j, err := of.Job(ctx, id)
		return j.Worker == name || j.Ended, err
	})
	second := startWork(t, 2*n+1, c.servers[1].url)
	endedTally(ctx, t, of, id)
	heal()
	killWorker(second)
	before, history := recordOf(ctx, t, of, id)
	lost := 0
	for i := range history {
		if history[i].Event == lifecycle.Lost {
			lost++
		}
	}
	last := history[len(history)-1]
	if want := map[bool]string{true: fmt.Sprint("w", 2*n+1), false: name}[len(directions) > 0]; last.Actor != want ||
		lost > 0 != (len(directions) > 0) {
		t.Errorf("partitioned %v: done by %s, want %s; %d claims were lost", directions, last.Actor, want, lost)
	}
	endedTally(ctx, t, of, orderTally(ctx, t, of, 2*n+1)) // the worker continues
	if err := first.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // its reports are answered
	if after, _ := recordOf(ctx, t, of, id); after.Version != before.Version {
		t.Errorf("after the partition the job has version %d, before %d", after.Version, before.Version)
	}
	endedTally(ctx, t, of, id)
}

// recordOf reads a job with its history.
func recordOf(ctx context.Context, t *testing.T, of *client.Client, id job.ID) (client.Job, []job.Event) {
	t.Helper()
	j, err := of.Job(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	history, err := of.History(ctx, id, 0, 0)
	if err != nil || len(history) == 0 {
		t.Fatalf("%d entries, %v", len(history), err)
	}
	return j, history
}

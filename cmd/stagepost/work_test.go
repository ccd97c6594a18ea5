package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var workedJobs = flag.Int("worked-jobs", 12, "how many jobs stagepost work finishes in TestWorkKilled")

// tally is a lifecycle whose command runs on other machines.
const tally = `name: lab.tally
states:
  - state: Counting
    kind: work
    doc: A command counts.
    arrows:
      - {event: counted, to: Done, by: worker, class: pass, doc: It is counted.}
      - {event: fail, to: Failed, by: [worker, timer], class: fail, doc: It cannot be counted.}
  - {state: Done, kind: end, outcome: ok, doc: It is counted.}
  - {state: Failed, kind: end, outcome: failed, doc: A person decides.}
work:
  Counting:
    command: [sh, -c, 'echo "counting $STAGEPOST_JOB"; echo "{\"data\": {\"key\": \"$STAGEPOST_KEY\"}}" > report.json']
    timeout: 1m
`

// TestWorkKilled lets processes of stagepost work finish jobs of a lifecycle file while they are killed (SIGKILL),
// stopped for longer than their lease (SIGSTOP) and continued, and while the server is killed. Every job ends once,
// with the data of its command.
func TestWorkKilled(t *testing.T) {
	t.Parallel()
	front, dir := newRelay(t), t.TempDir()
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "tally.yaml"), []byte(tally), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := func() *victim {
		v := prepare(t, dir, "--log-level", "error", "--lifecycle-dir", files, "--lifecycle-remote")
		v.begin(t)
		front.to.Store(strings.TrimPrefix(v.url, "http://"))
		return v
	}
	server, address := begin(), "http://"+front.Addr().String()
	defer func() { server.kill(t) }()
	c, err := client.New(address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+*workedJobs/10)*time.Minute)
	defer cancel()
	workers := make([]*exec.Cmd, 3)
	for i := range workers {
		workers[i] = startWork(t, i, address)
	}
	defer func() {
		for _, w := range workers {
			killWorker(w)
		}
	}()
	for i := range *workedJobs {
		id := orderTally(ctx, t, c, i)
		victim := rand.IntN(len(workers))
		switch i % 6 {
		case 1:
			killWorker(workers[victim])
			workers[victim] = startWork(t, victim, address)
		case 3: // longer than the lease, and than others need to finish the job
			_ = syscall.Kill(-workers[victim].Process.Pid, syscall.SIGSTOP)
			endedTally(ctx, t, c, id)
			_ = syscall.Kill(-workers[victim].Process.Pid, syscall.SIGCONT)
		case 5:
			server.kill(t)
			server = begin()
		}
	}
	page, err := c.Jobs(ctx, job.Query{Kinds: []job.Kind{"lab.tally"}, Limit: 1000})
	if err != nil || len(page.Jobs) != *workedJobs {
		t.Fatalf("%d of %d jobs, %v", len(page.Jobs), *workedJobs, err)
	}
	for i := range page.Jobs {
		endedTally(ctx, t, c, page.Jobs[i].ID)
	}
}

// orderTally orders job i of the lifecycle tally.
func orderTally(ctx context.Context, t *testing.T, c *client.Client, i int) job.ID {
	t.Helper()
	j, err := c.Create(ctx, api.Order{Kind: "lab.tally", Key: fmt.Sprint("tally-", i)})
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

// endedTally waits for the end of a job and checks what is left of it.
func endedTally(ctx context.Context, t *testing.T, c *client.Client, id job.ID) {
	t.Helper()
	if err := c.Watch(client.Persistent(ctx), id, 0, func(client.Update) error { return nil }); err != nil {
		t.Fatal(err)
	}
	j, err := c.Job(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var data struct{ Key string }
	if err := json.Unmarshal(j.Data, &data); err != nil || j.Outcome != lifecycle.OK ||
		data.Key != string(id)+"/Counting" {
		t.Errorf("%s: %s, cause %s (%s), data %s, %v", id, j.State, j.Cause, j.Message, j.Data, err)
	}
	history, err := c.History(ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range history {
		if history[i].Event == "counted" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%s was counted %d times", id, n)
	}
}

// startWork starts worker i.
func startWork(t *testing.T, i int, address string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "work", "--server", address, "--kinds", "lab.tally", "--name", fmt.Sprint("w", i),
		"--concurrency", "2", "--lease", "5s", "--sandbox", "auto", "--temp", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

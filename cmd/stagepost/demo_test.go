package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/examples/demo"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// runDemo runs the demo command in this process.
func runDemo(t *testing.T, dir string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := newCall(nil, &out, os.Stderr)
	root := c.Root()
	root.SetArgs([]string{"demo", "--data", dir})
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	out, err := runDemo(t, dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		":Number of completed job(s): 10", ":Number of failed job(s): 2", "not-found", "bad-digest", "$ stagepost why ing_",
		"The depositor puts ledger/page-2.txt right.", ":Number of completed job(s): 12", "Status: COMPLETED", "To continue: stagepost serve --data " + dir,
		"ben\texits\tFailed\texit-code\t3\t", "ben\tgreedy\tFailed\tmemory\t", "the command used more than its 64 MiB of memory", "cleo\tendless\tKilled\tkilled\t", "ann\tsum-4\tCompleted\t\t0\t",
		"cleo\treport\tCompleted\t",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "stagepost.yaml")); os.IsNotExist(err) != strings.Contains(out, noWalls) {
		t.Errorf("whether a later server runs jobs: %v", err)
	}
	r, err := ocfl.Validate(t.Context(), filepath.Join(dir, "storage"))
	if err != nil || !r.Valid() || r.Objects != 12 {
		t.Errorf("got %+v, %v", r, err)
	}
	mails, err := filepath.Glob(filepath.Join(dir, "mail", "*.eml"))
	if err != nil || len(mails) == 0 {
		t.Errorf("got %d mails, %v", len(mails), err)
	}
	if _, err := runDemo(t, dir); err == nil {
		t.Error("a used directory is no place for a demo")
	}
}

func TestRestoreDemo(t *testing.T) {
	dir := t.TempDir()
	if site, err := demo.RestoreDemo(dir); site != nil || err != nil {
		t.Errorf("no demo: got %v, %v", site, err)
	}
	for _, text := range []string{"{", `{"listen": "0.0.0.0:80"}`, `{"listen": "example.org:80"}`} {
		if err := os.WriteFile(filepath.Join(dir, demo.DemoFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := demo.RestoreDemo(dir); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// TestDemoKilled kills a demo at several lines of its output; the server that goes on must end the batch with the same report.
func TestDemoKilled(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for nth, mark := range []string{"A server works", "bat_", "Processing 2/12", "Processing 7/12", "Reporting", "$ stagepost retry", "greedy/run.sh", "$ stagepost cancel"} {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			cmd := exec.Command(path, "demo", "--data", dir, "--output", "plain")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), mark) {
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // says that it was killed
			site, err := demo.RestoreDemo(dir)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for range 1200 { // a connection of another test may have the port for a while
				if !errors.Is(err, syscall.EADDRINUSE) {
					break
				}
				<-tick.C
				site, err = demo.RestoreDemo(dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			if site != nil {
				defer site.Close()
			}
			v := raise(t, dir)
			defer v.kill(t)
			c, err := client.New(v.url, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			endOfDemo(t, c)
		})
	}
}

// endOfDemo waits for the batch of a killed demo, if it had handed one in, and checks its report.
func endOfDemo(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	page, err := c.Jobs(ctx, job.Query{Kinds: []job.Kind{ingest.BatchKind}})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Jobs) == 0 {
		t.Log("killed before the batch was handed in")
		return
	}
	batch := page.Jobs[0].ID
	if err := c.Watch(ctx, batch, 0, func(client.Update) error { return nil }); err != nil {
		t.Fatal(err)
	}
	children, err := c.Jobs(ctx, job.Query{Parent: batch, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range children.Jobs { // some may have been retried already
		if err := c.Watch(ctx, j.ID, 0, func(client.Update) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	text, err := c.BatchReport(ctx, batch, false)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Batch
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	endOfCompute(t, ctx, c)
	if r.Expected != 12 || r.Completed < 10 || r.Completed+r.Failed != 12 || r.Pending != 0 {
		t.Errorf("got %s", r.Text())
	}
}

// endOfCompute waits for the jobs of the users of a killed demo. Those that ran are told to have died with it, and none runs twice.
func endOfCompute(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	page, err := c.ComputeJobs(ctx, client.ComputeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Jobs {
		id := page.Jobs[i].ID
		if err := c.Watch(ctx, id, 0, func(client.Update) error { return nil }); err != nil {
			t.Fatal(err)
		}
		j, err := c.ComputeJob(ctx, id)
		if err != nil || !j.Ended || j.Service != demo.DemoService {
			t.Errorf("%s is %s (%s), %v", j.Name, j.State, j.Message, err)
		}
	}
}

// TestDemoWithoutWalls: where nothing can confine jobs the demo says so, runs them all the same, and lets no later server do that. [TestDemo] is the control.
func TestDemoWithoutWalls(t *testing.T) {
	t.Setenv("STAGEPOST_COMPUTE_SANDBOX", sandbox.None)
	dir := filepath.Join(t.TempDir(), "data")
	out, err := runDemo(t, dir)
	if err != nil || !strings.Contains(out, noWalls) {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "stagepost.yaml")); !os.IsNotExist(err) {
		t.Errorf("a later server runs jobs: %v", err)
	}
}

// noWalls begins what the demo says where nothing confines jobs.
const noWalls = "Nothing confines users' jobs on this machine"

// TestDemoNotices: an end that the story does not have, and a quota that does not hold, are errors.
func TestDemoNotices(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	jobs := []demo.DemoJob{{User: "ann", Name: "a", State: "Completed"}, {User: "ann", Name: "b", State: "Completed"}, {User: "ann", Name: "c", State: "Completed"}}
	for _, c := range []struct {
		third client.ComputeJob
		want  string
	}{
		{client.ComputeJob{State: "Completed", Started: at(2), Finished: at(3)}, ""},
		{client.ComputeJob{State: "Completed", Started: at(1), Finished: at(3)}, "3 jobs of ann ran at once"},
		{client.ComputeJob{State: "Failed", Cause: "lost", Started: at(2), Finished: at(3)}, "c of ann ended as Failed (lost)"},
		{client.ComputeJob{State: "Completed"}, ""},
	} {
		ended := []client.ComputeJob{{State: "Completed", Started: at(0), Finished: at(2)}, {State: "Completed", Started: at(1), Finished: at(2)}, c.third}
		err := demo.AsExpected(jobs, ended)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

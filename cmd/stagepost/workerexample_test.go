package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var workerJobs = flag.Int("workerjobs", 40, "how many jobs the example workers finish in TestExampleWorkers")

// TestExampleWorkers lets the workers in Python and shell finish jobs while workers and server are killed at random.
// Every job ends once, with the right data, tasks and log.
func TestExampleWorkers(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"python3", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	front, dir := newRelay(t), t.TempDir()
	begin := func() *victim {
		v := prepare(t, dir, "--log-level", "error", "--lifecycle-dir", "../../examples/worker")
		v.begin(t)
		front.to.Store(strings.TrimPrefix(v.url, "http://"))
		return v
	}
	server, address := begin(), front.Addr().String()
	defer func() { server.kill(t) }()
	c, err := client.New("http://"+address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(3+*workerJobs/50)*time.Minute)
	defer cancel()
	ids := orderTexts(ctx, t, c, *workerJobs)
	workers := make([]*exec.Cmd, 3)
	for i := range workers {
		workers[i] = startWorker(t, i, address)
	}
	defer func() {
		for _, w := range workers {
			killWorker(w)
		}
	}()
	step := max(*workerJobs/20, 5)
	for goal := step; goal <= *workerJobs; goal += step {
		waitEnded(ctx, t, c, goal)
		if i := rand.IntN(len(workers) + 1); i < len(workers) {
			killWorker(workers[i])
			workers[i] = startWorker(t, i, address)
			continue
		}
		server.kill(t)
		server = begin()
	}
	waitEnded(ctx, t, c, *workerJobs)
	for i, id := range ids {
		checkText(ctx, t, c, id, i)
	}
}

// words is the number of words in text i.
func words(i int) int { return 1 + i%7 }

func orderTexts(ctx context.Context, t *testing.T, c *client.Client, n int) []job.ID {
	t.Helper()
	var ids []job.ID
	for i := range n {
		ids = append(ids, orderText(ctx, t, c, i))
	}
	return ids
}

// orderText orders the job of text i.
func orderText(ctx context.Context, t *testing.T, c *client.Client, i int) job.ID {
	t.Helper()
	spec := fmt.Sprintf(`{"text":%q}`, strings.TrimSpace(strings.Repeat("word ", words(i))))
	j, err := c.Create(ctx, api.Order{Kind: "demo.count", Key: fmt.Sprint("text-", i), Spec: json.RawMessage(spec)})
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

// startWorker starts worker i: those with even numbers are in Python, the others in shell.
func startWorker(t *testing.T, i int, address string) *exec.Cmd {
	t.Helper()
	url := "http://" + address
	cmd := exec.Command("python3", "../../examples/worker/worker.py", "--server", url, "--kind", "demo.count",
		"--state", "Counting", "--state", "Checking",
		"--lease", "3", "-n", "2")
	if i%2 == 1 {
		cmd = exec.Command("sh", "../../examples/worker/worker.sh", url, "demo.count", "Counting", "Checking")
		cmd.Env = append(os.Environ(), "LEASE=3")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// killWorker kills a worker with all that it began.
func killWorker(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
}

// waitEnded waits until so many jobs have ended. The client repeats requests while the server restarts.
func waitEnded(ctx context.Context, t *testing.T, c *client.Client, n int) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ended := int64(0)
		counts, err := c.Counts(ctx)
		for _, tally := range counts {
			if tally.Kind == "demo.count" && (tally.State == "Done" || tally.State == "Failed") {
				ended += tally.Jobs
			}
		}
		if ended >= int64(n) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d of %d jobs have ended: %v, %v", ended, n, ctx.Err(), err)
		}
	}
}

// checkText checks what is left of the job of a text.
func checkText(ctx context.Context, t *testing.T, c *client.Client, id job.ID, i int) {
	t.Helper()
	j, err := c.Job(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Words   int
		Checked bool
	}
	if err := json.Unmarshal(j.Data, &data); err != nil || j.Outcome != lifecycle.OK || data.Words != words(i) ||
		!data.Checked {
		t.Errorf("%s: %s, cause %s (%s), data %s, want %d words; %v", id, j.State, j.Cause, j.Message, j.Data, words(i),
			err)
	}
	history, err := c.History(ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	times := map[lifecycle.Event]int{}
	for _, h := range history {
		times[h.Event]++
	}
	if times["counted"] != 1 || times["accept"] != 1 {
		t.Errorf("%s: the history has %v, want counted and accept once", id, times)
	}
	tasks, err := c.Tasks(ctx, id)
	if err != nil || len(tasks) != 1 || tasks[0].Done != int64(words(i)) {
		t.Errorf("%s: tasks %+v, %v", id, tasks, err)
	}
	log, err := c.Log(ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]int{}
	for _, l := range log.Lines {
		said[fmt.Sprint(l.Epoch, l.Msg)]++
	}
	for line, n := range said {
		if n != 1 {
			t.Errorf("%s: %q is %d times in the log", id, line, n)
		}
	}
}

// TestWorkerUnreadableAnswer: the worker in Python repeats a claim whose answer broke off, and ends with a message when
// a complete answer is not JSON.
func TestWorkerUnreadableAnswer(t *testing.T) {
	var claims atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := []byte("{\"jobs\":[{\"spec\":\"\xff\"}]}")
		if claims.Add(1) == 1 {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)+1)) // the connection ends before
		}
		_, _ = w.Write(text)
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "python3", "../../examples/worker/worker.py", "--server", server.URL,
		"--kind", "demo.count", "--state", "Counting").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "claim: the answer to claim is not JSON: ") || claims.Load() != 2 {
		t.Errorf("got %v after %d claims, %s", err, claims.Load(), out)
	}
}

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/internal/log"
	"github.com/stagepost/stagepost/job"
)

var kills = flag.Int("kills", 10, "how often TestKill kills the server")

// program is the real binary, built once for the tests that kill it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stagepost-kill")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "stagepost")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var programDir string // of the program, once it is built

// tests is testing.M, and removes the program when the tests have ended.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer func() { _ = os.RemoveAll(programDir) }()
	return t.M.Run()
}

// victim is a server process.
type victim struct {
	*exec.Cmd
	url string
}

// raise starts the server on a data directory and waits until it is ready.
func raise(t *testing.T, dir string, flags ...string) *victim {
	t.Helper()
	v := prepare(t, dir, append([]string{"--log-level", "warn"}, flags...)...)
	v.begin(t)
	return v
}

// prepare makes the command that starts the server on a data directory.
func prepare(t *testing.T, dir string, flags ...string) *victim {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{Cmd: exec.Command(path,
		append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, flags...)...)}
	v.Stderr = os.Stderr
	return v
}

// begin starts the server and waits until it is ready.
func (v *victim) begin(t *testing.T) {
	t.Helper()
	out, err := v.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = v.Wait()
		t.Fatalf("the server did not start: %v", err)
	}
	_, rest, _ := strings.Cut(line, "http://")
	address, _, _ := strings.Cut(rest, ",")
	v.url = "http://" + address
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

func (v *victim) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := v.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (v *victim) kill(t *testing.T) {
	t.Helper()
	if err := v.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = v.Wait() // the error of the kill
}

// depositors hand in files and remember what the server acknowledged. A submission whose answer was lost is handed in
// again with its key.
type depositors struct {
	mu     sync.Mutex
	acked  map[string]job.ID
	round  int // submissions that came to an end since the last kill
	mark   int // closes enough when there are so many of them
	enough chan struct{}
	next   int
	again  []string
}

func (d *depositors) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.again); n > 0 {
		key := d.again[n-1]
		d.again = d.again[:n-1]
		return key
	}
	d.next++
	return fmt.Sprintf("deposit-%05d", d.next)
}

// marked gives a channel that is closed when so many submissions more have come to an end.
func (d *depositors) marked(n int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round, d.mark, d.enough = 0, n, make(chan struct{})
	if n == 0 {
		close(d.enough)
	}
	return d.enough
}

func (d *depositors) noted(t *testing.T, key string, id job.ID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.round++; d.round == d.mark {
		close(d.enough)
	}
	if err != nil {
		d.again = append(d.again, key)
		return
	}
	if before, twice := d.acked[key]; twice && before != id {
		t.Errorf("%s was acknowledged as %s and as %s", key, before, id)
	}
	d.acked[key] = id
}

// work submits batches until ctx ends, at most a few a second: the point is the kills, not the load.
func (d *depositors) work(ctx context.Context, t *testing.T, url string) {
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for range 2 {
		key := d.take()
		j, err := c.Submit(ctx, client.Submission{
			Type: "file", Filename: key + ".txt", Key: key, Submitter: "ann", LocalIDs: []string{key}, Title: key,
		}, strings.NewReader("the text of "+key))
		d.noted(t, key, j.ID, err)
		if err != nil {
			return
		}
	}
}

// TestKill kills the real server again and again while depositors hand in. Nothing acknowledged is lost, every job
// ends, histories and derived data are sound, and every object is stored once. In turns, the server has a log in front
// of its database: each start applies what the one before left.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &depositors{acked: map[string]job.ID{}}
	chance := rand.New(rand.NewPCG(1, uint64(*kills)))
	left := 0
	for i := range *kills {
		mode := [...]string{"on", "off", "on"}[i%3]
		v := raise(t, dir, "--store-log="+mode)
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		some := d.marked(chance.IntN(4)) // of four
		for range 2 {
			busy.Go(func() { d.work(ctx, t, v.url) })
		}
		idle := make(chan struct{})
		go func() { busy.Wait(); close(idle) }()
		select {
		case <-some: // however slow the machine is
		case <-idle:
		}
		// the moment of the kill is the experiment
		<-time.After(time.Duration(chance.Int64N(int64(120 * time.Millisecond))))
		v.kill(t)
		cancel()
		busy.Wait()
		if mode == "on" && unapplied(t, dir) > 0 {
			left++
		}
	}
	if left == 0 {
		t.Error("no kill left records in the log that the database lacks: the test is blind")
	}
	v := raise(t, dir)
	c, err := client.New(v.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	poisoned := finish(t, c, d)
	c.Close()
	if err := v.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := v.Wait(); err != nil {
		t.Errorf("the server did not stop well: %v", err)
	}
	for _, command := range []string{"verify", "fsck"} {
		if out, err := exec.Command(v.Path, "admin", command, "--data", dir).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	t.Logf("%d kills, %d of them left records in the log alone, %d batches acknowledged, all there, all ended "+
		"(%d failed as poison)", *kills, left, len(d.acked), poisoned)
	if len(d.acked) < *kills/4 {
		t.Errorf("only %d submissions were acknowledged: the kills come too early to show anything", len(d.acked))
	}
}

// unapplied returns how many records of the log the database lacks, in a data directory that no server uses. It reads
// a copy of the database, which stays as the kill left it.
func unapplied(t *testing.T, dir string) int64 {
	t.Helper()
	copied := t.TempDir()
	for _, name := range []string{"stagepost.db", "stagepost.db-wal"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := host.OpenReading(filepath.Join(copied, "stagepost.db"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var applied uint64
	var installation string
	if err := db.QueryRow("SELECT logged, id FROM head, installation").Scan(&applied, &installation); err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	_, err = log.Read(filepath.Join(dir, "store-log"), installation, applied, func(uint64, []byte) error {
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// finish waits for the end of every acknowledged batch and checks what became of it.
func finish(t *testing.T, c *client.Client, d *depositors) (poisoned int) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Duration(len(d.acked))*time.Second/5)
	defer cancel()
	for key, id := range d.acked {
		if err := c.Watch(ctx, id, 0, func(client.Update) error { return nil }); err != nil {
			t.Fatalf("%s (%s): %v", id, key, err)
		}
		j, err := c.Job(ctx, id)
		if err != nil {
			t.Fatalf("%s (%s) is lost: %v", id, key, err)
		}
		page, err := c.Jobs(ctx, job.Query{Parent: id})
		if err != nil {
			t.Fatal(err)
		}
		given := j.Cause == "poison"
		for _, child := range page.Jobs {
			given = given || child.Cause == "poison"
		}
		switch {
		case given:
			poisoned++
		case j.State != "Completed" || len(page.Jobs) != 1:
			t.Errorf("%s (%s): %s with %d jobs: %s", id, key, j.State, len(page.Jobs), j.Message)
		}
	}
	return poisoned
}

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// TestBesideMerritt runs a server on ZooKeeper beside a program of a Merritt system: of a batch that was submitted to
// the server the program finishes every second job, and the server those of a batch of the program. The nodes of the
// store are for a user of ZooKeeper, those of Merritt for all.
func TestBesideMerritt(t *testing.T) {
	t.Parallel()
	zk, err := zktest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(zk.Stop)
	dir, queue := t.TempDir(), t.TempDir()
	profile := "id: maps_content\ncollection: maps\nowner: library\nallow_networks: [127.0.0.0/8]\n"
	must(t, os.MkdirAll(filepath.Join(dir, "profiles"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "profiles", "maps_content.yaml"), []byte(profile), 0o600))
	address, own, password := "zookeeper://"+zk.Address, "zookeeper://ann@"+zk.Address, filepath.Join(dir, "password")
	must(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	r, err := started(t, "--data", dir, "--store", own+"/stagepost", "--store-password-file", password,
		"--ingest-merritt", "on", "--ingest-merritt-queue", queue, "--ingest-merritt-every", "200ms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, r.Stop()) })
	c, p := clientOf(t, r.URL), &zktest.Program{Conn: zk.Raw(t)}
	ours := submitHeld(t, c)
	for i, id := range p.Names("/jobs/states/pending") {
		if i%2 == 0 {
			must(t, p.Lock("/jobs/"+id[3:]))
		}
	}
	theirs := theirBatch(t, p, queue)
	_, err = c.Release(t.Context(), job.Scope{Kind: "ingest.job", State: "Pending"}, "op", "both are ready")
	must(t, err)
	for _, id := range p.Names("/jobs") {
		if slices.Contains(p.Names("/jobs/"+id), "lock") && p.Status("/jobs/"+id) == "Pending" && theirs[id] {
			must(t, p.Finish(id))
		}
	}
	completed(t, c, ours, 4)
	page, err := c.Jobs(t.Context(), job.Query{Kinds: []job.Kind{"ingest.batch"}})
	if err != nil || len(page.Jobs) != 2 {
		t.Fatalf("%d batches, %v", len(page.Jobs), err)
	}
	for i := range page.Jobs {
		completed(t, c, page.Jobs[i].ID, 4)
	}
	for _, id := range p.Names("/jobs") {
		if s := p.Status("/jobs/" + id); id != "states" && s != "Completed" {
			t.Errorf("%s is %s in Merritt", id, s)
		}
	}
	if out, err := runCommand(t, "zk", "orphans", address); err != nil {
		t.Errorf("orphans: %v: %s", err, out)
	}
	must(t, p.Put("/jobs/states/pending/05-jid0000077777"))
	var exit *exec.ExitError
	if out, err := runCommand(t, "zk", "check", address); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFailed ||
		!strings.Contains(out, "jid0000077777") {
		t.Errorf("check: %v: %s", err, out)
	}
	if out, err := runCommand(t, "zk", "dump", address, "/jobs/states/pending", "-o", "json"); err != nil ||
		!strings.Contains(out, "05-jid0000077777") {
		t.Errorf("dump: %v: %s", err, out)
	}
	if out, err := runCommand(t, "zk", "dump", address, "/stagepost/jobs"); err == nil ||
		!strings.Contains(out, "another user") {
		t.Errorf("the nodes of the store without its user: %v: %s", err, out)
	}
	if out, err := runCommand(t, "zk", "dump", address, "--most", "100000"); err != nil ||
		!strings.Contains(out, "another user") || !strings.Contains(out, "05-jid0000077777") {
		t.Errorf("all nodes without the user of some: %v: %s", err, out)
	}
	if out, err := runCommand(t, "zk", "dump", own, "/stagepost", "--password-file", password); err != nil ||
		!strings.Contains(out, "/stagepost/jobs") {
		t.Errorf("the nodes of the store: %v: %s", err, out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// submitHeld submits a batch of four files, whose jobs wait in Pending.
func submitHeld(t *testing.T, c *client.Client) job.ID {
	t.Helper()
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path)
	}))
	t.Cleanup(files.Close)
	_, err := c.Hold(t.Context(), client.Hold{Scope: job.Scope{Kind: "ingest.job", State: "Pending"}, Who: "op",
		Why: "until both sides are ready"})
	must(t, err)
	text := "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-single-file-batch-manifest\n"
	for i := range 4 {
		text += fmt.Sprintf("%s/%d.txt |  |  |  |  | %d.txt |  | local-%d | A. Person | Title %d | 2009\n", files.URL,
			i, i, i, i)
	}
	b, err := c.Submit(t.Context(), client.Submission{Profile: "maps_content", Submitter: "ann",
		Filename: "batch.checkm"}, strings.NewReader(text+"#%eof\n"))
	must(t, err)
	wait(t, "four jobs", func() bool {
		j, err := c.Job(t.Context(), b.ID)
		return err == nil && j.Children.Open == 4
	})
	return b.ID
}

// theirBatch makes a batch of four jobs as programs of Merritt do, of which every second one is locked. It returns the
// nodes of all jobs that the program has locked.
func theirBatch(t *testing.T, p *zktest.Program, queue string) map[string]bool {
	t.Helper()
	names := []string{"a.txt", "b.txt", "c.txt", "d.txt"}
	for _, name := range names {
		at := filepath.Join(queue, "bid-1", "job-"+name)
		must(t, os.MkdirAll(at, 0o700))
		must(t, os.WriteFile(filepath.Join(at, name), []byte(name), 0o600))
	}
	batch, err := p.Submit("bid-1", "maps_content", "missing", "batchManifestFile")
	must(t, err)
	ids, err := p.Begin(batch, "bid-1", "maps_content", names...)
	must(t, err)
	locked := map[string]bool{}
	for i, id := range ids {
		if i%2 == 0 {
			must(t, p.Lock("/jobs/"+id))
		}
	}
	for _, id := range p.Names("/jobs") {
		locked[id] = slices.Contains(p.Names("/jobs/"+id), "lock")
	}
	return locked
}

// completed waits until so many jobs of a batch have completed.
func completed(t *testing.T, c *client.Client, batch job.ID, n int) {
	t.Helper()
	wait(t, "the jobs of "+string(batch), func() bool {
		j, err := c.Job(t.Context(), batch)
		return err == nil && j.Children.OK == n
	})
}

// wait asks until something is so.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Minute); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within 3 minutes: %s", what)
		}
	}
}

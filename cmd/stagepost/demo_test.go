package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
)

// runDemo runs the demo command in this process.
func runDemo(t *testing.T, dir string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := &cli{out: newPrinter(&out), err: os.Stderr, settings: newSettings()}
	root := c.root()
	if found, _, err := root.Find([]string{"demo"}); err != nil || found == root {
		root.AddCommand(c.demo())
	}
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
		"The depositor puts ledger/page-2.txt right.", ":Number of completed job(s): 12", "Status: COMPLETED", "To go on: stagepost serve --data " + dir,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
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
	if site, err := restoreDemo(dir); site != nil || err != nil {
		t.Errorf("no demo: got %v, %v", site, err)
	}
	for _, text := range []string{"{", `{"listen": "0.0.0.0:80"}`, `{"listen": "example.org:80"}`} {
		if err := os.WriteFile(filepath.Join(dir, demoFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restoreDemo(dir); err == nil {
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
	for nth, mark := range []string{"A server works", "bat_", "Processing 2/12", "Processing 7/12", "Reporting", "$ stagepost retry"} {
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
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
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
	if r.Expected != 12 || r.Completed < 10 || r.Completed+r.Failed != 12 || r.Pending != 0 {
		t.Errorf("got %s", r.Text())
	}
}

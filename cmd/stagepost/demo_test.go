package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/examples/demo"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// runDemo runs the demo in an empty directory with more variables of the environment.
func runDemo(t *testing.T, here string, out *os.File, env []string, args ...string) error {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"demo"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = here, out, os.Stderr, append(os.Environ(), env...)
	return cmd.Run()
}

// printed runs the demo with a file as its standard output.
func printed(t *testing.T, here string, env ...string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = runDemo(t, here, f, env)
	text, readErr := os.ReadFile(f.Name())
	if err != nil || readErr != nil {
		t.Fatalf("%v, %v\n%s", err, readErr, text)
	}
	return string(text)
}

// TestDemo reads what the demo prints, and checks its data directory afterwards.
func TestDemo(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	out := printed(t, here)
	for _, want := range []string{
		"All objects have ended: 10 are stored, 2 failed.", "bad digest", "$ stagepost why ing_",
		"The depositor corrects ledger/page-2.txt and survey/sheet-2.csv.", "All 12 objects are stored.",
		"has the object as a BagIt package",
		"ben   exits    Failed     the command ended with exit code 3\n",
		"ben   greedy   Failed     the command used more than its 64 MiB of memory\n",
		"cleo  endless  Killed     it was ended on request\n", "ann   sum-3    Completed\n",
		"cleo  report   Completed\n",
		"stored and read back: far (7 files), near (7 files); time stamp by demo\n",
		"To go on: stagepost serve --data demo-data-1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	fits(t, out)
	dir := filepath.Join(here, "demo-data-1")
	if computesLater(t, dir) == strings.Contains(out, noWalls) {
		t.Error("a later server must run jobs if something confines them, and only then")
	}
	noAnchors(t, dir)
	r, err := ocfl.Validate(t.Context(), filepath.Join(dir, "storage"))
	if err != nil || !r.Valid() || r.Objects != 12 {
		t.Errorf("got %+v, %v", r, err)
	}
	mails, err := filepath.Glob(filepath.Join(dir, "mail", "*.eml"))
	if err != nil || len(mails) < 2 {
		t.Errorf("got %d mails, %v", len(mails), err)
	}
	if err := runDemo(t, here, nil, nil, "--data", "demo-data-1"); err == nil {
		t.Error("a demo began in a used directory")
	}
	v := raise(t, dir)
	defer v.kill(t)
	killedInTheMiddle(t, v.url, out)
	listedOnce(t, v.url, out)
	archiveVerifies(t, dir, v.url)
	sameSession(t, out)
}

// fits checks that the output of a demo has at most 60 lines of 80 columns, and that its commands exist.
func fits(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) > 60 {
		t.Errorf("the demo prints %d lines, at most 60 are wanted:\n%s", len(lines), out)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 80 || strings.ContainsRune(line, '\x1b') {
			t.Errorf("the line has %d columns, or colors: %q", utf8.RuneCountInString(line), line)
		}
		if command, ok := strings.CutPrefix(line, "$ stagepost "); ok {
			if err := parses(strings.Fields(command), false); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// killedInTheMiddle checks by the histories that the server was killed while one object was being fetched, after
// others had ended. Those that had ended are the control: they were claimed once in each state.
func killedInTheMiddle(t *testing.T, url, out string) {
	t.Helper()
	m := regexp.MustCompile(`(\d+) of 12 objects have ended; half`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("the server was not killed:\n%s", out)
	}
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	page, err := c.Jobs(t.Context(), job.Query{Kinds: []job.Kind{record.JobKind}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	untouched := 0
	for i := range page.Jobs {
		j := &page.Jobs[i]
		history, err := c.History(t.Context(), j.ID, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		lost := slices.ContainsFunc(history, func(e client.Event) bool {
			return e.Event == lifecycle.Lost &&
				e.From == record.Downloading
		})
		if strings.Contains(string(j.Spec), "The last coach") && !lost {
			t.Errorf("the film was not being fetched when the server was killed: %+v", history)
		}
		if !lost {
			untouched++
		}
	}
	if ended, err := strconv.Atoi(m[1]); err != nil || ended < 4 || ended >= 12 || untouched < ended {
		t.Errorf("%s objects had ended, and %d were not interrupted, %v", m[1], untouched, err)
	}
}

// listedOnce checks that the page about the batch lists each object once: the application lists them with what they are
// called and what happens next, and the page counts them.
func listedOnce(t *testing.T, url, out string) {
	t.Helper()
	batch := regexp.MustCompile(`bat_[0-9A-Z]{26}`).FindString(out)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/jobs/"+batch, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{">Diary of a postmaster<": 1, ">Its jobs <": 1, ">12 ok<": 1} {
		if n := strings.Count(string(text), what); n != want {
			t.Errorf("%d times %q, want %d", n, what, want)
		}
	}
}

// changing are the parts of a session that are others each time.
var changing = regexp.MustCompile(`[a-z]{3}_[0-9A-Z]{26}|127\.0\.0\.1:\d+|ark:/99999/\w+|(Process|kill -9) \d+|\d+ of 12 objects|` +
	`\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\d+m?s ago|[\d.]+m?s\b|demo-data-\d+`)

// sameSession compares the session in the README with what the demo prints; "..." stands for any lines.
func sameSession(t *testing.T, out string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocksOf(string(readme)) {
		session, ok := strings.CutPrefix(b.text, "$ stagepost demo\n")
		if !b.code || !ok {
			continue
		}
		rest := changing.ReplaceAllString(out, "#")
		for part := range strings.SplitSeq(session, "...\n") {
			_, after, found := strings.Cut(rest, changing.ReplaceAllString(part, "#"))
			if !found {
				t.Errorf("README.md shows\n%s\nThe demo prints:\n%s", part, out)
			}
			rest = after
		}
		return
	}
	t.Error("README.md does not show the demo")
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

// TestDemoKilled kills a demo at several lines of its output; the server that goes on must end the batch with the same
// report.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for nth, mark := range []string{
		"answers at", "bat_", "objects have ended; half", "Another one continues", "$ stagepost watch",
		"$ stagepost retry", "bag.zip has", "Three users",
	} {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			cmd := exec.Command(path, "demo", "--data", dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			errs, err := cmd.StderrPipe() // the demo's server has it, too
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
			if text, err := io.ReadAll(errs); err != nil || len(text) > 0 { // until both processes have ended
				t.Errorf("%s, %v", text, err)
			}
			_ = cmd.Wait() // returns that it was killed
			untilReleased(t, dir)
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

// untilReleased waits until the data directory has no owner: a process closes its standard error before its other
// files.
func untilReleased(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "owner"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_EX), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// endOfDemo waits for the batch of a killed demo, if it had handed one in, and checks its report.
func endOfDemo(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	page, err := c.Jobs(ctx, job.Query{Kinds: []job.Kind{record.BatchKind}})
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

// endOfCompute waits for the jobs of the users of a killed demo. Those that ran have failed with it, and none runs
// twice. Where nothing confines scripts, only the server of the demo runs them.
func endOfCompute(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	if _, err := c.ComputeAgents(ctx); err != nil {
		p := client.ProblemOf(err)
		if p == nil || !strings.Contains(p.Detail, "runs no users' files") {
			t.Fatal(err)
		}
		t.Log("the jobs of users wait: ", err)
		return
	}
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

// TestDemoWithoutWalls: where nothing can confine scripts the demo states it, runs them all the same, and lets no
// later server do that. [TestDemo] is the control.
func TestDemoWithoutWalls(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	out := printed(t, here, "STAGEPOST_COMPUTE_SANDBOX="+sandbox.None)
	if !strings.Contains(out, noWalls) {
		t.Fatalf("it does not state that nothing confines scripts:\n%s", out)
	}
	fits(t, out)
	if computesLater(t, filepath.Join(here, "demo-data-1")) {
		t.Error("a later server runs jobs")
	}
}

// computesLater reports whether a later server on the data directory of a demo runs jobs.
func computesLater(t *testing.T, dir string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "stagepost.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "compute:")
}

// noWalls begins what the demo prints where nothing confines jobs.
const noWalls = "Nothing confines users' scripts on this machine"

// TestDemoNotices: an end that the story does not have, and a quota that does not hold, are errors.
func TestDemoNotices(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	jobs := []demo.DemoJob{{User: "ann", Name: "a", State: "Completed"}, {User: "ann", Name: "b",
		State: "Completed"}, {User: "ann", Name: "c", State: "Completed"}}
	for _, c := range []struct {
		third client.ComputeJob
		want  string
	}{
		{client.ComputeJob{State: "Completed", Started: at(2), Finished: at(3)}, ""},
		{client.ComputeJob{State: "Completed", Started: at(1), Finished: at(3)}, "3 jobs of ann ran at once"},
		{client.ComputeJob{State: "Failed", Cause: "lost", Started: at(2), Finished: at(3)},
			"c of ann ended as Failed (lost)"},
		{client.ComputeJob{State: "Completed"}, ""},
	} {
		ended := []client.ComputeJob{{State: "Completed", Started: at(0), Finished: at(2)}, {State: "Completed",
			Started: at(1), Finished: at(2)}, c.third}
		err := demo.AsExpected(jobs, ended)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

package orchestratorcli

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/takeover"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/docs"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// oldSite makes the database and the directories of a job-orchestrator server.
func oldSite(t *testing.T, words ...string) (database string) {
	t.Helper()
	dir := t.TempDir()
	database = filepath.Join(dir, "db.sqlite")
	db, err := conn.Open(database, conn.Create, "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(format string, args ...any) {
		if err := db.Exec(fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE jobs(id INTEGER PRIMARY KEY AUTOINCREMENT, user_id INTEGER NOT NULL, service TEXT NOT NULL, status TEXT NOT NULL, loc TEXT NOT NULL, dest_id INTEGER, created_at DATETIME DEFAULT CURRENT_TIMESTAMP)")
	for i, word := range words {
		loc := filepath.Join(dir, fmt.Sprint("job-", i))
		if err := os.MkdirAll(loc, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(loc, "run.sh"), []byte("#!/bin/bash\necho again > again.txt\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		if word == "completed" {
			if err := os.WriteFile(filepath.Join(loc, "output.zip"), oldResults(t), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		exec("INSERT INTO jobs(id, user_id, service, status, loc, created_at) VALUES(%d, %d, 'example', '%s', '%s', '2025-03-%02d 04:05:06')", 10*(i+1), i%2+1, word, loc, i+1)
	}
	return database
}

func oldResults(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("answer.txt")
	if err == nil {
		_, err = io.WriteString(w, "42")
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// importing imports into a data directory, and starts servers on it.
type importing struct {
	t                       *testing.T
	dir, database, services string
}

func newImporting(t *testing.T, database string) *importing {
	t.Helper()
	services := filepath.Join(t.TempDir(), "services.yaml")
	if err := os.WriteFile(services, []byte("services:\n  example: {runs_per_user: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &importing{t, filepath.Join(t.TempDir(), "data"), database, services}
}

func (i *importing) command(args ...string) (code int, out string) {
	var b bytes.Buffer
	s, jobs, _ := newSettings()
	code = cli.New(nil, cli.NewPrinter(&b), cli.NewPrinter(&b), s.Common, docs.All(), Part(jobs)).Run(
		append([]string{"compute", "import", "--data", i.dir, "--database", i.database}, args...))
	return code, b.String()
}

// counts imports, which must succeed, and returns its output.
func (i *importing) counts(args ...string) (done takeover.Report) {
	i.t.Helper()
	code, out := i.command(append([]string{"--compute-services", i.services, "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil {
		i.t.Fatalf("%d, %v: %s", code, err, out)
	}
	return done
}

// serve runs a server until all jobs have ended, and gives them by number.
func (i *importing) serve(look func(r *host.Server)) map[int64]job.Job {
	i.t.Helper()
	s, jobs, users := newSettings()
	s.Data, s.Listen = i.dir, "127.0.0.1:0"
	jobs.Services, jobs.Local, jobs.Sandbox, users.Listen = i.services, 2, "none", "127.0.0.1:0"
	r, err := host.Start(i.t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			i.t.Error(err)
		}
	}()
	page, err := r.Engine.Store().List(i.t.Context(), job.Query{Kinds: []job.Kind{compute.JobKind}})
	if err != nil {
		i.t.Fatal(err)
	}
	all := map[int64]job.Job{}
	for _, j := range page.Jobs {
		if all[j.Number], err = r.Engine.Await(i.t.Context(), j.ID, func(j *job.Job) bool {
			return j.Ended
		}); err != nil {
			i.t.Fatal(err)
		}
	}
	look(r)
	return all
}

// TestImport: jobs of the original are found under their ids, with the words and results that they had there; queued
// ones run here; a second import changes nothing.
func TestImport(t *testing.T) {
	i := newImporting(t, oldSite(t, "completed", "failed", "killed", "invalid", "cleaned", "running", "queued"))
	if code, out := i.command(); code == 0 || !strings.Contains(out, "example") {
		t.Errorf("a service that is not known: %d %s", code, out)
	}
	for range 2 {
		if code, out := i.command("--compute-services", i.services); code != 0 {
			t.Fatalf("%d %s", code, out)
		}
	}
	jobs := i.serve(func(r *host.Server) {
		for id, want := range map[int]string{10: "application/zip", 20: `"status":"Failed"`, 30: `"status":"Killed"`,
			40: `"status":"Invalid"`, 50: "not found", 60: `"status":"Failed"`, 70: "application/zip"} {
			if got := oldAnswer(t, r.Address("compute"), id); !strings.Contains(got, want) {
				t.Errorf("job %d: %.300q, want %s", id, got, want)
			}
		}
		if got := oldAnswer(t, r.Address("compute"), 10); !strings.Contains(got, string(oldResults(t))) {
			t.Error("the results of job 10 are not those that it had")
		}
		if got := oldAnswer(t, r.Address("compute"),
			20); !strings.Contains(got, `"created_at":"2025-03-02T04:05:06Z"`) || strings.Contains(got, "finished_at") {
			t.Errorf("the times of job 20: %s", got)
		}
	})
	if len(jobs) != 6 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// TestImportReportsTheTruth: how a job ended is what is known of it, and no more; it was created at the time of the
// original. A dry run, the import and the server's start agree about how many end badly, and a second import reports
// that they were there.
func TestImportReportsTheTruth(t *testing.T) {
	words := []string{
		"completed", "failed", "killed", "invalid", "cleaned", "queued", // as they were
		"processing", "submitted", "prepared", "running", "unknown", "locked", // at a client
		"queued", "completed", "failed", "running", // without their directories
		"completed", "failed", // with damaged results
		"queued", "completed", // without run.sh, without output.zip
	}
	database := oldSite(t, words...)
	place := func(n int, names ...string) string {
		return filepath.Join(append([]string{filepath.Dir(database), fmt.Sprint("job-", n-1)}, names...)...)
	}
	var wrong []error
	for n := 13; n <= 16; n++ {
		wrong = append(wrong, os.RemoveAll(place(n)))
	}
	for n := 17; n <= 18; n++ {
		zip := oldResults(t)
		wrong = append(wrong, os.WriteFile(place(n, "output.zip"), zip[:len(zip)/2], 0o600))
	}
	if err := errors.Join(append(wrong, os.Remove(place(19, "run.sh")), os.Remove(place(20, "output.zip")))...); err !=
		nil {
		t.Fatal(err)
	}
	const lost, unknown = compute.CauseLost, " where it comes from when it was taken over, and its end is not known"
	wants := map[int64]struct {
		state           lifecycle.State
		cause, sentence string
		fails           bool // it had not failed there
	}{
		10: {compute.Completed, "", "", false}, 20: {compute.Failed, compute.CauseExit,
			"it had failed where it comes from", false},
		30: {compute.Killed, compute.CauseKilled, "it had been ended on request where it comes from", false}, 40: {compute.Invalid, compute.CauseRejected, "it was invalid where it comes from", false},
		60:  {compute.Completed, "", "", false},
		70:  {compute.Failed, lost, "it was being sent to its client" + unknown, true},
		80:  {compute.Failed, lost, "it was submitted" + unknown, true},
		90:  {compute.Failed, lost, "it was prepared" + unknown, true},
		100: {compute.Failed, lost, "it was running" + unknown, true},
		110: {compute.Failed, lost, "its status was not known" + unknown, true},
		120: {compute.Failed, lost, "it was being ended" + unknown, true},
		130: {compute.Invalid, compute.CauseRejected, "it was queued where it comes from, and its files were gone when it was taken over", true},
		140: {compute.Failed, compute.CauseResults, "it had ended well where it comes from, and its results did not come with it", true},
		150: {compute.Failed, compute.CauseExit, "it had failed where it comes from; its files were gone when it was taken over", false},
		160: {compute.Failed, lost, "it was running" + unknown + "; its files were gone when it was taken over", true},
		170: {compute.Failed, compute.CauseResults, "its results are damaged: ", true}, 180: {compute.Failed, compute.CauseExit, "it had failed where it comes from; its results are damaged: ", false},
		190: {compute.Invalid, compute.CauseRejected, "there is no run.sh among its files", true},
		200: {compute.Failed, compute.CauseResults, "it had ended well where it comes from, and its results did not come with it", true},
	}
	i := newImporting(t, database)
	dry := i.counts("--dry-run")
	if _, err := os.Stat(i.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dry run made the data directory: %v", err)
	}
	first := i.counts()
	if diff := cmp.Diff(dry, first); diff != "" {
		t.Errorf("the dry run and the import do not agree:\n%s", diff)
	}
	again, dryAgain := i.counts(), i.counts("--dry-run")
	if again.Taken != 0 || again.There != len(wants) || again.Failed != 0 || again.Left != 1 ||
		len(again.Notices) != 0 {
		t.Errorf("a second import: %+v", again)
	}
	if diff := cmp.Diff(dryAgain, again); diff != "" {
		t.Errorf("the second dry run and import do not agree:\n%s", diff)
	}
	jobs := i.serve(func(*host.Server) {})
	badly := 0
	for n, want := range wants {
		j := jobs[n]
		if j.State != want.state || j.Cause != want.cause || !strings.HasPrefix(j.Message, want.sentence) ||
			want.sentence == "" && j.Message != "" {
			t.Errorf("job %d is %s, %s, %q; want %+v", n, j.State, j.Cause, j.Message, want)
		}
		if created := time.Date(2025, 3, int(n/10), 4, 5, 6, 0, time.UTC); !j.Created.Equal(created) {
			t.Errorf("job %d was created at %s, want %s", n, j.Created, created)
		}
		if want.fails {
			badly++
		}
	}
	if first.Taken != len(wants) || first.Failed != badly || first.There != 0 || len(jobs) != len(wants) {
		t.Errorf("%+v, want %d of which %d end badly; the server has %d", first, len(wants), badly, len(jobs))
	}
}

// TestImportTimes: a time that cannot be is reported, and does not stand in the record.
func TestImportTimes(t *testing.T) {
	database := oldSite(t, "failed", "failed", "failed")
	db, err := conn.Open(database, conn.ReadWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	for id, at := range map[int]string{20: "2999-01-01 00:00:00", 30: "yesterday"} {
		if err := db.Exec(fmt.Sprintf("UPDATE jobs SET created_at = '%s' WHERE id = %d", at, id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	i := newImporting(t, database)
	before := time.Now().Truncate(time.Microsecond)
	if done := i.counts(); len(done.Notices) != 2 || !strings.Contains(done.Notices[0], "2999") ||
		!strings.Contains(done.Notices[1], "yesterday") || done.Failed != 0 {
		t.Errorf("%+v", done)
	}
	for n, j := range i.serve(func(*host.Server) {}) {
		if early := n == 10; j.Created.Before(before) != early {
			t.Errorf("job %d was created at %s", n, j.Created)
		}
	}
}

// oldAnswer gives the answer about a job, with the content type before the body.
func oldAnswer(t *testing.T, url string, id int) string {
	t.Helper()
	a, err := http.Get(fmt.Sprintf("%s/download/%d", url, id))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.Header.Get("Content-Type") + " " + string(body)
}

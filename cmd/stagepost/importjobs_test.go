package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite/conn"
)

// oldSite makes the database and the directories of a job-orchestrator server, as spec/orchestrator.md 1.7 has them.
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
		if err := os.WriteFile(filepath.Join(loc, "run.sh"), []byte("#!/bin/bash\necho again > again.txt\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if word == "completed" {
			if err := os.WriteFile(filepath.Join(loc, "output.zip"), oldResults(t), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		exec("INSERT INTO jobs(id, user_id, service, status, loc) VALUES(%d, %d, 'example', '%s', '%s')", 10*(i+1), i%2+1, word, loc)
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

// TestImport: jobs of the original are found under their ids, with the words and results that they had there; queued ones run here; a second import changes nothing.
func TestImport(t *testing.T) {
	database := oldSite(t, "completed", "failed", "killed", "invalid", "cleaned", "running", "queued")
	dir := t.TempDir()
	services := filepath.Join(t.TempDir(), "services.yaml")
	if err := os.WriteFile(services, []byte("services:\n  example: {runs_per_user: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) (code int, out string) {
		var b bytes.Buffer
		code = run(append([]string{"import", "--data", dir, "--database", database}, args...), strings.NewReader(""), &b, &b)
		return code, b.String()
	}
	if code, out := command(); code == 0 || !strings.Contains(out, "example") {
		t.Errorf("a service that is not known: %d %s", code, out)
	}
	for range 2 {
		if code, out := command("--compute-services", services); code != 0 {
			t.Fatalf("%d %s", code, out)
		}
	}
	s := newSettings()
	s.Data, s.Listen = dir, "127.0.0.1:0"
	s.ComputeServices, s.ComputeLocal, s.ComputeSandbox, s.ComputeListen = services, 2, "none", "127.0.0.1:0"
	r, err := startServer(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	jobs, err := r.Engine.Store().List(t.Context(), job.Query{Kinds: []job.Kind{compute.JobKind}})
	if err != nil || len(jobs.Jobs) != 6 {
		t.Fatalf("%d jobs, %v", len(jobs.Jobs), err)
	}
	for i := range jobs.Jobs {
		if _, err := r.Engine.Await(t.Context(), jobs.Jobs[i].ID, func(j *job.Job) bool { return j.Ended }); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[int]string{10: "application/zip", 20: `"status":"Failed"`, 30: `"status":"Killed"`, 40: `"status":"Invalid"`, 50: "not found", 60: `"status":"Failed"`, 70: "application/zip"} {
		if got := oldAnswer(t, r.ComputeURL, id); !strings.Contains(got, want) {
			t.Errorf("job %d: %.300q, want %s", id, got, want)
		}
	}
	if got := oldAnswer(t, r.ComputeURL, 10); !strings.Contains(got, string(oldResults(t))) {
		t.Error("the results of job 10 are not those that it had")
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

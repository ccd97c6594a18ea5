package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
)

// unappliedDir returns a data directory of a server as a kill leaves it: a hold on the group maps is in the log in
// front of the database alone.
func unappliedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	v := raise(t, dir)
	c := clientOf(t, v.url)
	_, err := c.Submit(t.Context(), client.Submission{Type: "file", Filename: "a.txt"}, strings.NewReader("a text"))
	if err != nil {
		t.Fatal(err)
	}
	v.signal(t, os.Interrupt)
	if err := v.Wait(); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := conn.Open(filepath.Join(dir, "stagepost.db"), conn.ReadWrite, "")
	if err == nil {
		err = other.Exec("BEGIN IMMEDIATE") // the rows of the log cannot be written
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Hold(t.Context(), job.Hold{Scope: job.Scope{Group: "maps"}, Who: "ann", Why: "a test",
		Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func() error{other.Close, store.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	return left
}

func clientOf(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// runCommand runs a command of the program.
func runCommand(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	return string(out), err
}

// wantHeld requires that a server on a data directory shows the hold.
func wantHeld(t *testing.T, what, dir string, flags ...string) {
	t.Helper()
	v := raise(t, dir, flags...)
	holds, err := clientOf(t, v.url).Holds(t.Context())
	if err != nil || len(holds) != 1 || holds[0].Scope.Group != "maps" {
		t.Errorf("%s: holds %v, %v", what, holds, err)
	}
	v.signal(t, os.Interrupt)
	if err := v.Wait(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// Each command that opens a data directory without a server writes the rest of the log to the database first, and so
// does a server, with a log and without. A backup has it too. The control: without the log the same directory is
// refused, because it misses the hold.
func TestCommandsReadStoreLog(t *testing.T) {
	left := unappliedDir(t)
	copied := func() string {
		t.Helper()
		to := t.TempDir()
		if err := os.CopyFS(to, os.DirFS(left)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	for _, args := range [][]string{
		{"admin", "fsck"}, {"admin", "fsck", "--repair"}, {"admin", "verify"}, {"ingest", "inventory", "rebuild"},
	} {
		what := strings.Join(args, " ")
		dir := copied()
		if out, err := runCommand(t, append(args, "--data", dir)...); err != nil {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "store-log")); err == nil {
			t.Errorf("%s left a log", what)
		}
		wantHeld(t, "after "+what, dir)
	}
	wantHeld(t, "store.log=on", copied())
	wantHeld(t, "store.log=off", copied(), "--store-log=off")

	out, err := runCommand(t, "admin", "accept", "--data", copied(), "--note", "a test")
	if err == nil || !strings.Contains(out, "misses no commits") {
		t.Errorf("accept: %v\n%s", err, out)
	}

	set, restored := filepath.Join(t.TempDir(), "set"), filepath.Join(t.TempDir(), "new")
	for _, args := range [][]string{
		{"admin", "backup", set, "--data", copied()}, {"admin", "restore", set, "--data", restored},
		{"admin", "fsck", "--data", restored}, {"admin", "verify", "--data", restored},
	} {
		if out, err := runCommand(t, args...); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	wantHeld(t, "after a restore", restored)

	without := copied()
	if err := os.RemoveAll(filepath.Join(without, "store-log")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fsck", "verify", "backup"} {
		out, err := runCommand(t, "admin", name, "--data", without)
		if err == nil || !strings.Contains(out, "of store-log") {
			t.Errorf("admin %s without the log: %v\n%s", name, err, out)
		}
	}
}

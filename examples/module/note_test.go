package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
	hostcli "github.com/stagepost/stagepost/host/cli"
	"github.com/stagepost/stagepost/job"
)

// call runs a command of the program.
func call(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	s := host.NewSettings(notes())
	if code := hostcli.New(strings.NewReader(""), &out, &errs, s).Run(args); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, errs.String())
	}
	return out.String()
}

func read(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, answer.Status, err)
	}
	return string(text)
}

// TestModule: the lifecycle, the work, the setting, the command, the route, the page, the metric and the item of the
// backup are there, and no other file of the repository names them.
func TestModule(t *testing.T) {
	dir := t.TempDir()
	s := host.NewSettings(notes())
	s.Data, s.Listen = dir, "127.0.0.1:0"
	s.Modules[0].Settings.(*settings).Greeting = "Good morning"
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(call(t, "note", "write", "the disks are in", "--data", dir))
	c, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Watch(ctx, job.ID(id), 0, func(client.Update) error { return nil }); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "notes", id+".txt"))
	if err != nil || string(text) != "Good morning\nthe disks are in\n" {
		t.Errorf("got %q, %v", text, err)
	}
	for path, want := range map[string]string{
		"/notes": id, "/metrics": "stagepost_note_written_total 1",
		"/api/v1/lifecycles/note.svg": "Writing", "/api/v1/openapi.json": "/api/v1/notes",
	} {
		if got := read(t, r.URL+path); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", path, want)
		}
	}
	for command, want := range map[string]string{"why " + id: "Written", "list": id,
		"lifecycle show note": "Waiting", "admin config": "note.greeting"} {
		if got := call(t, append(strings.Fields(command), "--data", dir)...); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", command, got)
		}
	}
	set := filepath.Join(dir, "backups", "one")
	call(t, "admin", "backup", "--data", dir, "one")
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	call(t, "admin", "restore", set, "--data", restored)
	if again, err := os.ReadFile(filepath.Join(restored, "notes", id+".txt")); err != nil || !bytes.Equal(again, text) {
		t.Errorf("restored: %q, %v", again, err)
	}
}

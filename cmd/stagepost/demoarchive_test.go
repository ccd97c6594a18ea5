package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

// output runs the program without a server's address, and gives its standard output and exit code.
func output(t *testing.T, args ...string) (string, int) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Logf("%q: %s", args, errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// noAnchors checks that no server on the data directory of a demo asks the demo's authority to stamp the histories: it
// ended with the demo. The servers of the demo could ask it, and made no anchor either.
func noAnchors(t *testing.T, dir string) {
	t.Helper()
	text, exit := output(t, "admin", "config", "--data", dir, "-o", "json")
	var settings []struct{ Name, Value string }
	if err := json.Unmarshal([]byte(text), &settings); err != nil || exit != cli.ExitOK {
		t.Fatalf("exit code %d, %v:\n%s", exit, err, text)
	}
	i := slices.IndexFunc(settings, func(s struct{ Name, Value string }) bool { return s.Name == "anchor.every" })
	if i < 0 || settings[i].Value != "off" {
		t.Errorf("a later server makes anchors:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "anchors")); !os.IsNotExist(err) {
		t.Errorf("the demo made anchors: %v", err)
	}
}

// archiveVerifies checks that the archive of a demo is good without the demo's authority. The controls: its time stamp
// is a fault without the root certificate, and if the stamped file is changed.
func archiveVerifies(t *testing.T, dir, url string) {
	t.Helper()
	text, exit := output(t, "archive", "list", "--server", url, "-o", "json")
	var all []api.Archive
	if err := json.Unmarshal([]byte(text), &all); err != nil || exit != cli.ExitOK || len(all) != 1 {
		t.Fatalf("exit code %d, %v:\n%s", exit, err, text)
	}
	got := filepath.Join(t.TempDir(), "archive")
	if text, exit = output(t, "archive", "retrieve", string(all[0].Job), "--server", url, "--out", got); exit != 0 {
		t.Fatalf("exit code %d:\n%s", exit, text)
	}
	replies, err := filepath.Glob(filepath.Join(got, "*.tsr"))
	if err != nil || len(replies) != 1 {
		t.Fatalf("got time stamps %q, %v", replies, err)
	}
	root, stamped := filepath.Join(dir, "campus", "root.pem"), strings.TrimSuffix(replies[0], ".tsr")
	exits := func(want int, args ...string) {
		t.Helper()
		if text, exit := output(t, args...); exit != want {
			t.Errorf("%q: exit code %d, want %d:\n%s", args, exit, want, text)
		}
	}
	exits(cli.ExitOK, "archive", "verify", got, "--ca", root)
	exits(cli.ExitOK, "timestamp", "verify", stamped, "--ca", root)
	exits(cli.ExitFailed, "archive", "verify", got)
	exits(cli.ExitFailed, "timestamp", "verify", stamped, "--ca", otherRoot(t))
	if err := os.WriteFile(stamped, []byte("another seal\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	exits(cli.ExitFailed, "archive", "verify", got, "--ca", root)
	exits(cli.ExitFailed, "timestamp", "verify", stamped, "--ca", root)
}

// otherRoot gives the file of the root certificate of an authority that stamped nothing.
func otherRoot(t *testing.T) string {
	t.Helper()
	a, err := authority.New("Another authority", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(file, a.RootPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

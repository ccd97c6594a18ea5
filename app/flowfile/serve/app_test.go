package flowserve

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// TestClearedFlows: with the record of a flow its large values go, and with that of another job nothing does.
func TestClearedFlows(t *testing.T) {
	dir := t.TempDir()
	app, err := Open(&Settings{Workers: 8, Slots: 64, Sandbox: "auto"}, dir, dir, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	if err := app.blobs.Put(t.Context(), "flw_1", digest, []byte("1")); err != nil {
		t.Fatal(err)
	}
	values := filepath.Join(dir, "flows", "flw_1")
	for _, c := range []struct {
		kind job.Kind
		left bool
	}{{"ingest.job", true}, {"flow", false}} {
		if err := app.Clear(t.Context(), &job.Job{ID: "flw_1", Kind: c.kind}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(values); (err == nil) != c.left {
			t.Errorf("after a job of kind %s: %v", c.kind, err)
		}
	}
}

// TestLeftByCommands: the directories of commands whose process was killed are gone when the next one begins, whatever
// they hold; where no commands run nothing is touched.
func TestLeftByCommands(t *testing.T) {
	for _, commands := range []bool{false, true} {
		dir := t.TempDir()
		left := filepath.Join(dir, "commands", "stagepost-command-1", "inner")
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, "secret"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(left, 0o500); err != nil {
			t.Fatal(err)
		}
		s := &Settings{Workers: 8, Slots: 64, Sandbox: "auto"}
		s.Commands = commands
		app, err := Open(s, dir, dir, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(left); os.IsNotExist(err) != commands {
			t.Errorf("with commands %t: %v", commands, err)
		}
		_ = os.Chmod(left, 0o700) // so that the test can be tidied up
	}
}

// TestResetIsConfirmed: no one puts results away by a slip; other events need no confirmation.
func TestResetIsConfirmed(t *testing.T) {
	for _, c := range []struct {
		act  operator.Act
		kind job.ErrorKind
	}{{operator.Act{Event: "reset"}, job.Refused}, {operator.Act{Event: "reset", Confirm: true}, ""},
		{operator.Act{Event: "run"}, ""}, {operator.Act{Event: "suspend"}, ""}} {
		if _, err := allowFlow(t.Context(), &job.Job{ID: "flw_1"}, &c.act); job.KindOf(err) != c.kind {
			t.Errorf("%+v: got %v", c.act, err)
		}
	}
}

package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/store/mem"
)

// vanishes waits until a file is gone.
func vanishes(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond) // the file system sends no notification
	defer tick.Stop()
	for deadline := time.Now().Add(enough); ; <-tick.C {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s stays", name)
		}
	}
}

// The files of a payload without a receipt go when they were kept long enough, those of one that runs never; what
// became of it is still reported.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	runner := &actor{play: writes(3)}
	app, err := New(Options{Dir: dir, Slots: 2, Runner: runner, Reserve: 1, Keep: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(mem.New(), app.Works(), engine.Options{Name: "agent", Sweep: time.Millisecond,
		Retain: engine.Retention{Every: time.Millisecond, Clear: app.Clear}})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	defer func() { cancel(); <-done; _ = app.Close() }()
	k := ticket()
	if _, err := app.Submit(ctx, parcel(k, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := app.await(ctx, handle(k), "", enough); err != nil {
		t.Fatal(err)
	}
	vanishes(t, app.pathOf(idOf(k)))
	n, err := app.Query(ctx, handle(k))
	if err != nil || n.Standing != compute.Ended || n.HasResult || n.Ending.Exit != 3 ||
		n.Ending.Cause != compute.CauseExit || n.Reason == "" {
		t.Errorf("got %+v, %+v, %v", n, n.Ending, err)
	}
	if _, err := app.Results(ctx, handle(k)); !errors.Is(err, compute.ErrNoPayload) {
		t.Errorf("got %v", err)
	}
}

// The sweep stops when there is nothing to remove.
func TestTidiesRests(t *testing.T) { synctest.Test(t, tidiesRests) }

func tidiesRests(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	k := ticket()
	w.submit(w.app, parcel(k, "x"))
	w.end(k)
	if err := w.app.Forget(t.Context(), handle(k)); err != nil {
		t.Fatal(err)
	}
	changes := w.app.hub.listen()
	defer w.app.hub.leave(changes)
	for quiet, rounds := 0, 0; quiet < 3; rounds++ {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := changes.next(ctx, w.app.life)
		cancel()
		if quiet++; err == nil {
			quiet = 0
		}
		if rounds > 100 {
			t.Fatal("it goes round and round")
		}
	}
}

// What a crash left in the stage directory, or without a record, is removed at the next start; what has a record stays.
func TestSweep(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	k := ticket()
	w.submit(w.app, parcel(k, "x"))
	w.end(k)
	w.stop()
	stage, orphan := filepath.Join(w.dir, stageName, "parcel-1"), w.app.pathOf(idOf(ticket()))
	for _, dir := range []string{stage, filepath.Join(orphan, jobName, "locked")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(orphan, jobName, "locked"), 0); err != nil {
		t.Fatal(err)
	}
	w.start(nil)
	for _, dir := range []string{stage, orphan} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", dir, err)
		}
	}
	if _, err := os.Stat(w.app.pathOf(idOf(k), zipName)); err != nil {
		t.Error(err)
	}
}

// Results of a payload that was killed right before its agent ended are made when they are asked for.
func TestLateResults(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	k := ticket()
	w.submit(w.app, parcel(k, "x"))
	n := w.end(k)
	for _, name := range []string{zipName, resultsName} {
		if err := os.Remove(w.app.pathOf(idOf(k), name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := w.app.Results(t.Context(), handle(k))
	if got := unzip(t, r, err); got["made.txt"] != "made" || n.Ending == nil {
		t.Errorf("got %v", got)
	}
}

// A parcel for a disk that is full, a service that is not here, or beyond the maximum, is one for another agent.
func TestRefused(t *testing.T) {
	w := newHarness(t, writes(0), func(o *Options) {
		o.Services = map[string]Service{"test": {Max: compute.Limits{Memory: 1 << 20},
			Limits: compute.Limits{Disk: 1000}}}
		o.Disk = func(string) (int64, error) { return 2000, nil }
		o.Reserve = 500
	})
	remote, _ := w.remote(HandlerOptions{})
	elsewhere, greedy := parcel(ticket(), "x"), parcel(ticket(), "x")
	elsewhere.Service, greedy.Limits.Memory = "other", 2<<20
	wide := parcel(ticket(), "x", "a", string(make([]byte, 1200)), "b", string(make([]byte, 600)))
	wide.Limits.Disk = 1 << 20 // the service sets no maximum for it
	for name, p := range map[string]*compute.Parcel{
		"service": elsewhere, "limits": greedy, "disk limit": parcel(ticket(), "x", "a", string(make([]byte, 1001))),
		"disk": wide,
	} {
		for _, x := range []compute.Executor{w.app, remote} {
			var refusal *compute.Refusal
			if _, err := x.Submit(t.Context(), p); !errors.As(err, &refusal) || !refusal.Here || refusal.Reason == "" {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	w.submit(remote, parcel(ticket(), "x", "a", string(make([]byte, 900))))
}

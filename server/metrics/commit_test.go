package metrics_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server/metrics"
	"github.com/stagepost/stagepost/store/sqlite"
)

// TestStoreReportsItsCommits: every operation that wrote is in exactly one of them, and what only read is in none.
func TestStoreReportsItsCommits(t *testing.T) {
	m := metrics.New(metrics.Options{})
	var ops, commits, instant atomic.Int64
	store, err := sqlite.Open(t.TempDir(), sqlite.Options{OnCommit: func(n int, took time.Duration) {
		ops.Add(int64(n))
		commits.Add(1)
		if took <= 0 {
			instant.Add(1)
		}
		m.Committed(n, took)
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, []engine.Work{{Life: life, Prefix: "let", Outside: true}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const jobs = 20
	if _, err := store.Holds(t.Context()); err != nil { // the commits before it are counted now
		t.Fatal(err)
	}
	began := ops.Load() // the engine's own, as it reads the clock
	for range jobs {
		if _, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter"}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Holds(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := store.Waiting(); got != 0 {
		t.Errorf("%d operations wait", got)
	}
	if err := store.Close(); err != nil { // its loop has reported everything then
		t.Fatal(err)
	}
	if ops.Load()-began != jobs || commits.Load() < 1 || instant.Load() > 0 {
		t.Errorf("%d operations in %d commits, %d of them took no time; want %d operations", ops.Load(),
			commits.Load(), instant.Load(), jobs)
	}
	got := series(page(t, m))
	if got["stagepost_commit_operations_sum"] != fmt.Sprint(began+jobs) {
		t.Errorf("got %s", got["stagepost_commit_operations_sum"])
	}
}

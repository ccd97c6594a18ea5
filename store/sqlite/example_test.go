package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

var example = lifecycle.Must("letter",
	lifecycle.OnQueue("Posted", "A sender brings it; a clerk takes it.",
		lifecycle.OnPass("send", "Sent", lifecycle.Worker, "It is on its way."),
		lifecycle.OnFail("fail", "Lost", lifecycle.Worker|lifecycle.Timer, "It cannot be read.")),
	lifecycle.OnEnd("Sent", lifecycle.OK, "It is on its way."),
	lifecycle.OnEnd("Lost", lifecycle.Failed, "It could not be read."))

// oneLetter makes a store with one job in a new directory.
func oneLetter() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "letters")
	check(err)
	store, err := sqlite.Open(dir, sqlite.Options{})
	check(err)
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	j, created := job.New(job.Job{ID: "let_1", Kind: "letter", Definition: example.Hash(), Position: example.Start()},
		lifecycle.Owner, "ann", at)
	_, err = store.Create(context.Background(), job.Created{Job: j, Event: created})
	check(err)
	check(store.Close())
	return dir, func() { os.RemoveAll(dir) }
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// What was acknowledged is there when the store is opened again.
func ExampleOpen() {
	dir, remove := oneLetter()
	defer remove()
	store, err := sqlite.Open(dir, sqlite.Options{})
	check(err)
	defer store.Close()
	j, err := store.Get(context.Background(), "let_1")
	fmt.Println(j.State, j.Number, err)
	// Output: Posted 1 <nil>
}

// FsckDir reads each record and replays each history, without a server.
func ExampleFsckDir() {
	dir, remove := oneLetter()
	defer remove()
	lives := func(job.Kind) *lifecycle.Table { return example }
	report, err := sqlite.FsckDir(context.Background(), dir, lives, false)
	fmt.Println(report.Jobs, report.Clean(), err)
	// Output: 1 true <nil>
}

// A backup is made while the store is in use. It is a store.
func ExampleStore_Backup() {
	ctx := context.Background()
	dir, remove := oneLetter()
	defer remove()
	store, err := sqlite.Open(dir, sqlite.Options{})
	check(err)
	copied := filepath.Join(dir, "copy")
	check(os.Mkdir(copied, 0o700))
	check(store.Backup(ctx, filepath.Join(copied, "stagepost.db")))
	check(store.Close())
	store, err = sqlite.Open(copied, sqlite.Options{})
	check(err)
	defer store.Close()
	j, err := store.Get(ctx, "let_1")
	fmt.Println(j.State, err)
	// Output: Posted <nil>
}

package postgres_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/postgres"
)

var letter = lifecycle.Must("letter",
	lifecycle.OnQueue("Posted", "A sender brings it; a clerk takes it.",
		lifecycle.OnPass("send", "Sent", lifecycle.Worker, "It is on its way."),
		lifecycle.OnFail("fail", "Lost", lifecycle.Worker|lifecycle.Timer, "It cannot be read.")),
	lifecycle.OnEnd("Sent", lifecycle.OK, "It is on its way."),
	lifecycle.OnEnd("Lost", lifecycle.Failed, "It could not be read."))

// options accept the database server of the examples, which does not sync.
var options = postgres.Options{Unsynced: true}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// post creates a job.
func post(store *postgres.Store, id job.ID) {
	j, created := job.New(job.Job{ID: id, Kind: "letter", Definition: letter.Hash(), Position: letter.Start()},
		lifecycle.Owner, "ann", time.Now())
	_, err := store.Create(context.Background(), job.Created{Job: j, Event: created})
	check(err)
}

// The database is named by a connection string: "postgres://stagepost@db.example.org/stagepost". Open makes the tables.
func ExampleOpen() {
	ctx := context.Background()
	database, remove := postgres.TemporaryDatabase()
	defer remove()
	store, err := postgres.Open(ctx, database, options)
	check(err)
	defer store.Close()
	post(store, "let_1")
	j, err := store.Get(ctx, "let_1")
	fmt.Println(j.State, j.Number, err)
	// Output: Posted 1 <nil>
}

// Several servers open one database. A job that one of them has claimed is granted to no other one.
func ExampleOptions() {
	ctx := context.Background()
	database, remove := postgres.TemporaryDatabase()
	defer remove()
	var servers []*postgres.Store
	for range 2 {
		one := options
		one.Patience = time.Minute // how long operations wait for a database that is away
		store, err := postgres.Open(ctx, database, one)
		check(err)
		defer store.Close()
		servers = append(servers, store)
	}
	post(servers[0], "let_1")
	claim := job.Claim{Worker: "clerk", N: 1, Lease: time.Minute,
		From: []job.KindState{{Kind: "letter", State: "Posted"}}}
	for _, store := range servers {
		got, err := store.Claim(ctx, claim)
		fmt.Println(len(got), err)
	}
	// Output:
	// 1 <nil>
	// 0 <nil>
}

// Each server announces something to the others, such as the workers that send requests to it.
func ExampleStore_Announce() {
	ctx := context.Background()
	database, remove := postgres.TemporaryDatabase()
	defer remove()
	store, err := postgres.Open(ctx, database, options)
	check(err)
	defer store.Close()
	check(store.Announce(ctx, "north", []byte("2 workers")))
	check(store.Announce(ctx, "north", []byte("3 workers")))
	check(store.Announce(ctx, "south", []byte("no workers")))
	err = store.Announced(ctx, func(server string, text []byte, age time.Duration) {
		fmt.Println(server, string(text), age < time.Hour)
	})
	fmt.Println(err)
	// Output:
	// north 3 workers true
	// south no workers true
	// <nil>
}

// Verify reads all histories and the audit log, while the store is in use.
func ExampleStore_Verify() {
	ctx := context.Background()
	database, remove := postgres.TemporaryDatabase()
	defer remove()
	store, err := postgres.Open(ctx, database, options)
	check(err)
	defer store.Close()
	post(store, "let_1")
	lives := func(job.Kind) *lifecycle.Table { return letter }
	jobs, entries, err := store.Verify(ctx, "", lives, func(id job.ID, err error) { fmt.Println(id, err) })
	fmt.Println(jobs, entries, err)
	// Output: 1 1 <nil>
}

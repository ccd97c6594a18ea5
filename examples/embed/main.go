// Embed runs jobs of a lifecycle of its own on an embedded store: a letter is weighed, stamped and sent, and its stamp
// fails once.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

var life = lc.Must("letter",
	lc.OnQueue("Waiting", "A sender brings it; a clerk weighs it.",
		lc.OnPass("weigh", "Weighed", lc.Worker, "its weight is known"),
		lc.OnFail("fail", "Returned", lc.Worker|lc.Timer, "it is too heavy")),
	lc.OnWork("Weighed", "A clerk puts a stamp on it and sends it off.",
		lc.OnPass("send", "Sent", lc.Worker, "it is on its way"),
		lc.OnFail("fail", "Returned", lc.Worker|lc.Timer, "there is no stamp")),
	lc.OnEnd("Sent", lc.OK, "It is on its way."),
	lc.OnEnd("Returned", lc.Failed, "It goes back to its sender.",
		lc.OnReenter("retry", lc.Operator|lc.Owner, "the sender tries again", "Waiting", "Weighed")),
)

type letter struct{ To string }

func weigh(_ context.Context, r *engine.Run) error {
	return r.SetData(map[string]int{"grams": 20})
}

func stamp(_ context.Context, r *engine.Run) error {
	if r.Job().Attempts == 0 {
		return engine.Retry(errors.New("the stamps have run out")) // the engine tries again after a pause
	}
	return nil
}

func main() {
	dir, err := os.MkdirTemp("", "embed")
	check(err)
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(dir, sqlite.Options{})
	check(err)
	defer store.Close()
	e, err := engine.New(store, []engine.Work{{
		Life: life, Prefix: "let", Steps: map[lc.State]engine.Step{"Waiting": weigh, "Weighed": stamp},
		Policy: engine.Policy{Backoff: engine.Backoff{First: 100 * time.Millisecond}},
	}}, engine.Options{})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()

	posted, err := e.Submit(ctx, engine.Order{Kind: "letter", Key: "first", Spec: letter{To: "Ada"}})
	check(err)
	ended, err := e.Await(ctx, posted.ID, func(j *job.Job) bool { return j.Ended })
	check(err)
	history, err := store.History(ctx, ended.ID, 0, 0)
	check(err)
	for _, h := range history {
		fmt.Printf("%-8s %-8s -> %-8s %s\n", h.Event, h.From, h.To, h.Note)
	}
	fmt.Println("outcome", ended.Outcome)
	stop()
	check(<-done)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

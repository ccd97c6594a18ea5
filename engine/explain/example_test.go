package explain_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// Why returns every reason that keeps a job in its state, with the person or process that can end it.
func ExampleExplainer_Why() {
	ctx := context.Background()
	e, err := engine.New(mem.New(), []engine.Work{letters(nil)}, engine.Options{Name: "post office"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := e.Operator().Hold(ctx, job.Scope{Group: "maps"}, "ann", "the archive moves", time.Time{}); err != nil {
		log.Fatal(err)
	}
	j, err := e.Submit(ctx, engine.Order{Kind: "test.letter", Group: "maps"})
	if err != nil {
		log.Fatal(err)
	}
	x, err := explain.New(e).Why(ctx, j.ID, time.Time{})
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range x.Blockers {
		fmt.Println(b.Code+":", b.Sentence)
	}
	for _, m := range x.Moves {
		fmt.Println(m.Event, "->", m.To, "by", m.By)
	}
	// Output:
	// hold: group=maps is on hold: the archive moves
	// stopped: no worker takes jobs here
	// begin -> Sorting by worker
	// hold -> Held by worker,operator
	// fail -> Lost by worker,timer
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// SubmitAll creates all its jobs or none.
func ExampleEngine_SubmitAll() {
	ctx := context.Background()
	e, stop := shop(engine.Options{}, orders(done))
	defer stop()
	_, err := e.SubmitAll(ctx, engine.Order{Kind: "order"}, engine.Order{Kind: "letter"})
	fmt.Println(err)
	page, err := e.Store().List(ctx, job.Query{})
	fmt.Println(len(page.Jobs), err)
	// Output:
	// there is no kind "letter" (known: order)
	// 0 <nil>
}

// Await waits until a condition is true of the record. Notify records a task that came from outside for
// a waiting job, and ends its wait.
func ExampleEngine_Await() {
	ctx := context.Background()
	e, stop := shop(engine.Options{}, orders(func(ctx context.Context, r *engine.Run) error {
		if came, err := r.Tasks(ctx); err != nil || len(came) > 0 {
			return err
		}
		ships := job.Blocker{Code: "delivery", Sentence: "the tea is on a ship", Until: r.Now().Add(time.Hour)}
		return engine.Wait(ships)
	}))
	defer stop()
	j, err := e.Submit(ctx, engine.Order{Kind: "order"})
	if err != nil {
		log.Fatal(err)
	}
	j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Cause == "delivery" })
	fmt.Println(j.State, j.Message, err)
	if err := e.Notify(ctx, j.ID, "delivery", job.Task{Name: "tea", State: "SUCCESS"}); err != nil {
		log.Fatal(err)
	}
	j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended })
	fmt.Println(j.State, err)
	// Output:
	// Placed the tea is on a ship <nil>
	// Sent <nil>
}

// A step reports how far it has come; the engine shows it while the step runs.
func ExampleEngine_Progress() {
	ctx := context.Background()
	half, rest := make(chan bool), make(chan bool)
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		r.Progress(2, 4, "boxes")
		half <- true
		<-rest
		return nil
	}))
	defer stop()
	j, err := e.Submit(ctx, engine.Order{Kind: "order"})
	if err != nil {
		log.Fatal(err)
	}
	<-half
	p, _ := e.Progress(j.ID)
	fmt.Println(p.Done, "of", p.Total, p.Unit)
	fmt.Println(e.Status().Running, "step runs")
	close(rest)
	// Output:
	// 2 of 4 boxes
	// 1 step runs
}

// A kind with slots of its own is added to an engine that runs, and is removed when it has no jobs.
func ExampleEngine_Register() {
	ctx := context.Background()
	e, stop := shop(engine.Options{})
	defer stop()
	work := orders(done)
	work.Slots = 2
	if err := e.Register(ctx, work); err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Kinds())
	fmt.Println(e.Unregister(ctx, "order"), e.Kinds())
	// Output:
	// [order]
	// <nil> []
}

// A gate is a condition outside the lifecycle. The step of its state is not begun before the gate is open.
func ExampleGate() {
	var asked atomic.Int64
	space := func(context.Context, *job.Job) *job.Blocker {
		if asked.Add(1) == 1 {
			until := time.Now().Add(time.Millisecond)
			return &job.Blocker{Code: "space", Sentence: "no shelf is free", Until: until}
		}
		return nil
	}
	work := orders(done)
	work.Gates = map[lifecycle.State]engine.Gate{"Placed": space}
	e, stop := shop(engine.Options{}, work)
	defer stop()
	j := ended(e, engine.Order{})
	fmt.Println(j.State, asked.Load() > 1)
	// Output: Sent true
}

// Fail ends the job at once by the failure event, with a cause for programs and a message for people.
func ExampleFail() {
	e, stop := shop(engine.Options{}, orders(func(context.Context, *engine.Run) error {
		return engine.Fail("missing", errors.New("there is no tea"))
	}))
	defer stop()
	j := ended(e, engine.Order{})
	fmt.Println(j.State, j.Cause, j.Message)
	// Output: Failed missing there is no tea
}

// A policy bounds the time in a state, waits included.
func ExamplePolicy() {
	work := orders(func(ctx context.Context, _ *engine.Run) error {
		<-ctx.Done()
		return ctx.Err()
	})
	work.Policies = map[lifecycle.State]engine.Policy{"Placed": {Timeout: time.Millisecond}}
	e, stop := shop(engine.Options{}, work)
	defer stop()
	j := ended(e, engine.Order{})
	fmt.Println(j.State, j.Cause)
	// Output: Failed timeout
}

// The pause before a retry doubles up to its maximum. Chance makes it up to a fifth shorter or longer.
func ExampleBackoff_Pause() {
	b := engine.Backoff{First: time.Second, Max: 5 * time.Second}
	for n := range 5 {
		fmt.Println(b.Pause(n+1, 0.5))
	}
	// Output:
	// 1s
	// 2s
	// 4s
	// 5s
	// 5s
}

// Retention takes the timer's transition out of an end when the job was kept long enough.
func ExampleRetention() {
	note := lifecycle.Must("note",
		lifecycle.OnQueue("Written", "A guest writes it.",
			lifecycle.OnPass("read", "Read", lifecycle.Worker, "A clerk has read it."),
			lifecycle.OnFail("fail", "Torn", lifecycle.Worker|lifecycle.Timer, "It cannot be read.")),
		lifecycle.OnEnd("Read", lifecycle.OK, "It has been read.",
			lifecycle.On("delete", "Deleted", lifecycle.Timer, "It was kept long enough.")),
		lifecycle.OnEnd("Torn", lifecycle.Failed, "It could not be read."),
		lifecycle.OnEnd("Deleted", lifecycle.None, "Only the record is left."))
	work := engine.Work{
		Life: note, Prefix: "not", Keep: time.Millisecond, Steps: map[lifecycle.State]engine.Step{"Written": done},
	}
	e, stop := shop(engine.Options{Retain: engine.Retention{Every: time.Millisecond}}, work)
	defer stop()
	ctx := context.Background()
	j, err := e.Submit(ctx, engine.Order{Kind: "note"})
	if err == nil {
		j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.State == "Deleted" })
	}
	fmt.Println(j.State, err)
	// Output: Deleted <nil>
}

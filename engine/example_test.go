package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// shopOrder is the lifecycle of an order in a shop.
var shopOrder = lifecycle.Must("order",
	lifecycle.OnQueue("Placed", "A customer orders it; a packer packs it.",
		lifecycle.OnPass("pack", "Packed", lifecycle.Worker, "The goods are in the parcel."),
		lifecycle.On("empty", "Empty", lifecycle.Worker, "Nothing was ordered."),
		lifecycle.OnFail("fail", "Failed", lifecycle.Worker|lifecycle.Timer, "The goods are missing.")),
	lifecycle.OnWork("Packed", "A carrier takes it.",
		lifecycle.OnPass("send", "Sent", lifecycle.Worker, "The carrier has it."),
		lifecycle.OnFail("fail", "Failed", lifecycle.Worker|lifecycle.Timer, "No carrier takes it.")),
	lifecycle.OnEnd("Sent", lifecycle.OK, "The carrier has it."),
	lifecycle.OnEnd("Empty", lifecycle.OK, "There was nothing to send."),
	lifecycle.OnEnd("Failed", lifecycle.Failed, "A person has to check it.",
		lifecycle.OnReenter("retry", lifecycle.Operator, "The goods are there now.", "Placed", "Packed")),
)

func done(context.Context, *engine.Run) error { return nil }

// orders is the work of orders that are packed by a step.
func orders(pack engine.Step) engine.Work {
	return engine.Work{
		Life: shopOrder, Prefix: "ord", Steps: map[lifecycle.State]engine.Step{"Placed": pack, "Packed": done},
		Policy: engine.Policy{MaxAttempts: 3, Backoff: engine.Backoff{First: time.Millisecond}},
	}
}

// shop runs an engine on a store in memory until stop is called.
func shop(o engine.Options, works ...engine.Work) (e *engine.Engine, stop func()) {
	e, err := engine.New(mem.New(), works, o)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
	}
}

// ended submits an order and returns its job when it has ended.
func ended(e *engine.Engine, o engine.Order) job.Job {
	o.Kind = "order"
	j, err := e.Submit(context.Background(), o)
	if err == nil {
		j, err = e.Await(context.Background(), j.ID, func(j *job.Job) bool { return j.Ended })
	}
	if err != nil {
		log.Fatal(err)
	}
	return j
}

// An engine moves the jobs of a lifecycle: it claims them, runs the step of their state, and commits the transition.
func Example() {
	e, stop := shop(engine.Options{}, orders(done))
	defer stop()
	j := ended(e, engine.Order{Owner: "ann"})
	history, err := e.Store().History(context.Background(), j.ID, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range history[1:] {
		fmt.Println(h.Event, h.From, "->", h.To)
	}
	fmt.Println(j.Outcome)
	// Output:
	// pack Placed -> Packed
	// send Packed -> Sent
	// ok
}

// A second order with the same key returns the job of the first. An order without a priority has the default.
func ExampleEngine_Submit() {
	e, stop := shop(engine.Options{}, orders(done))
	defer stop()
	first := ended(e, engine.Order{Owner: "ann", Key: "basket 7"})
	again := ended(e, engine.Order{Owner: "ann", Key: "basket 7"})
	urgent := ended(e, engine.Order{Owner: "ann", Priority: new(0)})
	fmt.Println(first.ID == again.ID, first.Priority, urgent.Priority)
	// Output: true 50 0
}

// Go chooses the event where a state has several exits.
func ExampleGo() {
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		var goods []string
		if err := r.Spec(&goods); err != nil {
			return engine.Fail("order", err)
		}
		if len(goods) == 0 {
			return engine.Go("empty")
		}
		return nil
	}))
	defer stop()
	fmt.Println(ended(e, engine.Order{Spec: []string{}}).State, ended(e, engine.Order{Spec: []string{"tea"}}).State)
	// Output: Empty Sent
}

// Retry counts an attempt and runs the step again after a pause, until the attempts of the policy are used up.
func ExampleRetry() {
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		fmt.Println("attempt", r.Job().Attempts+1)
		return engine.Retry(errors.New("the shelf is empty"))
	}))
	defer stop()
	j := ended(e, engine.Order{})
	fmt.Println(j.State, j.Message)
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// Failed the shelf is empty
}

// Wait leaves the job where it is without counting an attempt; the blocker is what the explanation states meanwhile.
func ExampleWait() {
	visits := 0
	e, stop := shop(engine.Options{}, orders(func(_ context.Context, r *engine.Run) error {
		if visits++; visits == 1 {
			return engine.Wait(job.Blocker{Code: "delivery", Sentence: "the goods arrive soon",
				Until: r.Now().Add(time.Millisecond)})
		}
		return nil
	}))
	defer stop()
	j := ended(e, engine.Order{})
	fmt.Println(j.State, "after", visits, "visits")
	// Output: Sent after 2 visits
}

// Fail ends the job at once. A person sends it back to where it failed.
func ExampleEngine_Do() {
	missing := true
	e, stop := shop(engine.Options{}, orders(func(context.Context, *engine.Run) error {
		if missing {
			return engine.Fail("missing", errors.New("there is no tea"))
		}
		return nil
	}))
	defer stop()
	j := ended(e, engine.Order{})
	fmt.Println(j.State, j.Cause, j.Message)
	missing = false
	_, err := e.Do(context.Background(), operator.Act{
		Job: j.ID, Event: "retry", By: lifecycle.Operator, Actor: "ann", Note: "the tea has come",
	})
	if err != nil {
		log.Fatal(err)
	}
	if j, err = e.Await(context.Background(), j.ID,
		func(j *job.Job) bool { return j.Ended && j.Outcome == lifecycle.OK }); err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.State)
	// Output:
	// Failed missing there is no tea
	// Sent
}

// A hold keeps the jobs that it matches from being claimed until it is released.
func ExampleEngine_Operator() {
	ctx := context.Background()
	e, stop := shop(engine.Options{}, orders(done))
	defer stop()
	tea := job.Scope{Group: "tea"}
	if _, err := e.Operator().Hold(ctx, tea, "ann", "stocktaking", time.Time{}); err != nil {
		log.Fatal(err)
	}
	j, err := e.Submit(ctx, engine.Order{Kind: "order", Group: "tea"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ended(e, engine.Order{Group: "coffee"}).State)
	if j, err = e.Store().Get(ctx, j.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.State)
	if _, err := e.Operator().Release(ctx, tea, "ann", "done"); err != nil {
		log.Fatal(err)
	}
	if j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.State)
	// Output:
	// Sent
	// Placed
	// Sent
}

// A step of a batch spawns its jobs and waits for them; the last one that ends moves the batch on.
func ExampleRun_Spawn() {
	basket := lifecycle.Must("basket",
		lifecycle.OnQueue("Open", "A customer fills it; its orders run.",
			lifecycle.OnPass("close", "Closed", lifecycle.Worker, "All orders have ended."),
			lifecycle.OnFail("fail", "Lost", lifecycle.Worker|lifecycle.Timer, "It cannot be read.")),
		lifecycle.OnEnd("Closed", lifecycle.OK, "All orders have ended."),
		lifecycle.OnEnd("Lost", lifecycle.Failed, "It could not be read."))
	open := func(ctx context.Context, r *engine.Run) error {
		err := r.Spawn(ctx, 3, func(int) (engine.Order, error) { return engine.Order{Kind: "order"}, nil })
		if err != nil {
			return err
		}
		return r.WaitChildren()
	}
	e, stop := shop(engine.Options{}, orders(done), engine.Work{
		Life: basket, Prefix: "bas", Steps: map[lifecycle.State]engine.Step{"Open": open},
	})
	defer stop()
	j, err := e.Complete(context.Background(), engine.Order{Kind: "basket"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.State, j.Children.OK, "of", j.Children.Expected)
	// Output: Closed 3 of 3
}

// A message is written in the commit of the transition, and delivered afterwards at least once under its key.
func ExampleRun_Send() {
	delivered := make(chan string)
	e, stop := shop(engine.Options{Deliver: map[string]engine.Deliver{
		"mail": func(_ context.Context, m job.Message) error { delivered <- string(m.Body); return nil },
	}}, orders(func(_ context.Context, r *engine.Run) error {
		return r.Send("mail", r.Key(), "your parcel is packed")
	}))
	defer stop()
	if _, err := e.Submit(context.Background(), engine.Order{Kind: "order"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-delivered)
	// Output: "your parcel is packed"
}

// Workers in other processes acquire jobs of states without a step here, and report how their work ended.
func ExampleEngine_Remote() {
	ctx := context.Background()
	e, stop := shop(engine.Options{}, engine.Work{Life: shopOrder, Prefix: "ord", Outside: true})
	defer stop()
	if _, err := e.Submit(ctx, engine.Order{Kind: "order"}); err != nil {
		log.Fatal(err)
	}
	places := []job.KindState{{Kind: "order", State: "Placed"}, {Kind: "order", State: "Packed"}}
	for range 2 {
		claimed, err := e.Remote().Claim(ctx, remote.Claim{Worker: "packer-1", From: places, N: 1, Lease: time.Minute})
		if err != nil || len(claimed) != 1 {
			log.Fatal(claimed, err)
		}
		j := claimed[0]
		results, err := e.Remote().Report(ctx, "packer-1", claimed, []remote.Report{
			{Job: j.ID, Epoch: j.Epoch, Data: json.RawMessage(`{"weight": 20}`)},
		})
		if err != nil || results[0].Err != nil {
			log.Fatal(results, err)
		}
		fmt.Println(j.State, "->", results[0].Job.State)
	}
	// Output:
	// Placed -> Packed
	// Packed -> Sent
}

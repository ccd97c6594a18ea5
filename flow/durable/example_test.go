package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// A factory makes a flow from its arguments, the same each time. The flow is a job: an engine that is started again
// goes on with it.
func ExampleFlows_Submit() {
	greet := func(args json.RawMessage) (flow.Item, error) {
		var name string
		if err := json.Unmarshal(args, &name); err != nil {
			return nil, err
		}
		say := flow.Proc0("say", func(context.Context) error { fmt.Println("hello", name); return nil }, nil)
		return flow.Linear("greeting", flow.Wait("wait", "go", 0), say), nil
	}
	flows, err := durable.New(durable.Options{Factories: map[string]durable.Factory{"greet": greet}})
	check(err)
	e, err := engine.New(mem.New(), []engine.Work{flows.Work()}, engine.Options{})
	check(err)
	flows.Bind(e)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()

	j, err := flows.Submit(ctx, e, durable.Order{Factory: "greet", Args: json.RawMessage(`"Ada"`)})
	check(err)
	check(flows.Signal(ctx, e, j.ID, durable.Signal{Name: "go"}))
	j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended })
	check(err)
	fmt.Println(j.State)
	stop()
	check(<-ended)
	// Output:
	// hello Ada
	// SUCCESS
}

// A flow that has not ended by the deadline of its order is rolled back. This one can only end by its deadline.
func ExampleOrder() {
	approval := func(json.RawMessage) (flow.Item, error) { return flow.Wait("approval", "approved", 0), nil }
	flows, err := durable.New(durable.Options{Factories: map[string]durable.Factory{"approval": approval}})
	check(err)
	e, err := engine.New(mem.New(), []engine.Work{flows.Work()}, engine.Options{})
	check(err)
	flows.Bind(e)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()

	j, err := flows.Submit(ctx, e, durable.Order{Factory: "approval", Deadline: time.Now().Add(50 * time.Millisecond)})
	check(err)
	j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended })
	check(err)
	fmt.Println(j.State, j.Cause)
	stop()
	check(<-ended)
	// Output:
	// REVERTED timeout
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

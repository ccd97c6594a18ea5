package flow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/flow"
)

// Or makes an argument optional: without a value the task gets the default.
func ExampleKey_Or() {
	copies := flow.Name[int]("copies")
	order := flow.Proc1("order", copies.Or(1), func(_ context.Context, n int) error {
		fmt.Println("copies", n)
		return nil
	}, nil)
	run(flow.Linear("f", order), flow.Options{})
	run(flow.Linear("f", order), flow.Options{Inject: flow.Put(copies, 3)})
	// Output:
	// copies 1
	// SUCCESS <nil>
	// copies 3
	// SUCCESS <nil>
}

// Join combines the values of a flow. An untyped task may rebind its arguments to values of other names.
func ExampleJoin() {
	send := &flow.Task{
		Name: "send",
		Args: flow.Args{Requires: []string{"to", "text"}, Rebind: map[string]string{"to": "address"}},
		Execute: func(_ context.Context, c *flow.Call) (any, error) {
			fmt.Println(c.Get("text"), "to", c.Get("to"))
			return nil, nil
		},
	}
	run(flow.Linear("f", send), flow.Options{
		Inject: flow.Join(flow.Put(address, "Main Street 1"), flow.Put(flow.Name[string]("text"), "a letter")),
	})
	// Output:
	// a letter to Main Street 1
	// SUCCESS <nil>
}

// The result of a task is there under one name, or in parts.
func ExampleResult() {
	split := &flow.Task{
		Name: "split", Result: flow.Result{Names: []string{"first", "last"}},
		Execute: func(context.Context, *flow.Call) (any, error) { return []any{"Ada", "Lovelace"}, nil },
	}
	r := run(flow.Linear("f", split), flow.Options{})
	last, _ := r.Value("last")
	fmt.Println(last.Any())
	// Output:
	// SUCCESS <nil>
	// Lovelace
}

// A value is compared and decoded as JSON: it is the same after it was stored.
func ExampleValue() {
	type point struct{ X, Y int }
	v := flow.ValueOf(map[string]any{"X": 1, "Y": 2})
	var p point
	fmt.Println(v.Into(&p), p.Y, v.Equal(flow.ValueOf(p)))
	// Output: <nil> 2 true
}

// busy is an error that names its type.
type busy struct{ error }

func (busy) FailureType() string { return "Busy" }

// A failure keeps its type and its causes, also in storage. A revert sees why its flow failed.
func ExampleFailure() {
	reserve := &flow.Task{
		Name: "reserve",
		Revert: func(_ context.Context, c *flow.Call) (any, error) {
			why := c.Failures["pay"]
			fmt.Println("revert", c.Atom, why.Caused("Busy"), why.Caused(flow.TypeTimeout))
			return nil, nil
		},
	}
	pay := flow.Proc0("pay", func(context.Context) error {
		return fmt.Errorf("the bank: %w", busy{errors.New("try later")})
	}, nil)
	r := run(flow.Linear("f", reserve, pay), flow.Options{})
	fmt.Println(r.ExecuteFailures()["pay"].Message)
	// Output:
	// revert reserve true false
	// REVERTED the bank: try later
	// the bank: try later
}

// Tasks are executed at least once. The key of a call is the same when a crash makes the call happen again, and differs
// between attempts.
func ExampleCall_Key() {
	var keys []string
	pay := flow.Proc0("pay", func(ctx context.Context) error {
		if keys = append(keys, flow.CallOf(ctx).Key()); len(keys) == 1 {
			return errors.New("busy")
		}
		return nil
	}, nil)
	pay.Attempts = flow.Attempts{Max: 2, First: time.Millisecond}
	run(flow.Linear("f", pay), flow.Options{ID: "order 7"})
	fmt.Println(len(keys), keys[0] == keys[1])
	// Output:
	// SUCCESS <nil>
	// 2 false
}

// A task reports how far it has come to the listeners.
func ExampleCall_Progress() {
	pack := flow.Proc0("pack", func(ctx context.Context) error {
		flow.CallOf(ctx).ProgressDetails(0.5, "two boxes")
		return nil
	}, nil)
	listen := func(e flow.Event) {
		if e.Within == flow.Progressed && e.Details != nil {
			fmt.Println(e.Atom, e.Progress, e.Details.Any())
		}
	}
	run(flow.Linear("f", pack), flow.Options{Listeners: []flow.Listener{listen}})
	// Output:
	// pack 0.5 two boxes
	// SUCCESS <nil>
}

// A task that polls returns Await with the time of the next query. It holds no goroutine meanwhile.
func ExampleAwait() {
	queries := 0
	poll := &flow.Task{Name: "poll", Execute: func(_ context.Context, c *flow.Call) (any, error) {
		if queries++; queries < 3 {
			return nil, flow.Await("", c.Now().Add(time.Millisecond))
		}
		return "ready", nil
	}}
	run(flow.Linear("f", poll), flow.Options{})
	fmt.Println(queries, "queries")
	// Output:
	// SUCCESS <nil>
	// 3 queries
}

// Target restricts a graph flow to one item and what it needs.
func ExampleFlow_Target() {
	total := flow.Name[int]("total")
	count := flow.Func0("count", total, func(context.Context) (int, error) { return 3, nil }, nil)
	report := flow.Proc1("report", total, func(_ context.Context, n int) error {
		fmt.Println("total", n)
		return nil
	}, nil)
	g := flow.Graph("stock")
	if err := g.Add(count, report, prints("archive", nil)); err != nil {
		fmt.Println(err)
	}
	if err := g.Target(report); err != nil {
		fmt.Println(err)
	}
	run(g, flow.Options{})
	// Output:
	// total 3
	// SUCCESS <nil>
}

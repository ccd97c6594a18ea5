package flow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/flow"
)

// prints makes a task that prints its name when it is executed and when it is reverted.
func prints(name string, err error) *flow.Task {
	return flow.Proc0(name,
		func(context.Context) error { fmt.Println("do", name); return err },
		func(context.Context) error { fmt.Println("undo", name); return nil })
}

// run runs a flow and prints how it ended.
func run(item flow.Item, o flow.Options) *flow.Runner {
	r, err := flow.New(item, o)
	if err != nil {
		fmt.Println(err)
		return nil
	}
	finish(r)
	return r
}

func finish(r *flow.Runner) {
	err := r.Run(context.Background())
	fmt.Println(r.State(), err)
}

// Tasks that were executed before a failure are reverted, the last first.
func ExampleLinear() {
	run(flow.Linear("trip", prints("flight", nil), prints("hotel", nil), prints("car", errors.New("no cars left"))),
		flow.Options{})
	// Output:
	// do flight
	// do hotel
	// do car
	// undo car
	// undo hotel
	// undo flight
	// REVERTED no cars left
}

// Independent tasks run concurrently.
func ExampleUnordered() {
	var sum [3]int
	var parts []flow.Item
	for i := range sum {
		parts = append(parts, flow.Proc0(fmt.Sprint("part", i), func(context.Context) error {
			sum[i] = i * i
			return nil
		}, nil))
	}
	run(flow.Unordered("parts", parts...), flow.Options{Workers: flow.NewPool(3)})
	fmt.Println(sum)
	// Output:
	// SUCCESS <nil>
	// [0 1 4]
}

// A graph flow links a needed value to its provider. Further links are explicit; a decider decides whether a link
// is followed.
func ExampleGraph() {
	total := flow.Name[int]("total")
	count := flow.Func0("count", total, func(context.Context) (int, error) { return 3, nil }, nil)
	report := flow.Proc1("report", total, func(_ context.Context, n int) error {
		fmt.Println("total", n)
		return nil
	}, nil)
	alarm := prints("alarm", nil)
	g := flow.Graph("stock")
	if err := g.Add(report, count, alarm); err != nil { // in any order
		fmt.Println(err)
	}
	if err := g.LinkIf(count, alarm, flow.When(count, total, func(n int) bool { return n < 3 }),
		flow.DepthAtom); err != nil {
		fmt.Println(err)
	}
	r := run(g, flow.Options{})
	rec, _ := r.Atom("alarm")
	fmt.Println("alarm", rec.State)
	// Output:
	// total 3
	// SUCCESS <nil>
	// alarm IGNORE
}

// A retry controller reverts its part of the flow and runs it again, here with one value after the other.
func ExampleForEach() {
	mirror := flow.ForEach("north", "south")
	mirror.Result = "mirror"
	get := flow.Proc1("get", flow.Name[string]("mirror"), func(_ context.Context, from string) error {
		fmt.Println("from", from)
		if from == "north" {
			return errors.New("out of order")
		}
		return nil
	}, nil)
	run(flow.Linear("fetch", get).With(mirror), flow.Options{})
	// Output:
	// from north
	// from south
	// SUCCESS <nil>
}

var (
	address = flow.Name[string]("address")
	size    = flow.Name[int]("size")
)

func measure(_ context.Context, a string) (int, error) { return len(a), nil }

func forget(_ context.Context, a string, made *int) error {
	fmt.Println("forget", a, *made)
	return nil
}

// Keys define the types of arguments and results. flow.Func1("measure", size, size, measure, forget) would not compile:
// size is no string.
func ExampleFunc1() {
	r := run(flow.Linear("f", flow.Func1("measure", address, size, measure, forget)),
		flow.Options{Inject: flow.Put(address, "Main Street 1")})
	n, err := flow.Get(r, size)
	fmt.Println(n, err)
	// Output:
	// SUCCESS <nil>
	// 13 <nil>
}

// A suspended flow continues in another Runner with a new copy of the flow.
func ExampleRunner_Suspend() {
	storage := flow.NewMemory()
	build := func() *flow.Flow { return flow.Linear("f", prints("a", nil), prints("b", nil)) }
	var first *flow.Runner
	pause := func(e flow.Event) {
		if e.Atom == "a" && e.New == flow.Success {
			first.Suspend()
		}
	}
	first, err := flow.New(build(), flow.Options{Storage: storage, Listeners: []flow.Listener{pause}})
	if err != nil {
		fmt.Println(err)
		return
	}
	finish(first)
	run(build(), flow.Options{Storage: storage})
	// Output:
	// do a
	// SUSPENDED <nil>
	// do b
	// SUCCESS <nil>
}

// A waiting task holds no goroutine: Advance returns what the flow waits for, and is called again then.
func ExampleWait() {
	approval := flow.Wait("approval", "approved", 0)
	approval.Result = flow.One("by")
	r, err := flow.New(flow.Linear("f", approval, prints("publish", nil)), flow.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rest, err := r.Advance(context.Background())
	fmt.Println("waits for", rest.Signals, err)
	r.Signal("approved", "Ada")
	rest, err = r.Advance(context.Background())
	by, _ := r.Value("by")
	fmt.Println(r.State(), by.Any(), rest, err)
	// Output:
	// waits for [approved] <nil>
	// do publish
	// SUCCESS Ada <nil> <nil>
}

// A task with Attempts is repeated without its flow or a controller.
func ExampleAttempts() {
	n := 0
	call := flow.Proc0("call", func(context.Context) error {
		if n++; n < 3 {
			return errors.New("busy")
		}
		return nil
	}, nil)
	call.Attempts = flow.Attempts{Max: 5, First: time.Millisecond}
	run(flow.Linear("f", call), flow.Options{})
	fmt.Println("attempts", n)
	// Output:
	// SUCCESS <nil>
	// attempts 3
}

// A listener is notified of each change after it is stored.
func ExampleListener() {
	listen := func(e flow.Event) {
		if e.Within == "" {
			fmt.Println(e.Subject(), e.Old, "to", e.New)
		}
	}
	run(flow.Linear("f", flow.Sleep("nap", 0)), flow.Options{Listeners: []flow.Listener{listen}})
	// Output:
	// f PENDING to RUNNING
	// nap PENDING to RUNNING
	// nap RUNNING to SUCCESS
	// f RUNNING to SUCCESS
	// SUCCESS <nil>
}

// A controller runs its part again, after a revert of the failed attempt.
func ExampleTimes() {
	n := 0
	upload := flow.Proc0("upload", func(context.Context) error {
		if n++; n < 2 {
			return errors.New("connection lost")
		}
		return nil
	}, nil)
	run(flow.Linear("send", prints("pack", nil), upload).With(flow.Times(3)), flow.Options{})
	// Output:
	// do pack
	// undo pack
	// do pack
	// SUCCESS <nil>
}

// A signal has a type: the sender and the task that waits for it use the same one.
func ExampleSignal() {
	const approved = flow.Signal[bool]("approved")
	wait := approved.Wait("approval", 0)
	wait.Result = flow.One("yes")
	r, err := flow.New(flow.Linear("f", wait), flow.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Signal("approved", "perhaps"))
	fmt.Println(approved.Send(r, true))
	finish(r)
	yes, _ := r.Value("yes")
	fmt.Println(yes.Any())
	// Output:
	// the signal approved: it takes a boolean, not a string
	// <nil>
	// SUCCESS <nil>
	// true
}

// A custom controller decides after each failure from the attempts so far: here it retries as long as the failure has
// one type.
func ExampleRetry() {
	patient := &flow.Retry{
		Execute: func(_ context.Context, c *flow.Call) (any, error) { return len(c.History), nil },
		Decide: func(_ context.Context, c *flow.Call) (flow.Decision, error) {
			if c.History.CausedBy(flow.TypeTimeout, -1) {
				return flow.DecideRetry, nil
			}
			return flow.DecideRevertAll, nil
		},
	}
	n := 0
	slow := flow.Proc0("slow", func(ctx context.Context) error {
		if n++; n == 1 {
			<-ctx.Done() // the time is up
			return ctx.Err()
		}
		return errors.New("no disk")
	}, nil)
	slow.Timeout = time.Millisecond
	run(flow.Linear("f", prints("mount", nil), slow).With(patient), flow.Options{})
	fmt.Println("attempts", n)
	// Output:
	// do mount
	// undo mount
	// do mount
	// undo mount
	// REVERTED no disk
	// attempts 2
}

// A flow is an item of another one. A controller of the inner flow reverts and repeats only the inner flow.
func ExampleFlow() {
	n := 0
	send := flow.Proc0("send", func(context.Context) error {
		if n++; n < 2 {
			return errors.New("connection lost")
		}
		return nil
	}, nil)
	upload := flow.Linear("upload", prints("connect", nil), send).With(flow.Times(2))
	run(flow.Linear("all", prints("pack", nil), upload, prints("announce", nil)), flow.Options{})
	// Output:
	// do pack
	// do connect
	// undo connect
	// do connect
	// do announce
	// SUCCESS <nil>
}

// Fan-out: a task for each part, all concurrent, and one that takes all their results.
func ExampleCall_Into() {
	sum := &flow.Task{Name: "sum", Execute: func(_ context.Context, c *flow.Call) (any, error) {
		total := 0
		for arg := range c.Args() {
			var n int
			if err := c.Into(arg, &n); err != nil {
				return nil, err
			}
			total += n
		}
		fmt.Println("sum", total)
		return nil, nil
	}}
	var counts []flow.Item
	for i, text := range []string{"one", "three", "five"} {
		length := flow.Name[int](fmt.Sprint("length", i))
		count := func(context.Context) (int, error) { return len(text), nil }
		counts = append(counts, flow.Func0(fmt.Sprint("count", i), length, count, nil))
		sum.Args.Requires = append(sum.Args.Requires, length.String())
	}
	run(flow.Linear("f", flow.Unordered("counts", counts...), sum), flow.Options{Workers: flow.NewPool(3)})
	// Output:
	// sum 12
	// SUCCESS <nil>
}

// Cancel ends a flow and reverts its executed tasks; with Keep nothing is reverted.
func ExampleRunner_Cancel() {
	var r *flow.Runner
	cancel := func(e flow.Event) {
		if e.Atom == "a" && e.New == flow.Success {
			r.Cancel(flow.Ending{Text: "the wrong image"})
		}
	}
	r, err := flow.New(flow.Linear("f", prints("a", nil), prints("b", nil)),
		flow.Options{Listeners: []flow.Listener{cancel}})
	if err != nil {
		fmt.Println(err)
		return
	}
	finish(r)
	// Output:
	// do a
	// undo a
	// REVERTED the wrong image
}

// A task has a time of its own. Its context ends when that is over.
func ExampleTask() {
	copying := &flow.Task{
		Name: "copy", Timeout: time.Millisecond,
		Execute: func(ctx context.Context, _ *flow.Call) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		Revert: func(_ context.Context, c *flow.Call) (any, error) {
			fmt.Println("revert after", c.Failure.Type)
			return nil, nil
		},
	}
	run(flow.Linear("f", copying), flow.Options{})
	// Output:
	// revert after Timeout
	// REVERTED copy took longer than 1ms
}

// A flow that has changed while it was suspended is refused, unless Upgrade accepts the difference.
func ExampleOptions_upgrade() {
	storage := flow.NewMemory()
	var r *flow.Runner
	pause := func(e flow.Event) {
		if e.Atom == "a" && e.New == flow.Success {
			r.Suspend()
		}
	}
	r, err := flow.New(flow.Linear("f", prints("a", nil), prints("b", nil)),
		flow.Options{Storage: storage, Listeners: []flow.Listener{pause}})
	if err != nil {
		fmt.Println(err)
		return
	}
	finish(r)
	run(flow.Linear("f", prints("b", nil)), flow.Options{Storage: storage, Upgrade: func(d *flow.Difference) error {
		fmt.Println(d.Meaning())
		return nil
	}})
	// Output:
	// do a
	// SUSPENDED <nil>
	// [a is gone, and is SUCCESS]
	// do b
	// SUCCESS <nil>
}

// An outline has the structure of a flow, for drawings and checks.
func ExampleOutlineOf() {
	o, err := flow.OutlineOf(flow.Linear("f", prints("a", nil),
		flow.Unordered("g", prints("b", nil), prints("c", nil))))
	fmt.Println(o.Pattern, o.Items[1].Pattern, o.Atoms(), err)
	// Output:
	// linear unordered [a b c] <nil>
}

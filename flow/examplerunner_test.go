package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// A storage has the state of the flow and a record of each atom: they are all that another Runner needs.
func ExampleStorage() {
	storage := flow.NewMemory()
	run(flow.Linear("f", prints("a", nil), prints("b", errors.New("no disk"))),
		flow.Options{Storage: storage, NeverResolve: true})
	s, err := storage.Load(context.Background())
	fmt.Println(s.State, err)
	for _, a := range s.Atoms {
		fmt.Println(a.Name, a.State)
	}
	// Output:
	// do a
	// do b
	// FAILURE no disk
	// FAILURE <nil>
	// a SUCCESS
	// b FAILURE
}

// Reset moves a flow and all its atoms to PENDING in one commit.
func ExampleRunner_Reset() {
	r := run(flow.Linear("f", prints("a", nil)), flow.Options{})
	fmt.Println(r.Reset(context.Background()), r.State())
	finish(r)
	// Output:
	// do a
	// SUCCESS <nil>
	// <nil> PENDING
	// do a
	// SUCCESS <nil>
}

// An error of a flow has a kind for errors.Is, and names the atoms.
func ExampleError() {
	needs := flow.Proc1("print", address, func(context.Context, string) error { return nil }, nil)
	r, err := flow.New(flow.Linear("f", needs), flow.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = r.Run(context.Background())
	var e *flow.Error
	fmt.Println(errors.Is(err, flow.ErrMissing), errors.As(err, &e), e.Atoms)
	_, err = flow.New(flow.Linear("f", prints("a", nil), prints("a", nil)), flow.Options{})
	fmt.Println(errors.Is(err, flow.ErrDuplicate))
	// Output:
	// true true [print]
	// true
}

// The lifecycles of flows, tasks and controllers are tables like those of jobs.
func ExampleLife() {
	fmt.Println(flow.Life.Can(lifecycle.Position{State: flow.Suspended}, lifecycle.Operator))
	success := lifecycle.Position{State: flow.Success}
	_, err := flow.Life.Next(success, flow.Suspend, lifecycle.Operator)
	fmt.Println(err)
	fmt.Println(len(flow.TaskLife.Stages()), len(flow.RetryLife.Stages()))
	// Output:
	// [run cancel stop reset]
	// a SUCCESS job cannot be suspended (can: reset, run, delete)
	// 8 9
}

// Logging logs what a flow does.
func ExampleLogging() {
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: untimed}))
	item := flow.Linear("f", flow.Sleep("nap", 0))
	listen, err := flow.Logging(log, item, flow.LogOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	run(item, flow.Options{Listeners: []flow.Listener{listen}})
	// Output:
	// level=INFO msg="flow RUNNING" flow=f before=PENDING
	// level=INFO msg="flow SUCCESS" flow=f before=RUNNING
	// SUCCESS <nil>
}

// counts is a meter that counts changes by their new state.
type counts map[lifecycle.State]int

func (c counts) Changed(m flow.Changed)  { c[m.To]++ }
func (c counts) TriedAgain(_ flow.Again) {}

// Metering counts what flows do.
func ExampleMetering() {
	c := counts{}
	run(flow.Linear("f", flow.Sleep("a", 0), flow.Sleep("b", 0)),
		flow.Options{Listeners: []flow.Listener{flow.Metering(c)}})
	fmt.Println(c[flow.Running], c[flow.Success])
	// Output:
	// SUCCESS <nil>
	// 3 3
}

// Several tasks can fail in one run: the error of the flow has them in the order of the flow.
func ExampleFailures() {
	pool := flow.NewPool(2)
	begun := make(chan bool)
	fails := func(name string) *flow.Task {
		return flow.Proc0(name, func(context.Context) error {
			select { // both have begun
			case begun <- true:
			case <-begun:
			}
			return errors.New(name + " is gone")
		}, nil)
	}
	r, err := flow.New(flow.Unordered("f", fails("north"), fails("south")), flow.Options{Workers: pool})
	if err != nil {
		fmt.Println(err)
		return
	}
	var all *flow.Failures
	if errors.As(r.Run(context.Background()), &all) {
		fmt.Println(all.Atoms, all.All[1].Message)
	}
	// Output: [north south] south is gone
}

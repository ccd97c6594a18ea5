// Package enginetest has lifecycles and steps for tests of the engine and of its users, and an engine that runs them.
package enginetest

import (
	"context"
	"maps"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// Letter is a small lifecycle: a queue, two work states, a wait for a person, and a retry to the state that failed.
var Letter = lc.Must("test.letter",
	lc.OnQueue("Posted", "a sender brings it, a clerk takes it",
		lc.OnPass("begin", "Sorting", lc.Worker, "a clerk has time"),
		lc.On("hold", "Held", lc.Worker|lc.Operator, "its town is shut"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "it cannot be read")),
	lc.OnWait("Held", "its town is shut; an operator lets it go on",
		lc.On("release", "Posted", lc.Operator, "the town is open again"),
		lc.On("delete", "Burnt", lc.Operator, "it is not needed").Sets(lc.Cancelled)),
	lc.OnWork("Sorting", "a clerk reads the address",
		lc.OnPass("next", "Riding", lc.Worker, "the address is known"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "the address does not exist"),
		lc.OnFail("stop", "Lost", lc.Operator, "an operator takes it out")),
	lc.OnWork("Riding", "a coach carries it",
		lc.OnPass("finish", "Delivered", lc.Worker, "the addressee has it"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "the coach broke down")),
	lc.OnEnd("Delivered", lc.OK, "the addressee has it",
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "kept long enough")),
	lc.OnEnd("Lost", lc.Failed, "it went wrong somewhere",
		lc.OnReenter("retry", lc.Operator|lc.Owner, "try again where it went wrong", "Posted", "Sorting", "Riding"),
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "it is not needed")),
	lc.OnEnd("Burnt", lc.None, "only the record is left"),
)

// Bag is a batch of letters.
var Bag = lc.Must("test.bag",
	lc.OnQueue("Packed", "a sender brings it", lc.OnPass("begin", "Open", lc.Worker,
		"a clerk opens it")).Bounded("after its attempts it waits for a person"),
	lc.OnWork("Open", "its letters travel",
		lc.OnPass("report", "Emptied", lc.Engine, "all letters have ended"),
		lc.OnFail("fail", "Torn", lc.Worker|lc.Timer, "it holds nothing")),
	lc.OnEnd("Emptied", lc.OK, "all letters have ended"),
	lc.OnEnd("Torn", lc.Failed, "it held nothing"),
)

// Note is the lifecycle of a child, with a single step.
var Note = lc.Must("test.note",
	lc.OnQueue("Written", "a batch brings it, a clerk takes it",
		lc.OnPass("send", "Sent", lc.Worker, "it is on its way"),
		lc.OnFail("fail", "Torn", lc.Worker|lc.Timer, "it cannot be read")),
	lc.OnEnd("Sent", lc.OK, "it is on its way"),
	lc.OnEnd("Torn", lc.Failed, "it cannot be read"),
)

// Steps returns steps for all states of a letter: those that are given, and else Nothing.
func Steps(given map[lc.State]engine.Step) map[lc.State]engine.Step {
	all := map[lc.State]engine.Step{"Posted": Nothing, "Sorting": Nothing, "Riding": Nothing}
	maps.Copy(all, given)
	return all
}

// Letters is the work of letters, with [Steps] of those that are given.
func Letters(given map[lc.State]engine.Step) engine.Work {
	return engine.Work{Life: Letter, Prefix: "let", Steps: Steps(given)}
}

// Notes is the work of notes.
func Notes() engine.Work {
	return engine.Work{Life: Note, Prefix: "not", Steps: map[lc.State]engine.Step{"Written": Takes(0)}}
}

// BagOf is the work of a batch with n children.
func BagOf(n int, kind job.Kind) engine.Work {
	return engine.Work{Life: Bag, Prefix: "bag", Steps: map[lc.State]engine.Step{
		"Packed": Takes(0),
		"Open": func(ctx context.Context, r *engine.Run) error {
			err := r.Spawn(ctx, n, func(int) (engine.Order, error) { return engine.Order{Kind: kind}, nil })
			if err != nil {
				return err
			}
			return r.WaitChildren()
		},
	}}
}

// Nothing is a step that does nothing.
func Nothing(context.Context, *engine.Run) error { return nil }

// Blocked is a step that works until its context ends.
func Blocked(ctx context.Context, _ *engine.Run) error {
	<-ctx.Done()
	return ctx.Err()
}

// Takes is a step that takes the given time. With no time it still yields to others. (It uses no timer of 0, because an
// expired timer sometimes crashes the race detector in a bubble.)
func Takes(d time.Duration) engine.Step {
	return func(ctx context.Context, _ *engine.Run) error {
		way := make(chan struct{})
		if d == 0 {
			go close(way)
		} else {
			timer := time.AfterFunc(d, func() { close(way) })
			defer timer.Stop()
		}
		select {
		case <-way:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

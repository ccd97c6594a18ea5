package lifecycle_test

import (
	"fmt"

	"github.com/stagepost/stagepost/lifecycle"
)

// parcel is a small lifecycle with one stage of each kind.
func parcel() *lifecycle.Table {
	return lifecycle.Must("parcel",
		lifecycle.OnQueue("Open", "A customer brings it here; a packer takes it.",
			lifecycle.OnPass("begin", "Packing", lifecycle.Worker, "A packer is free."),
			lifecycle.On("hold", "Held", lifecycle.Operator, "The shop is closed.")).Bounded("a packer who cannot begin asks a person"),
		lifecycle.OnWait("Held", "The shop brings it here and releases it.",
			lifecycle.On("release", "Open", lifecycle.Operator, "The shop is open again.")),
		lifecycle.OnWork("Packing", "A packer collects the goods.",
			lifecycle.OnPass("finish", "Sent", lifecycle.Worker, "The parcel is complete."),
			lifecycle.OnFail("fail", "Broken", lifecycle.Worker|lifecycle.Timer, "Something is missing.")),
		lifecycle.OnEnd("Sent", lifecycle.OK, "The carrier has it."),
		lifecycle.OnEnd("Broken", lifecycle.Failed, "A person has to check it.",
			lifecycle.OnReenter("retry", lifecycle.Operator, "The goods are there now.", "Packing")),
	)
}

// Next is the only checker of a move, and a refusal names the moves that there are.
func ExampleTable_Next() {
	life := parcel()
	p, err := life.Next(life.Start(), "begin", lifecycle.Worker)
	fmt.Println(p.State, p.LastOK, err)
	_, err = life.Next(life.Start(), "finish", lifecycle.Operator)
	fmt.Println(err)
	// Output:
	// Packing Open <nil>
	// an Open job does not take the event finish (can: hold)
}

// A history is decided by the same table as a live move.
func ExampleTable_Replay() {
	p, err := parcel().Replay([]lifecycle.Taken{
		{Event: "begin", By: lifecycle.Worker},
		{Event: "fail", By: lifecycle.Timer},
		{Event: "retry", By: lifecycle.Operator},
	})
	fmt.Printf("%s, after success in %s, outcome %q, %v\n", p.State, p.LastOK, p.Outcome, err)
	// Output: Packing, after success in Open, outcome "", <nil>
}

// Can lists the events that one actor may cause: the buttons of a page, the completion of a command.
func ExampleTable_Can() {
	life := parcel()
	for _, by := range lifecycle.Actors() {
		fmt.Println(by, life.Can(life.Start(), by))
	}
	// Output:
	// worker [begin]
	// timer []
	// operator [hold]
	// owner []
	// engine []
}

// A step that states nothing but success or failure leaves the event to the table.
func ExampleTable_Choose() {
	life := parcel()
	p := lifecycle.Position{State: "Packing"}
	success, _ := life.Choose(p, lifecycle.Pass, lifecycle.Worker)
	failure, _ := life.Choose(p, lifecycle.Fail, lifecycle.Worker)
	fmt.Println(success, failure)
	// Output: finish fail
}

// New reports all that is wrong with a table at once.
func ExampleNew() {
	_, err := lifecycle.New("hasty",
		lifecycle.OnWork("Packing", "A packer collects the goods.",
			lifecycle.OnPass("finish", "Sent", lifecycle.Worker, "")),
		lifecycle.OnEnd("Sent", lifecycle.OK, "The carrier has it."),
		lifecycle.OnEnd("Broken", lifecycle.Failed, "A person has to check it."))
	fmt.Println(err)
	// Output:
	// Packing -finish->: the transition has no sentence [missing-sentence]
	// Packing: a step here can fail, and there is no transition for that [no-failure-exit]
	// Packing: a step here can take too long, and no timer takes the job away [no-timeout-exit]
	// Broken: no transition leads here from Packing [unreachable-state]
}

// Stages are a table's states in order, with the transitions that leave them.
func ExampleTable_Stages() {
	for _, s := range parcel().Stages() {
		fmt.Print(s.State, " (", s.Kind, "):")
		for _, a := range s.Transitions {
			if !a.Stays() {
				fmt.Print(" ", a.Event)
			}
		}
		fmt.Println()
	}
	// Output:
	// Open (queue): begin hold
	// Held (wait): release
	// Packing (work): finish fail
	// Sent (end):
	// Broken (end): retry
}

// An end that nothing can leave by itself needs no exit; a state that nothing reaches is a fault.
func ExampleCheck() {
	faults := lifecycle.Check("short",
		lifecycle.OnWait("Open", "A customer brings it here.",
			lifecycle.On("close", "Closed", lifecycle.Operator, "It is done.")),
		lifecycle.OnEnd("Closed", lifecycle.OK, "It is done."),
		lifecycle.OnEnd("Lost", lifecycle.Failed, "It is lost."))
	for _, f := range faults {
		fmt.Println(f)
	}
	// Output:
	// Lost: no transition leads here from Open [unreachable-state]
}

// The hash is that of states and transitions: a table with another sentence has the same, one with another transition
// has not. Jobs are pinned to it.
func ExampleTable_Hash() {
	door := func(opened string, more ...lifecycle.Transition) *lifecycle.Table {
		pass := append(more, lifecycle.On("open", "Open", lifecycle.Operator, opened))
		return lifecycle.Must("door",
			lifecycle.OnWait("Shut", "A guest is before it.", pass...),
			lifecycle.OnEnd("Open", lifecycle.OK, "The guest is in."))
	}
	first := door("The host opens it.").Hash()
	fmt.Println(len(first), first == door("Somebody opens it.").Hash())
	fmt.Println(first == door("The host opens it.", lifecycle.OnLoop("knock", lifecycle.Owner, "It is shut.")).Hash())
	// Output:
	// 16 true
	// false
}

// An end has an outcome. An end that nothing leaves and that has none is a tombstone.
func ExampleOutcome() {
	note := lifecycle.Must("note",
		lifecycle.OnWait("Written", "A guest writes it.",
			lifecycle.On("read", "Read", lifecycle.Operator, "The host has read it."),
			lifecycle.On("drop", "Dropped", lifecycle.Owner, "The guest takes it away.").Sets(lifecycle.Cancelled)),
		lifecycle.OnEnd("Read", lifecycle.OK, "The host has read it.",
			lifecycle.On("delete", "Deleted", lifecycle.Timer, "It was kept long enough.")),
		lifecycle.OnEnd("Dropped", lifecycle.None, "The guest has it again.",
			lifecycle.On("delete", "Deleted", lifecycle.Timer, "It was kept long enough.")),
		lifecycle.OnEnd("Deleted", lifecycle.None, "Only the record is left."))
	dropped, err := note.Next(note.Start(), "drop", lifecycle.Owner)
	fmt.Println(dropped.State, dropped.Outcome, err)
	for _, s := range note.Stages() {
		fmt.Println(s.State, note.Ended(s.State), note.Tombstone(s.State))
	}
	// Output:
	// Dropped cancelled <nil>
	// Written false false
	// Read true false
	// Dropped true false
	// Deleted true true
}

// States that a worker takes jobs from have more events, which stay in the state. Policies and listings name them.
func ExampleTable_Transition() {
	life := parcel()
	for _, e := range life.Events() {
		if t, ok := life.Transition("Packing", e); ok && t.Stays() {
			fmt.Println(e, "by", t.By)
		}
	}
	// Output:
	// wait by worker
	// backoff by worker
	// yield by worker
	// lost by timer
	// priority by operator
}

// The name of an actor is that of tables, histories and the API.
func ExampleParseActor() {
	fmt.Println(lifecycle.ParseActor("operator"))
	_, err := lifecycle.ParseActor("clerk")
	fmt.Println(err)
	// Output:
	// operator <nil>
	// unknown actor "clerk" (known: worker, timer, operator, owner, engine)
}

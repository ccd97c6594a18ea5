package lifecycle_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/draw"
	"github.com/stagepost/stagepost/lifecycle/lifecycletest"
)

// at returns the stage of a state, to be changed.
func at(stages []Stage, s State) *Stage {
	i := slices.IndexFunc(stages, func(one Stage) bool { return one.State == s })
	return &stages[i]
}

// transition returns the transition of a state, to be changed.
func transition(stages []Stage, s State, e Event) *Transition {
	stage := at(stages, s)
	i := slices.IndexFunc(stage.Transitions, func(a Transition) bool { return a.Event == e })
	return &stage.Transitions[i]
}

func drop(stages []Stage, s State, e Event) {
	stage := at(stages, s)
	stage.Transitions = slices.DeleteFunc(stage.Transitions, func(a Transition) bool { return a.Event == e })
}

func add(stages []Stage, s State, a Transition) {
	stage := at(stages, s)
	stage.Transitions = append(stage.Transitions, a)
}

// plants each put one fault into a valid table; want is the fault without its sentence.
var plants = []struct {
	name  string
	want  Fault
	plant func(s []Stage) []Stage
}{
	{"no states", Fault{Rule: NoStages}, func([]Stage) []Stage { return nil }},
	{"described twice", Fault{Rule: Duplicate, State: "Sent"},
		func(s []Stage) []Stage { return append(s, *at(s, "Sent")) }},
	{"state without a sentence", Fault{Rule: MissingSentence, State: "Held"},
		func(s []Stage) []Stage { at(s, "Held").Doc = " \t"; return s }},
	{"transition without a sentence", Fault{Rule: MissingSentence, State: "Packing", Event: "finish"},
		func(s []Stage) []Stage { transition(s, "Packing", "finish").Doc = ""; return s }},
	{"two transitions", Fault{Rule: TwoTransitions, State: "Held", Event: "release"},
		func(s []Stage) []Stage { add(s, "Held", On("release", "Gone", Operator, "Or not.")); return s }},
	{"no actor", Fault{Rule: NoActor, State: "Open", Event: "hold"},
		func(s []Stage) []Stage { transition(s, "Open", "hold").By = 0; return s }},
	{"leads out of the table", Fault{Rule: Unlisted, State: "Held", Event: "lose"},
		func(s []Stage) []Stage { add(s, "Held", On("lose", "Nowhere", Operator, "Lost.")); return s }},
	{"goes back out of the table", Fault{Rule: Unlisted, State: "Broken", Event: "retry"},
		func(s []Stage) []Stage {
			transition(s, "Broken", "retry").States = []State{"Packing", "Nowhere"}
			return s
		}},
	{"goes back nowhere", Fault{Rule: Unlisted, State: "Broken", Event: "retry"},
		func(s []Stage) []Stage { transition(s, "Broken", "retry").States = nil; return s }},
	{"unreachable", Fault{Rule: Unreachable, State: "Island"},
		func(s []Stage) []Stage { return append(s, OnEnd("Island", None, "No transition leads here.")) }},
	{"dead end", Fault{Rule: DeadEnd, State: "Held"},
		func(s []Stage) []Stage { drop(s, "Held", "release"); return s }},
	{"dead end for an outcome", Fault{Rule: DeadEnd, State: "Held"},
		func(s []Stage) []Stage {
			*transition(s, "Held", "release") = transition(s, "Held", "release").When(Cancelled)
			return s
		}},
	{"a queue cannot fail and is not bounded", Fault{Rule: NoFailure, State: "Open"},
		func(s []Stage) []Stage { at(s, "Open").Limit = " "; return s }},
	{"a queue that a person alone fails", Fault{Rule: NoFailure, State: "Open"},
		func(s []Stage) []Stage {
			at(s, "Open").Limit = ""
			add(s, "Open", OnFail("reject", "Broken", Operator, "It is not needed."))
			return s
		}},
	{"bounded with a failure exit", Fault{Rule: NotBounded, State: "Open"},
		func(s []Stage) []Stage {
			add(s, "Open", OnFail("reject", "Broken", Worker, "It cannot be packed."))
			return s
		}},
	{"bounded work", Fault{Rule: NotBounded, State: "Packing"},
		func(s []Stage) []Stage { at(s, "Packing").Limit = "packers are patient"; return s }},
	{"work cannot fail", Fault{Rule: NoFailure, State: "Packing"},
		func(s []Stage) []Stage { transition(s, "Packing", "fail").By = Timer; return s }},
	{"work cannot time out", Fault{Rule: NoTimeout, State: "Packing"},
		func(s []Stage) []Stage { transition(s, "Packing", "fail").By = Worker; return s }},
	{"worker of work crashes", Fault{Rule: NoLost, State: "Packing"},
		func(s []Stage) []Stage { drop(s, "Packing", Lost); return s }},
	{"worker of a queue crashes", Fault{Rule: NoLost, State: "Open"},
		func(s []Stage) []Stage { drop(s, "Open", Lost); return s }},
	{"end left by a worker", Fault{Rule: EndLeft, State: "Sent", Event: "more"},
		func(s []Stage) []Stage {
			add(s, "Sent", On("more", "Packing", Worker, "One thing was left out.").Within("x"))
			return s
		}},
	{"an event of two words", Fault{Rule: BadName, State: "Packing", Event: "send off"},
		func(s []Stage) []Stage {
			add(s, "Packing", On("send off", "Broken", Operator, "Not wanted."))
			return s
		}},
	{"a reserved event", Fault{Rule: BadName, State: "Packing", Event: "purge"},
		func(s []Stage) []Stage { add(s, "Packing", On("purge", "Broken", Operator, "Not wanted.")); return s }},
	{"a state without a name", Fault{Rule: BadName},
		func(s []Stage) []Stage {
			add(s, "Packing", On("lose", "", Operator, "It is gone."))
			return append(s, OnEnd("", Failed, "It is gone."))
		}},
	{"end left by a timer, not to a tombstone", Fault{Rule: EndLeft, State: "Broken", Event: "revive"},
		func(s []Stage) []Stage {
			add(s, "Broken", On("revive", "Open", Timer, "By itself.").Restarts().Within("x"))
			return s
		}},
	{"success after failure", Fault{Rule: WrongOutcome, State: "Sent"},
		func(s []Stage) []Stage { add(s, "Broken", On("pass", "Sent", Operator, "Good enough.")); return s }},
	{"success after cancellation", Fault{Rule: WrongOutcome, State: "Sent"},
		func(s []Stage) []Stage {
			*transition(s, "Open", "hold") = transition(s, "Open", "hold").Sets(Cancelled)
			return s
		}},
	{"circle without a limit", Fault{Rule: NoBudget, State: "Open"},
		func(s []Stage) []Stage { transition(s, "Packing", "again").Budget = ""; return s }},
	{"backoff without a limit", Fault{Rule: NoBudget, State: "Packing", Event: Backoff},
		func(s []Stage) []Stage { transition(s, "Packing", Backoff).Budget = ""; return s }},
	{"no event ends the waiting", Fault{Rule: NoWakeup, State: "Held"},
		func(s []Stage) []Stage { transition(s, "Held", "release").By = Worker; return s }},
	{"no worker takes from the queue", Fault{Rule: NoWakeup, State: "Open"},
		func(s []Stage) []Stage { transition(s, "Open", "begin").By = Operator; return s }},
	{"the engine asks", Fault{Rule: NoWorker, State: "Open", Event: "hold"},
		func(s []Stage) []Stage {
			hold := transition(s, "Open", "hold")
			*hold = hold.Asks()
			hold.By |= Engine
			return s
		}},
	{"asked to end", Fault{Rule: NoWorker, State: "Packing", Event: "stop"},
		func(s []Stage) []Stage {
			add(s, "Packing", On("stop", "Broken", Operator, "Not wanted.").Asks())
			return s
		}},
	{"asked after the end", Fault{Rule: NoWorker, State: "Broken", Event: "retry"},
		func(s []Stage) []Stage {
			*transition(s, "Broken", "retry") = transition(s, "Broken", "retry").Asks()
			return s
		}},
}

// TestAsks checks that the attribute is part of the hash, the JSON and the document of a table that uses it, and of no
// other.
func TestAsks(t *testing.T) {
	asks := lifecycletest.Order()
	*transition(asks, "Open", "hold") = transition(asks, "Open", "hold").Asks()
	plain, with := Must("shop.order", lifecycletest.Order()...), Must("shop.order", asks...)
	if plain.Hash() == with.Hash() {
		t.Error("the hashes are equal")
	}
	for _, c := range []struct {
		table *Table
		want  bool
	}{{plain, false}, {with, true}} {
		text, err := c.table.MarshalJSON()
		if got := strings.Contains(string(text), `"asks":true`); err != nil || got != c.want {
			t.Errorf("JSON: %t, %v", got, err)
		}
		if got := strings.Contains(string(text), `"asks"`); got != c.want {
			t.Error("the JSON of a table that does not use it has it")
		}
		if got := strings.Contains(draw.Markdown(c.table), "(asks its worker)"); got != c.want {
			t.Errorf("Markdown: %t", got)
		}
	}
}

// TestCheckFindsEachPlantedFault puts one fault at a time into a valid table.
func TestCheckFindsEachPlantedFault(t *testing.T) {
	if faults := Check("shop.order", lifecycletest.Order()...); len(faults) > 0 {
		t.Fatalf("the sound table has faults:\n%v", faults)
	}
	rules := map[Rule]bool{}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			got := Check("shop.order", p.plant(lifecycletest.Order())...)
			for i := range got {
				if strings.TrimSpace(got[i].Detail) == "" || strings.Contains(got[i].Detail, "%") {
					t.Errorf("fault without a proper sentence: %+v", got[i])
				}
				got[i].Detail = ""
			}
			if diff := cmp.Diff(Faults{p.want}, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
		rules[p.want.Rule] = true
	}
	for _, r := range []Rule{NoStages, BadName, Duplicate, MissingSentence, TwoTransitions, NoActor, Unlisted,
		Unreachable, DeadEnd,
		NoFailure, NoTimeout, NoLost, EndLeft, WrongOutcome, NoBudget, NoWakeup, NoWorker} {
		if !rules[r] {
			t.Errorf("no test plants %s", r)
		}
	}
}

// TestCheckNamesTables checks the names of tables, which are the kinds of their jobs.
func TestCheckNamesTables(t *testing.T) {
	for name, ok := range map[string]bool{"shop.order": true, "50%off": true, "": false, "a b": false, "a/b": false,
		"a\x00": false, "a\xff": false} {
		faults := Check(name, lifecycletest.Order()...)
		if bad := len(faults) == 1 && faults[0].Rule == BadName; bad == ok || ok && len(faults) > 0 {
			t.Errorf("%q: got %v", name, faults)
		}
	}
}

// TestCheckFindsAllFaultsAtOnce puts several faults into one table.
func TestCheckFindsAllFaultsAtOnce(t *testing.T) {
	all := lifecycletest.Order()
	want := map[Rule]bool{}
	for _, p := range plants {
		switch p.name {
		case "state without a sentence", "two transitions", "no actor", "unreachable", "work cannot fail",
			"worker of a queue crashes",
			"success after failure", "circle without a limit", "leads out of the table", "end left by a timer, not to a tombstone":
			all = p.plant(all)
			want[p.want.Rule] = true
		}
	}
	got := map[Rule]bool{}
	for _, f := range Check("shop.order", all...) {
		got[f.Rule] = true
	}
	for r := range want {
		if !got[r] {
			t.Errorf("%s was not found among the others", r)
		}
	}
	if _, err := New("shop.order", all...); err == nil || len(strings.Split(err.Error(), "\n")) < len(want) {
		t.Errorf("New: %v, want all faults", err)
	}
}

// TestQueueNeedsAFailureExitOrABound checks that a queue whose step can fail has a failure exit, or a bound on its
// attempts. The bound is not part of the hash, so that jobs continue under a table that adds one.
func TestQueueNeedsAFailureExitOrABound(t *testing.T) {
	bounded, exit, silent := lifecycletest.Order(), lifecycletest.Order(), lifecycletest.Order()
	at(exit, "Open").Limit = ""
	add(exit, "Open", OnFail("reject", "Broken", Worker, "It cannot be packed."))
	for name, s := range map[string][]Stage{"bounded": bounded, "with an exit": exit} {
		if got := Check("shop.order", s...); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	at(silent, "Open").Limit = ""
	if got := Check("shop.order", silent...); len(got) != 1 || got[0].Rule != NoFailure ||
		!strings.Contains(got[0].Detail, "bounded") {
		t.Errorf("control: %v, want one fault that names the remedy", got)
	}
	*at(silent, "Open") = at(silent, "Open").Bounded("for another reason")
	if a, b := Must("shop.order", bounded...), Must("shop.order", silent...); a.Hash() != b.Hash() {
		t.Error("another reason makes another hash")
	}
}

// TestEnduringWorkNeedsNoFailure checks the two exceptions that a table may have.
func TestEnduringWorkNeedsNoFailure(t *testing.T) {
	s := lifecycletest.Order()
	transition(s, "Packing", "fail").By = Operator
	if got := Check("shop.order", s...); len(got) != 2 {
		t.Fatalf("without a reason: %v, want two faults", got)
	}
	*at(s, "Packing") = at(s, "Packing").Enduring("packers try indefinitely")
	if got := Check("shop.order", s...); len(got) != 0 {
		t.Errorf("with a reason: %v", got)
	}
}

// TestRestartableEndMayRunAgain checks that the engine may leave an end that is restartable, and no other.
func TestRestartableEndMayRunAgain(t *testing.T) {
	s := lifecycletest.Order()
	add(s, "Broken", On("rerun", "Packing", Engine, "The plan is tried again.").Restarts().Within("plans"))
	if got := Check("shop.order", s...); len(got) != 1 || got[0].Rule != EndLeft {
		t.Fatalf("an end that is not restartable: %v", got)
	}
	*at(s, "Broken") = at(s, "Broken").Again()
	if got := Check("shop.order", s...); len(got) != 0 {
		t.Errorf("a restartable end: %v", got)
	}
}

// TestOwnTransitionTakesTheLoopsPlace checks that a stage may have its own transition for the event of a loop.
func TestOwnTransitionTakesTheLoopsPlace(t *testing.T) {
	s := OnWork("Running", "It runs.", On(Waiting, "Awaiting", Worker, "Elsewhere.").Within("its deadline"))
	var events []Event
	for _, a := range s.Transitions {
		events = append(events, a.Event)
	}
	if diff := cmp.Diff([]Event{Waiting, Backoff, Yield, Lost, Reprioritize}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

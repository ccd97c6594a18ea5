package lifecycle_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/lifecycle/lifecycletest"
)

// TestPositionFollowsTheTransition moves an order through failure, retry and success and checks all four parts.
func TestPositionFollowsTheTransition(t *testing.T) {
	table := lifecycletest.Shop()
	p := table.Start()
	for _, step := range []struct {
		event Event
		by    Actor
		want  Position
	}{
		{"hold", Operator, Position{State: "Held"}},
		{"release", Operator, Position{State: "Open"}},
		{"begin", Worker, Position{State: "Packing", LastOK: "Open"}},
		{Backoff, Worker, Position{State: "Packing", LastOK: "Open"}},
		{"fail", Timer, Position{State: "Broken", LastOK: "Open", Origin: "Packing", Outcome: Failed}},
		{"retry", Operator, Position{State: "Packing", LastOK: "Open", Origin: "Packing"}},
		{"finish", Worker, Position{State: "Sent", LastOK: "Packing", Origin: "Packing", Outcome: OK}},
	} {
		next, err := table.Next(p, step.event, step.by)
		if err != nil {
			t.Fatalf("%s: %v", step.event, err)
		}
		if diff := cmp.Diff(step.want, next); diff != "" {
			t.Fatalf("after %s (-want +got):\n%s", step.event, diff)
		}
		p = next
	}
}

// TestRefusalSaysWhyAndWhatElse compares each kind of refusal with its sentence.
func TestRefusalSaysWhyAndWhatElse(t *testing.T) {
	table, err := New("shop.order", append(lifecycletest.Order()[:5:5],
		OnEnd("Gone", None, "Only the number is left."))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		at    Position
		event Event
		by    Actor
		want  string
	}{
		{"no such transition", Position{State: "Packing"}, "hold", Operator,
			"a Packing job cannot be held (can: nothing)"},
		{"no such state", Position{State: "Lost"}, "hold", Operator, "a Lost job cannot be held (can: nothing)"},
		{"not you", Position{State: "Packing"}, "fail", Owner,
			"a Packing job does not take the event fail: only worker or timer may (can: nothing)"},
		{"what else", Position{State: "Packing"}, "retry", Worker, "(can: finish, fail, again)"},
		{"failed elsewhere", Position{State: "Broken", Origin: "Open"}, "retry", Operator,
			`it failed in "Open", which is not one to go back to (can: delete)`},
	} {
		next, err := table.Next(c.at, c.event, c.by)
		var illegal *Illegal
		if !errors.As(err, &illegal) {
			t.Fatalf("%s: got %v, want *Illegal", c.name, err)
		}
		if !strings.Contains(err.Error(), c.want) || next != c.at {
			t.Errorf("%s: got %q at %+v, want %q at %+v", c.name, err, next, c.want, c.at)
		}
	}
}

// TestOutcomeGuards checks that a transition that needs an outcome is legal with that outcome only, and that a decided
// outcome stays.
func TestOutcomeGuards(t *testing.T) {
	table, err := New("shop.return",
		OnQueue("Open", "Comes in; a clerk checks it.",
			OnPass("accept", "Tidy", Worker, "Fine.").Sets(OK),
			OnFail("reject", "Tidy", Worker, "Not fine.").Sets(Failed)),
		OnWork("Tidy", "A clerk puts the papers away.",
			OnPass("finish", "Paid", Worker, "Paid.").When(OK),
			OnPass("close", "Refused", Worker, "Refused.").When(Failed).Sets(Cancelled),
		).Enduring("papers can always be put away"),
		OnEnd("Paid", OK, "The customer has the money."),
		OnEnd("Refused", Failed, "The customer has the goods."))
	if err != nil {
		t.Fatal(err)
	}
	p, err := table.Replay([]Taken{{"reject", Worker}})
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := table.Choose(p, Pass, Worker); !ok || e != "close" {
		t.Errorf("Choose gives %q, %v, want close", e, ok)
	}
	if _, err := table.Next(p, "finish", Worker); err == nil ||
		!strings.Contains(err.Error(), `its outcome is "failed", not "ok"`) {
		t.Errorf("finish with outcome failed: %v", err)
	}
	p, err = table.Next(p, "close", Worker)
	if err != nil || p.Outcome != Failed {
		t.Errorf("closed with outcome %q, %v, want failed: an outcome is decided once", p.Outcome, err)
	}
	if _, err := table.Replay([]Taken{{"accept", Worker}, {"close", Worker}}); err == nil ||
		!strings.HasPrefix(err.Error(), "move 2: ") {
		t.Errorf("a false history: %v, want an error that names move 2", err)
	}
}

// TestHashCoversMovesOnly checks that another wording has the same hash, and another transition a different one.
func TestHashCoversMovesOnly(t *testing.T) {
	base := lifecycletest.Shop().Hash()
	worded := lifecycletest.Order()
	worded[0].Doc = "In other words."
	worded[2].Transitions[0].Doc = "Also here."
	if got := mustNew(t, worded).Hash(); got != base {
		t.Errorf("other words: hash %s, want %s", got, base)
	}
	moved := lifecycletest.Order()
	transition(moved, "Broken", "retry").By = Operator | Owner
	if got := mustNew(t, moved).Hash(); got == base {
		t.Errorf("another actor: hash is still %s", got)
	}
}

func mustNew(t *testing.T, stages []Stage) *Table {
	t.Helper()
	table, err := New("shop.order", stages...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestTableIsNotChangedFromOutside checks that a change of returned values does not change the table.
func TestTableIsNotChangedFromOutside(t *testing.T) {
	stages := lifecycletest.Order()
	table := mustNew(t, stages)
	transition(stages, "Open", "begin").To = "Gone"
	table.Stages()[0].Transitions[0].To = "Gone"
	if open, ok := table.Stage("Open"); ok {
		open.Transitions[0].To = "Gone"
	}
	if a, ok := table.Transition("Open", "begin"); !ok || a.To != "Packing" {
		t.Errorf("begin leads to %q, want Packing", a.To)
	}
}

func TestActorsReadAndWrite(t *testing.T) {
	for set := Actor(1); set < 32; set++ {
		got, err := ParseActor(set.String())
		if err != nil || got != set {
			t.Errorf("%s: got %v, %v", set, got, err)
		}
	}
	if _, err := ParseActor("worker,ghost"); err == nil || !strings.Contains(err.Error(), `"ghost"`) {
		t.Errorf("an unknown actor: %v", err)
	}
}

func TestTableAsJSON(t *testing.T) {
	text, err := json.Marshal(lifecycletest.Shop())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name":"shop.order"`, `"by":["worker","timer"]`, `"states":["Packing"]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
}

func TestMustPanicsOnAFaultyTable(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "no-stages") {
			t.Errorf("recovered %v, want the faults", r)
		}
	}()
	Must("empty")
}

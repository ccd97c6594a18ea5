package notation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/lifecycle"
)

const shop = `name: shop.order
states:
  - state: Open
    kind: queue
    doc: A customer's order brings it here; a packer takes it.
    bounded: a packer who cannot begin asks a person
    arrows:
      - {event: begin, to: Packing, by: worker, class: pass, doc: A packer is free.}
  - state: Packing
    kind: work
    doc: A packer collects the goods.
    arrows:
      - {event: finish, to: Sent, by: worker, class: pass, doc: The parcel is on its way.}
      - {event: fail, to: "10", by: [worker, timer], class: fail, sets: failed, doc: Something is missing.}
      - {event: wait, to: Open, by: worker, budget: a week, doc: Something is on order.}
      - {event: recall, to: Open, by: owner, asks: true, doc: The customer thinks again.}
  - {state: Sent, kind: end, outcome: ok, doc: The carrier has it.}
  - state: "10"
    kind: end
    outcome: failed
    restartable: true
    doc: |
      A person: has to "check".
    arrows:
      - {event: retry, reenter: [Packing], by: "operator, owner", when: failed, doc: Tried again.}
      - {event: reopen, to: Open, by: engine, restart: true, budget: tries, doc: Again from the start.}
`

// TestYAMLTable reads the form that the package documentation describes.
func TestYAMLTable(t *testing.T) {
	d, err := ParseYAML("shop.yaml", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	table, err := d.Table()
	if err != nil {
		t.Fatal(err)
	}
	want := lifecycle.Must("shop.order",
		lifecycle.OnQueue("Open", "A customer's order brings it here; a packer takes it.",
			lifecycle.OnPass("begin", "Packing", lifecycle.Worker,
				"A packer is free.")).Bounded("a packer who cannot begin asks a person"),
		lifecycle.OnWork("Packing", "A packer collects the goods.",
			lifecycle.OnPass("finish", "Sent", lifecycle.Worker, "The parcel is on its way."),
			lifecycle.OnFail("fail", "10", lifecycle.Worker|lifecycle.Timer,
				"Something is missing.").Sets(lifecycle.Failed),
			lifecycle.On("wait", "Open", lifecycle.Worker, "Something is on order.").Within("a week"),
			lifecycle.On("recall", "Open", lifecycle.Owner, "The customer thinks again.").Asks()),
		lifecycle.OnEnd("Sent", lifecycle.OK, "The carrier has it."),
		lifecycle.OnEnd("10", lifecycle.Failed, `A person: has to "check".`,
			lifecycle.OnReenter("retry", lifecycle.Operator|lifecycle.Owner, "Tried again.",
				"Packing").When(lifecycle.Failed),
			lifecycle.On("reopen", "Open", lifecycle.Engine,
				"Again from the start.").Restarts().Within("tries")).Again())
	if diff := cmp.Diff(want.Stages(), table.Stages()); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if got := Lint("shop.yaml", []byte(shop)); len(got) != 0 {
		t.Errorf("problems of a sound table: %v", got)
	}
}

// TestLintPositionsOfFaults puts faults into the table and checks the lines of the reports.
func TestLintPositionsOfFaults(t *testing.T) {
	bad := strings.NewReplacer("to: Packing, by: worker", "to: Parking, by: worker", "by: [worker, timer], class: fail",
		"by: [timer], class: fail",
		"doc: The carrier has it.", "doc: ''").Replace(shop)
	want := []string{
		"8:9: Open -begin-> [unlisted-state]", "9:5: Packing [unreachable-state]", "9:5: Packing [no-failure-exit]",
		"17:5: Sent [missing-sentence]", "17:5: Sent [unreachable-state]", "18:5: 10 [unreachable-state]",
	}
	got := positions(Lint("shop.yaml", []byte(bad)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// anyStages makes random stages, valid or not, with texts that YAML could read as other types.
func anyStages(t *rapid.T) []lifecycle.Stage {
	word := rapid.SampledFrom([]string{"Open", "10", "no", "null", "a b", "a: b", "- x", "#c", "é", "x\ny", `"q"`, "~",
		"*a", "1e3", "true", "日本"})
	text := rapid.OneOf(rapid.String(), word)
	n := rapid.IntRange(1, 5).Draw(t, "states")
	stages := make([]lifecycle.Stage, n)
	name := func(i int) lifecycle.State { return lifecycle.State(fmt.Sprint(word.Draw(t, "word"), i)) }
	for i := range stages {
		s := lifecycle.State(fmt.Sprint(word.Draw(t, "state"), i))
		doc := strings.ToValidUTF8(text.Draw(t, "doc"), "")
		var transitions []lifecycle.Transition
		for range rapid.IntRange(0, 4).Draw(t, "arrows") {
			a := lifecycle.Transition{Event: lifecycle.Event(word.Draw(t, "event")),
				By: lifecycle.Actor(rapid.IntRange(0, 31).Draw(t, "by")), Doc: doc,
				Class: rapid.SampledFrom([]lifecycle.Class{lifecycle.Pass, lifecycle.Fail, lifecycle.Move,
					lifecycle.Loop, lifecycle.Reenter}).Draw(t, "class"),
				Set:     rapid.SampledFrom([]lifecycle.Outcome{"", "ok", "timed-out"}).Draw(t, "sets"),
				Need:    rapid.SampledFrom([]lifecycle.Outcome{"", "failed", "cancelled"}).Draw(t, "when"),
				Restart: rapid.Bool().Draw(t, "restart"), Ask: rapid.Bool().Draw(t,
					"ask"), Budget: rapid.SampledFrom([]string{"", "a limit"}).Draw(t, "budget")}
			switch a.Class {
			case lifecycle.Loop:
				a.To = s
			case lifecycle.Reenter:
				a.States = []lifecycle.State{name(0), name(1)}
			default:
				a.To = name(i)
			}
			transitions = append(transitions, a)
		}
		switch rapid.SampledFrom([]string{"queue", "work", "bare", "wait", "end"}).Draw(t, "kind") {
		case "queue":
			stages[i] = lifecycle.OnQueue(s, doc, transitions...).Bounded("because")
		case "work":
			stages[i] = lifecycle.OnWork(s, doc, transitions...).Enduring("because")
		case "bare":
			stages[i] = lifecycle.Stage{State: s, Kind: lifecycle.Work, Doc: doc, Transitions: transitions}
		case "wait":
			stages[i] = lifecycle.OnWait(s, doc, transitions...)
		default:
			stages[i] = lifecycle.OnEnd(s, lifecycle.TimedOut, doc, transitions...).Again()
		}
	}
	return stages
}

// TestWriteYAMLRoundTrips writes stages of every kind and reads them back.
func TestWriteYAMLRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyStages(t)
		text := writeStages("any: name", want)
		d, err := ParseYAML("any.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got := append([]lifecycle.Stage(nil), d.Stages...)
		for i := range got { // a loop names no state in YAML; a table adds it
			for j, a := range got[i].Transitions {
				if a.Class == lifecycle.Loop {
					got[i].Transitions[j].To = got[i].State
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || d.Name != "any: name" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, text)
		}
	})
}

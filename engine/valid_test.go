package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestWorkThatCannotWork checks that a work is refused with all its mistakes.
func TestWorkThatCannotWork(t *testing.T) {
	bad := letters(map[lc.State]engine.Step{"Delivered": takes(0), "Nowhere": takes(0)})
	delete(bad.Steps, "Riding")
	bad.Prefix = ""
	bad.Gates = map[lc.State]engine.Gate{"Held": nil}
	bad.Limits = []job.Limit{{Name: "few", Kind: "test.bag"}}
	_, err := engine.New(mem.New(), []engine.Work{bad, {}, letters(nil), letters(nil)}, engine.Options{})
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, want := range []string{
		"needs a prefix", "a step for Delivered", "a step for Nowhere", "Riding has no step", "a gate for Held",
		"limit few is for kind test.bag",
		"needs a lifecycle", "test.letter is registered twice",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// TestWorkWithAMistake checks that a mistake that disables a limit or leaves jobs waiting is refused, alone. Control: a
// work that uses every field in question without a mistake.
func TestWorkWithAMistake(t *testing.T) {
	limit := job.Limit{Name: "few", Kind: "test.letter", Max: 1, Guard: []lc.State{"Posted"},
		Occupy: []lc.State{"Sorting"}}
	for _, c := range []struct {
		name   string
		change func(w *engine.Work)
		want   string
	}{
		{"control", func(w *engine.Work) {}, ""},
		{"guard", func(w *engine.Work) { w.Limits[0].Guard = []lc.State{"Nowhere"} },
			"test.letter: limit few names Nowhere, which is not a state of the lifecycle"},
		{"occupy", func(w *engine.Work) { w.Limits[0].Occupy = []lc.State{"Nowhere"} },
			"test.letter: limit few names Nowhere, which is not a state of the lifecycle"},
		{"limit", func(w *engine.Work) { w.Limits[0].Max = -1 }, "test.letter: limit few allows -1 jobs"},
		{"policy", func(w *engine.Work) { w.Policies["Nowhere"] = engine.Policy{} },
			"test.letter: there is a policy for Nowhere, which is not a state of the lifecycle"},
		{"timeout", func(w *engine.Work) { w.Policies["Lost"] = engine.Policy{Timeout: 1} },
			"test.letter: there is a timeout for Lost, which is an end: Keep has the time until a timer leaves it"},
		{"requires", func(w *engine.Work) { w.Requires["Nowhere"] = []string{"gpu"} },
			"test.letter: labels are required for Nowhere, which is not a state to work on"},
		{"label", func(w *engine.Work) { w.Requires["Posted"] = []string{"g p u"} },
			`test.letter: the labels required for Posted: the label "g p u" is not NAME or NAME=VALUE of letters, ` +
				"digits, -, _ and ."},
		{"slots", func(w *engine.Work) { w.Slots = -1 }, "test.letter: -1 slots are fewer than none"},
		{"prefix", func(w *engine.Work) { w.Prefix = "let/ter" },
			`test.letter: the prefix "let/ter" is not made of letters, digits and hyphens`},
		{"shared", func(w *engine.Work) { w.Shared = []lc.State{"Lost"} },
			"test.letter: Lost is shared with remote workers and has no step"},
		{"programs", func(w *engine.Work) { w.Outside, w.Programs = true, []lc.State{"Posted"} },
			"test.letter: Posted is no state that programs outside work on"},
		{"keep", func(w *engine.Work) { *w = notes(); w.Keep = time.Hour },
			"test.note: ended jobs are kept for a time, and no timer leaves an end"},
	} {
		w := letters(nil)
		w.Limits, w.Keep, w.Slots = []job.Limit{limit}, time.Hour, 1
		w.Limits[0].Guard = append([]lc.State{}, limit.Guard...)
		w.Policies = map[lc.State]engine.Policy{"Posted": {Timeout: time.Minute}, "Lost": {MaxAttempts: 1}}
		w.Requires = map[lc.State][]string{"Posted": {"gpu"}}
		c.change(&w)
		_, err := engine.New(mem.New(), []engine.Work{w}, engine.Options{})
		if got := strings.TrimSpace(errorText(err)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPrefixOfTwoKinds checks that two kinds cannot have one prefix, in a new engine and in one that exists, and that a
// kind may be registered again with its own.
func TestPrefixOfTwoKinds(t *testing.T) {
	other := notes()
	other.Prefix, other.Slots = "let", 1
	const want = "test.note: the ids of test.letter have the prefix let"
	if _, err := engine.New(mem.New(), []engine.Work{letters(nil), other}, engine.Options{}); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("new: got %v", err)
	}
	e, err := engine.New(mem.New(), []engine.Work{letters(nil)}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Register(t.Context(), other); job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), want) {
		t.Errorf("register: got %v", err)
	}
	other.Prefix = "not"
	for range 2 {
		if err := e.Register(t.Context(), other); err != nil {
			t.Error(err)
		}
	}
}

// TestNameIsNoFormat checks that a lifecycle's name with a percent sign is in the error as it is.
func TestNameIsNoFormat(t *testing.T) {
	life := lc.Must("50%s", lc.OnQueue("Open", "it waits", lc.OnPass("go", "Done", lc.Worker, "it is done"),
		lc.OnFail("fail", "Broken", lc.Worker, "it broke")), lc.OnEnd("Done", lc.OK, "it is done"),
		lc.OnEnd("Broken", lc.Failed, "it broke"))
	_, err := engine.New(mem.New(), []engine.Work{{Life: life, Outside: true}}, engine.Options{})
	if errorText(err) != "50%s: a work needs a prefix for its ids" {
		t.Errorf("got %v", err)
	}
}

package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/store/mem"
)

// TestWaitSentences: the record states who waits for a signal, who for a time, and how long.
func TestWaitSentences(t *testing.T) {
	for _, c := range []struct {
		name, code, want, holder string
		items                    []flow.Item
	}{
		{"a signal", durable.BlockSignal, "a waits for the signal x", "the sender of the signal",
			[]flow.Item{flow.Wait("a", "x", 0)}},
		{"a signal for some time", durable.BlockSignal, "a waits for the signal x until T", "the sender of the signal",
			[]flow.Item{flow.Wait("a", "x", time.Hour)}},
		{"a time", durable.BlockTime, "a waits until T", "a timer", []flow.Item{flow.Sleep("a", time.Hour)}},
		{"one signal for two", durable.BlockSignal, "a, b wait for the signal x", "the sender of the signal",
			[]flow.Item{flow.Wait("a", "x", 0), flow.Wait("b", "x", 0)}},
		{"signals and times", durable.BlockSignal, "a, b wait for the signals x, y; c, d wait, the first until T", "the sender of the signal",
			[]flow.Item{flow.Wait("a", "y", 0), flow.Wait("b", "x", 0), flow.Sleep("c", 2*time.Hour),
				flow.Sleep("d", time.Hour)}},
		{"more than a sentence can list", durable.BlockTime, "a, b, c, d, e and 1 more wait, the first until T", "a timer", []flow.Item{
			flow.Sleep("a", time.Hour), flow.Sleep("b", time.Hour), flow.Sleep("c", time.Hour),
			flow.Sleep("d", time.Hour), flow.Sleep("e", time.Hour), flow.Sleep("f", time.Hour)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, mem.New(), one(func() flow.Item { return flow.Unordered("deploy", c.items...) }),
				engine.Options{})
			id := w.submit(order)
			j := w.waits(id, c.code)
			until := j.Due.UTC().Format(time.RFC3339)
			eq(t, "sentence", strings.ReplaceAll(j.Message, until, "T"), c.want)
			why, err := explain.New(w.Engine).Why(t.Context(), id, time.Time{})
			if err != nil || len(why.Blockers) != 1 || why.Blockers[0].Holder != c.holder ||
				why.Blockers[0].Remedy == "" && len(why.Blockers[0].Remedies) == 0 {
				t.Errorf("why %+v, %v", why.Blockers, err)
			}
		})
	}
}

// TestWhyWithoutFactory: a worker that does not know the flow states who would go on with it, and not that time does.
func TestWhyWithoutFactory(t *testing.T) {
	store := mem.New()
	o := one(func() flow.Item { return flow.Linear("deploy", flow.Wait("a", "x", 0)) })
	first := start(t, store, o, engine.Options{})
	id := first.submit(order)
	first.waits(id, durable.BlockSignal)
	first.stop()
	o.Factories = map[string]durable.Factory{"other": o.Factories["f"]}
	w := start(t, store, o, engine.Options{})
	w.signal(id, "x", 1)
	w.waits(id, durable.BlockFactory)
	why, err := explain.New(w.Engine).Why(t.Context(), id, time.Time{})
	if err != nil || len(why.Blockers) != 1 || why.Blockers[0].Holder != "a worker with that factory" {
		t.Errorf("why %+v, %v", why.Blockers, err)
	}
}

// TestLog: the log of the job reports what its flow did and why it failed, and holds no values.
func TestLog(t *testing.T) {
	logs, err := joblog.Open(t.TempDir(), joblog.Options{Level: slog.LevelInfo})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	o := one(func() flow.Item {
		return flow.Linear("deploy",
			&flow.Task{Name: "login", Execute: func(context.Context, *flow.Call) (any, error) {
				return "hunter2", nil
			}},
			&flow.Task{Name: "boot", Execute: func(context.Context, *flow.Call) (any, error) {
				return nil, errors.New("the kernel panics")
			}})
	})
	stored := make(chan struct{}) // the end is reported after it is stored, to the log first
	o.Listeners = []flow.Listener{func(e flow.Event) {
		if e.Atom == "" && e.New == flow.Reverted {
			close(stored)
		}
	}}
	w := start(t, mem.New(), o, engine.Options{JobLogs: logs})
	id := w.submit(order)
	eq(t, "state", w.end(id).State, flow.Reverted)
	<-stored
	chunk, err := logs.Read(id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range chunk.Lines {
		line, err := json.Marshal(&chunk.Lines[i])
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	for _, want := range []string{"flow RUNNING", "task SUCCESS", `"task":"login"`, "task FAILURE", "the kernel panics",
		"task REVERTED", "flow REVERTED"} {
		contains(t, text.String(), want)
	}
	if strings.Contains(text.String(), "hunter2") {
		t.Errorf("a value is in the log:\n%s", text.String())
	}
}

package durable_test

import (
	"encoding/json"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
)

// TestReusedKey: the same order with a key gives the same flow, however its JSON is written; another one is refused.
func TestReusedKey(t *testing.T) {
	both(t, func(t *testing.T, store job.Store) {
		b := &callLog{}
		w := start(t, store, one(func() flow.Item { return flow.Linear("deploy", b.task("a")) }), engine.Options{})
		o := order
		o.Key, o.Args, o.Inject = "k", json.RawMessage(`{"x": 1, "y": "<é>"}`),
			flow.Values{"v": map[string]any{"b": 1, "a": []int{2}}}
		first := w.submit(o)
		again := o
		again.Args, again.Inject, again.Note = json.RawMessage(`{ "x":1,"y":"<é>" }`),
			flow.Values{"v": json.RawMessage(`{"a":[2],"b":1}`)}, "once more"
		if got := w.submit(again); got != first {
			t.Errorf("the same order gave %s, not %s", got, first)
		}
		for name, change := range map[string]func(*durable.Order){
			"arguments": func(o *durable.Order) { o.Args = json.RawMessage(`{"x": 2}`) },
			"values":    func(o *durable.Order) { o.Inject = flow.Values{"v": 1} },
			"settings":  func(o *durable.Order) { o.Settings.Workers = 1 },
			"name":      func(o *durable.Order) { o.Name = "other" },
		} {
			other := o
			change(&other)
			if _, err := w.flows.Submit(t.Context(), w.Engine, other); job.KindOf(err) != job.Conflict {
				t.Errorf("other %s: %v", name, err)
			}
			other.Key = "another" + name
			if w.submit(other) == first {
				t.Errorf("other %s under another key gave the first flow", name)
			}
		}
		w.end(first)
		if got := w.submit(o); got != first {
			t.Errorf("after its end the same order gave %s", got)
		}
	})
}

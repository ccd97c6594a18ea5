package durable_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// TestDelete: a flow that has ended is deleted with its large values, by a person or when its time is up; one that has
// not is refused. The control is a flow beside it, which keeps its values.
func TestDelete(t *testing.T) {
	for _, byTime := range []bool{false, true} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			o := one(func() flow.Item {
				return flow.Linear("deploy", &flow.Task{Name: "a", Result: flow.One("a"),
					Execute: func(context.Context, *flow.Call) (any, error) {
						return strings.Repeat("x", 100_000), nil
					}}, flow.Wait("w", "go", 0))
			})
			o.Blobs = durable.Dir(dir)
			if byTime {
				o.Keep = 24 * time.Hour
			}
			flows := mustNew(t, o)
			retain := engine.Retention{Records: 24 * time.Hour}
			w := start(t, mem.New(), o, engine.Options{Deliver: flows.Deliver(), Retain: retain, Sweep: time.Minute})
			id, other := w.submit(order), w.submit(order)
			w.waits(id, durable.BlockSignal)
			w.waits(other, durable.BlockSignal)
			if _, err := w.Do(t.Context(), operator.Act{Job: id, Event: flow.Delete, By: 4,
				Actor: "ann"}); job.KindOf(err) != job.Refused {
				t.Errorf("a flow at work: %v", err)
			}
			w.signal(id, "go", 1)
			w.end(id)
			values := func(id job.ID) int {
				files, err := filepath.Glob(filepath.Join(dir, string(id), "*"))
				if err != nil {
					t.Fatal(err)
				}
				return len(files)
			}
			eq(t, "values", []int{values(id), values(other)}, []int{1, 1})
			if byTime {
				time.Sleep(26 * time.Hour)
			} else {
				w.do(id, flow.Delete)
				time.Sleep(time.Hour)
			}
			j := w.verify(id)
			eq(t, "state", j.State, flow.Deleted)
			eq(t, "values", []int{values(id), values(other)}, []int{0, 1})
			if _, err := os.Stat(filepath.Join(dir, string(id))); err == nil {
				t.Error("the directory of its values is left")
			}
			time.Sleep(26 * time.Hour)
			if _, err := w.store.Get(t.Context(), id); job.KindOf(err) != job.NotFound {
				t.Errorf("its record is kept: %v", err)
			}
			w.stop()
		})
	}
}

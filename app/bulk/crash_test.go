package bulk

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/crash"
)

// TestBulkGoesOnAfterEveryCrash simulates a crash before and after every call of the store while a bulk runs; another
// engine continues it. Every job is acted on once and counted once. Of windows in which an act was not yet counted
// there must be some: without the check of the history these would be done or counted wrongly.
func TestBulkGoesOnAfterEveryCrash(t *testing.T) {
	for name, r := range map[string]Request{
		"retry": retry(5),
		"priority": {Kinds: []job.Kind{"test.parcel"},
			States: []lc.State{"Waiting"}, Event: lc.Reprioritize, Priority: ptr(7), Note: "n", Actor: "ann",
			Expect: ptr(5)},
	} {
		t.Run(name, func(t *testing.T) {
			uncounted := 0
			report := crash.Windows(name, func(f *crash.Fuse) (faults []string) {
				synctest.Test(t, func(t *testing.T) { faults = crashOnce(t, f, r, &uncounted) })
				return faults
			})
			t.Log(report, "of these with acts that were not counted yet:", uncounted)
			if report.Inconsistent > 0 || report.Windows < 20 || uncounted == 0 {
				t.Errorf("%v", report.Faults)
			}
		})
	}
}

// fused is a store with a fuse whose hints do not ask the fuse: the store in memory gives them in the midst of a call.
type fused struct {
	*crash.Store
	inner job.Store
}

func (f fused) Watch(ctx context.Context, wake func([]job.Hint)) { f.inner.Watch(ctx, wake) }

// crashOnce runs a bulk until the fuse blows, then goes on without a fuse, and gives what is wrong at the end.
func crashOnce(t *testing.T, f *crash.Fuse, r Request, uncounted *int) (faults []string) {
	broken, waiting := 5, 0
	if r.Event != "retry" {
		broken, waiting = 0, 5
	}
	store, ids := shelf(t, map[string]int{"glue": broken}, 0, waiting)
	first := open(t, fused{crash.NewStore(store, f), store}, Options{Page: 2}, false)
	_, _ = first.Start(t.Context(), r, "") // it may be refused, or succeed without an answer
	time.Sleep(5 * time.Second)
	first.stop()

	page, err := store.List(t.Context(), job.Query{Kinds: []job.Kind{Kind}})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Jobs) == 0 { // the crash came before the bulk was created
		return nil
	}
	id := page.Jobs[0].ID
	second := open(t, store, Options{Page: 2}, false)
	defer second.stop()
	acts := 0
	for _, one := range ids {
		acts += second.acts(one, id)
	}
	var d record
	if data := page.Jobs[0].Data; len(data) > 0 {
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatal(err)
		}
	}
	if acts > d.Done {
		*uncounted++
	}
	j, got := second.end(id)
	if j.State != Completed || got.Done != 5 || seen(&got) != 5 || j.Message != "5 of 5 done" {
		faults = append(faults, fmt.Sprintf("it is %s with %+v", j.State, got))
	}
	for _, one := range ids {
		if n := second.acts(one, id); n != 1 {
			faults = append(faults, fmt.Sprintf("%s was acted on %d times", one, n))
		}
	}
	return append(faults, second.verify()...)
}

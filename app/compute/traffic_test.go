package compute_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/internal/ziptest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestEndsAndBytesAreReported: each end once, however it came about and whatever becomes of the record afterwards;
// parcels and results by their bytes.
func TestEndsAndBytesAreReported(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		ends, bytes := map[string]int{}, map[string]int64{}
		o := quick(t)
		o.Ended = func(service, state, cause string, ran time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			ends[fmt.Sprintf("%s %s %s %s", service, state, cause, ran)]++
		}
		o.Moved = func(way, service string, n int64) {
			mu.Lock()
			defer mu.Unlock()
			bytes[way+" "+service] += n
		}
		f := newFake()
		f.auto, f.slots = false, 2
		w := newHarness(t, o, one(notifier{f}))
		well, bad := w.upload("ada", hello), w.upload("ada", hello)
		w.until(well.ID, compute.Running)
		w.until(bad.ID, compute.Running)
		off := w.upload("ada", hello)
		if _, err := w.app.Cancel(t.Context(), off.ID, compute.Request{By: lifecycle.Owner, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
		off = w.until(off.ID, compute.Killed)
		f.finish(well.ID, &compute.Ending{WallMS: 90_000})
		time.Sleep(3 * time.Second) // its agent does not report how long it ran: the time known here counts
		f.finish(bad.ID, &compute.Ending{Exit: 3, Cause: compute.CauseExit, Sentence: "run.sh exited with 3"})
		w.until(well.ID, compute.Completed)
		w.until(bad.ID, compute.Failed)
		well = w.until(well.ID, compute.Completed)
		note := "it has ended: its record changes, and the end is the same"
		if r, err := w.store.Commit(t.Context(), job.Change{Job: well.ID, Version: well.Version, At: time.Now(),
			Set: job.Fields{Message: &note}}); err != nil || r[0].Err != nil {
			t.Fatal(r, err)
		}
		clean := operator.Act{Job: well.ID, Event: compute.Clean, By: lifecycle.Timer}
		if _, err := w.eng.Do(t.Context(), clean); err != nil {
			// no second end
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := map[string]int{"example Completed  1m30s": 1, "example Failed exit-code 3s": 1,
			"example Killed " + off.Cause + " 0s": 1}
		if diff := cmp.Diff(want, ends); diff != "" {
			t.Error(diff)
		}
		results := int64(len(ziptest.Zip(map[string]string{"stdout": "hello\n", "answer.txt": "42"})))
		if got, want := maps.Clone(bytes), map[string]int64{"to-agent example": int64(2 * len(hello)),
			"from-agent example": 2 * results}; !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

package explain_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// A lease that has expired is reported as what the next sweep moves the job for, not as what does not keep it.
func TestWhyOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letter := letters(nil)
		letter.Outside, letter.Steps = true, map[lc.State]engine.Step{}
		w := start(t, mem.New(), engine.Options{Sweep: time.Hour}, letter)
		defer w.stop()
		began := time.Now()
		j := w.post(engine.Order{})
		claimed, err := w.store.Claim(context.Background(), job.Claim{Worker: "far", N: 1, Lease: time.Minute,
			Now: began, From: []job.KindState{{Kind: j.Kind, State: j.State}}})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		if !blocks(w.why(j.ID), explain.BlockClaim) {
			t.Error("control: the worker has no claim")
		}
		time.Sleep(10 * time.Minute)
		x := w.why(j.ID)
		want := "the lease of worker far has expired at " + began.Add(time.Minute).UTC().Format(time.RFC3339) +
			": the next sweep moves it"
		if x.Next != want || len(x.Blockers) > 0 {
			t.Errorf("got %q and %+v, want %q", x.Next, x.Blockers, want)
		}
		if not := strings.Join(x.Not, "; "); strings.Contains(not, "sweep") {
			t.Errorf("what does not keep it: %s", not)
		}
	})
}

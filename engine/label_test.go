package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// TestSlotsHaveLabels submits jobs that require labels: the slots of an engine work on those whose labels it has. Jobs
// are claimed as they are created, or later by a claim.
func TestSlotsHaveLabels(t *testing.T) {
	for _, labels := range [][]string{nil, {"gpu"}, {"zone=b", "gpu"}} {
		for _, slots := range []int{0, 2} { // the kind has none of its own, then the first claim is in the creation
			synctest.Test(t, func(t *testing.T) {
				work := letters(nil)
				work.Slots = slots
				w := start(t, mem.New(), engine.Options{Labels: labels}, work)
				defer w.stop()
				for _, required := range [][]string{nil, {"gpu"}, {"gpu", "zone=b"}, {"tape"}} {
					id := w.post(engine.Order{Requires: required}).ID
					synctest.Wait()
					want := lc.State("Delivered")
					if len(job.Lacking(required, labels)) > 0 {
						want = "Posted"
					}
					if j := w.get(id); j.State != want || !slices.Equal(j.Requires, required) {
						t.Errorf("with %q a job that requires %q is %s", labels, j.Requires, j.State)
					}
				}
			})
		}
	}
}

// TestSubmitRefusesLabels refuses what is no label.
func TestSubmitRefusesLabels(t *testing.T) {
	e, err := engine.New(mem.New(), []engine.Work{letters(nil)}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "two words", "a,b", "a=", "=b"} {
		_, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter", Requires: []string{"gpu", bad}})
		if job.KindOf(err) != job.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	j, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter", Requires: []string{"zone=b", "gpu", "gpu"}})
	if err != nil || !slices.Equal(j.Requires, []string{"gpu", "zone=b"}) {
		t.Errorf("control: %q, %v", j.Requires, err)
	}
}

// TestSlotsDoNotGoOnWithoutLabels has a state that requires a label: an engine without it does not keep the claim into
// that state, nor claim a new job there. The control is an engine with it.
func TestSlotsDoNotGoOnWithoutLabels(t *testing.T) {
	for _, at := range []lc.State{"Posted", "Sorting"} {
		for _, labels := range [][]string{nil, {"gpu"}} {
			synctest.Test(t, func(t *testing.T) {
				work := letters(nil)
				work.Requires = map[lc.State][]string{at: {"gpu"}}
				w := start(t, mem.New(), engine.Options{Labels: labels}, work)
				defer w.stop()
				id := w.post(engine.Order{}).ID
				synctest.Wait()
				want := lc.State("Delivered")
				if labels == nil {
					want = at
				}
				if j := w.get(id); j.State != want {
					t.Errorf("with %q, %s requires gpu: it is %s", labels, at, j.State)
				}
			})
		}
	}
}

// TestRemoteClaimsHaveLabels claims jobs that require labels by workers elsewhere, and goes straight on into a state
// that requires what the worker is known to have, and no other.
func TestRemoteClaimsHaveLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := remoteLetters()
		work.Requires = map[lc.State][]string{"Sorting": {"gpu"}, "Riding": {"zone=b"}}
		w := outside(t, mem.New(), work)
		id := w.post(engine.Order{Requires: []string{"gpu"}}).ID
		if got := w.acquire("ann", 9); len(got) > 0 {
			t.Fatalf("a worker without labels got %v", got)
		}
		claim := func(labels ...string) []job.Job {
			got, err := w.Remote().Claim(t.Context(), remote.Claim{Worker: "ann", From: everywhere, N: 9,
				Labels: labels})
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		got := claim("gpu", "zone=b")
		if len(got) != 1 || got[0].ID != id {
			t.Fatalf("a worker with labels got %v", got)
		}
		r := w.report("ann", got[0], remote.Report{Again: true})
		if r.Err != nil || r.Job.State != "Sorting" || !r.Job.Claimed() {
			t.Fatalf("into a state that requires what the job requires: %+v, %v", r.Job, r.Err)
		}
		r = w.report("ann", r.Job, remote.Report{Again: true})
		if r.Err != nil || r.Job.State != "Riding" || r.Job.Claimed() {
			t.Fatalf("into a state that requires another label: %+v, %v", r.Job, r.Err)
		}
		if got := claim("gpu"); len(got) > 0 {
			t.Errorf("without the label of the state a worker got %v", got)
		}
		if got := claim("gpu", "zone=b"); len(got) != 1 {
			t.Errorf("control: %v", got)
		}
		w.verify(id)
	})
}

// TestChildrenRequireLabels spawns children of a remote worker that require labels.
func TestChildrenRequireLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := outside(t, mem.New(), remoteLetters())
		mine := w.post(engine.Order{})
		got := w.acquire("ann", 1)
		r := w.report("ann", got[0], remote.Report{Keep: true, Spawn: &remote.Spawn{Expected: 1, From: 1,
			Jobs: []remote.Child{{Kind: "test.letter", Requires: []string{"gpu"}}}}})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		page, err := w.store.List(t.Context(), job.Query{Parent: mine.ID})
		if err != nil || len(page.Jobs) != 1 || !slices.Equal(page.Jobs[0].Requires, []string{"gpu"}) {
			t.Errorf("%+v, %v", page.Jobs, err)
		}
	})
}

package explain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// elsewhere is a remote worker of the tests.
type elsewhere struct {
	name    string
	from    []job.KindState
	labels  []string
	silent  bool
	drained bool
	seen    time.Time
}

// among is what the explainer is given of workers.
func among(all []elsewhere) explain.RemoteWorkers {
	return func(_ context.Context, p job.KindState, labels []string) (t explain.Takes) {
		for _, w := range all {
			lacks := func(l string) bool { return !slices.Contains(w.labels, l) }
			if !slices.Contains(w.from, p) || slices.ContainsFunc(labels, lacks) {
				continue
			}
			t.Last, t.Seen = w.name, w.seen
			if w.silent {
				continue
			}
			t.Live = append(t.Live, w.name)
			if w.drained {
				t.Drained = append(t.Drained, w.name)
			}
		}
		return t
	}
}

// TestNoWorkerExactlyWhenNoneClaims makes random workers, slots and labels, explains every job, lets all live workers
// and the slots claim, and compares.
func TestNoWorkerExactlyWhenNoneClaims(t *testing.T) {
	labels := []string{"gpu", "zone=b"}
	states := []job.KindState{{Kind: "test.letter", State: "Posted"}, {Kind: "test.letter", State: "Sorting"}}
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		some := func(what string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(labels), 0, 2, rapid.ID).Draw(t, what)
		}
		w := letters(nil)
		w.Outside, w.Steps, w.Requires = true, map[lc.State]engine.Step{}, map[lc.State][]string{}
		for _, p := range states {
			if rapid.Bool().Draw(t, "step here") {
				w.Steps[p.State] = func(context.Context, *engine.Run) error { return nil }
				if rapid.Bool().Draw(t, "shared") {
					w.Shared = append(w.Shared, p.State)
				}
			}
			w.Requires[p.State] = some("requires")
		}
		var all []elsewhere
		for i := range rapid.IntRange(0, 3).Draw(t, "workers") {
			one := elsewhere{name: fmt.Sprint("w", i), labels: some("labels"), silent: rapid.Bool().Draw(t, "silent"),
				drained: rapid.Bool().Draw(t, "drained"), seen: time.Now()}
			for _, p := range states {
				_, here := w.Steps[p.State]
				if (!here || slices.Contains(w.Shared, p.State)) && rapid.Bool().Draw(t, "takes") {
					one.from = append(one.from, p)
				}
			}
			all = append(all, one)
		}
		e, err := engine.New(mem.New(), []engine.Work{w}, engine.Options{Labels: some("labels of the slots")})
		if err != nil {
			t.Fatal(err)
		}
		x := explain.New(e)
		x.UseWorkers(among(all))
		none := map[job.ID]bool{}
		for range 3 {
			j, err := e.Submit(ctx, engine.Order{Kind: "test.letter", Requires: some("the job requires")})
			if err != nil {
				t.Fatal(err)
			}
			why, err := x.Why(ctx, j.ID, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			none[j.ID] = blocks(why, explain.BlockNoWorker)
		}
		claimAll(ctx, t, e, all)
		for id, no := range none {
			j, err := e.Store().Get(ctx, id)
			if err != nil || no == j.Claimed() {
				t.Fatalf("no-worker %v, claimed by %q (%v): requires %v and %v, workers %+v", no, j.Worker, err,
					w.Requires, j.Requires, all)
			}
		}
	})
}

// claimAll lets the live workers and the slots of the engine claim all they may.
func claimAll(ctx context.Context, t *rapid.T, e *engine.Engine, all []elsewhere) {
	own := e.Status().Pool("test.letter").Next
	if own.N, own.Lease = 10, time.Minute; len(own.From) > 0 {
		if _, err := e.Store().Claim(ctx, own); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range all {
		if w.silent || w.drained || len(w.from) == 0 {
			continue
		}
		if _, err := e.Remote().Claim(ctx, remote.Claim{Worker: w.name, From: w.from, N: 10,
			Labels: w.labels}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoWorkerSentence has the labels, the last worker and the commands; a drained worker is resumed. The control is a
// live worker: then the job waits for something outside.
func TestNoWorkerSentence(t *testing.T) {
	seen := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	posted := []job.KindState{{Kind: "test.letter", State: "Posted"}}
	gpu := []string{"gpu", "zone=b"}
	for _, c := range []struct {
		worker elsewhere
		code   string
		words  []string
		remedy string
	}{
		{elsewhere{name: "other", from: posted}, explain.BlockNoWorker,
			[]string{"no live worker for test.letter/Posted with labels gpu, zone=b"},
			"work --kinds test.letter/Posted --labels gpu,zone=b"},
		{elsewhere{name: "ann", from: posted, labels: gpu, silent: true, seen: seen}, explain.BlockNoWorker,
			[]string{"the last one was ann, seen 2026-11-27T12:00:00Z"}, "work --kinds"},
		{elsewhere{name: "ann", from: posted, labels: gpu, drained: true, seen: seen}, explain.BlockNoWorker,
			[]string{"the last one was ann"}, "workers resume ann"},
		{elsewhere{name: "ann", from: posted, labels: gpu, seen: seen}, explain.BlockOutside, nil, ""},
	} {
		w := letters(nil)
		w.Outside, w.Steps, w.Requires = true, nil, map[lc.State][]string{"Posted": gpu}
		e, err := engine.New(mem.New(), []engine.Work{w}, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := explain.New(e)
		x.UseWorkers(among([]elsewhere{c.worker}))
		j, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter"})
		if err != nil {
			t.Fatal(err)
		}
		why, err := x.Why(t.Context(), j.ID, time.Time{})
		if err != nil || len(why.Blockers) == 0 || why.Blockers[0].Code != c.code {
			t.Fatalf("got %+v, %v; want %s", why.Blockers, err, c.code)
		}
		b := why.Blockers[0]
		for _, part := range c.words {
			if !strings.Contains(b.Sentence, part) {
				t.Errorf("%q has not %q", b.Sentence, part)
			}
		}
		if c.remedy != "" && !strings.Contains(fmt.Sprint(b.Remedies), c.remedy) {
			t.Errorf("%v has not %q", b.Remedies, c.remedy)
		}
	}
}

// A state whose workers are programs of their own names no command: stagepost work has no step for it.
func TestNoWorkerOfProgram(t *testing.T) {
	w := letters(nil)
	w.Outside, w.Steps, w.Requires = true, nil, map[lc.State][]string{"Posted": {"gpu"}}
	w.Programs = []lc.State{"Posted"}
	e, err := engine.New(mem.New(), []engine.Work{w}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := explain.New(e)
	x.UseWorkers(among(nil))
	j, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter"})
	if err != nil {
		t.Fatal(err)
	}
	why, err := x.Why(t.Context(), j.ID, time.Time{})
	if err != nil || len(why.Blockers) == 0 {
		t.Fatalf("got %+v, %v", why.Blockers, err)
	}
	b := why.Blockers[0]
	if b.Code != explain.BlockNoWorker || strings.Contains(fmt.Sprint(b.Remedies), "stagepost work") ||
		b.Remedy != "start the program that works on test.letter/Posted with labels gpu" {
		t.Errorf("%+v", b)
	}
}

// TestWorkersAreQueriedForTheRequest: the query for remote workers has the context of the caller, and ends with it.
func TestWorkersAreQueriedForTheRequest(t *testing.T) {
	w := letters(nil)
	w.Outside, w.Steps, w.Requires = true, nil, map[lc.State][]string{"Posted": {"gpu", "tape"}}
	e, err := engine.New(mem.New(), []engine.Work{w}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	x, queries := explain.New(e), 0
	x.UseWorkers(func(of context.Context, _ job.KindState, _ []string) explain.Takes {
		cancel()
		if queries++; of.Err() == nil {
			t.Error("the query does not end with the request")
		}
		return explain.Takes{}
	})
	if _, _ = x.Why(ctx, j.ID, time.Time{}); queries == 0 {
		t.Error("no worker was queried")
	}
}

// TestNoWorkerNamesLabels explains a job that requires labels: the sentence names those that no live worker has, and
// the command is that of who can work on the state. The control is a worker that has all.
func TestNoWorkerNamesLabels(t *testing.T) {
	posted := []job.KindState{{Kind: "test.letter", State: "Posted"}}
	gpu := elsewhere{name: "ann", from: posted, labels: []string{"gpu"}}
	tape := elsewhere{name: "bob", from: posted, labels: []string{"tape"}}
	for _, c := range []struct {
		workers  []elsewhere
		here     bool // a step here, and none elsewhere
		sentence string
		command  string
	}{
		{[]elsewhere{gpu}, false, "no live worker for test.letter/Posted with labels gpu, tape; none has tape",
			"stagepost work --kinds test.letter/Posted --labels gpu,tape"},
		{[]elsewhere{gpu, tape}, false, "no live worker for test.letter/Posted with labels gpu, tape",
			"stagepost work --kinds test.letter/Posted --labels gpu,tape"},
		{nil, true, "no live worker for test.letter/Posted with labels gpu, tape; none has tape",
			"stagepost serve --labels gpu,tape"},
		{[]elsewhere{{name: "eve", from: posted, labels: []string{"gpu", "tape", "x"}}}, false, "", ""},
	} {
		w := letters(nil)
		if w.Outside = true; !c.here {
			w.Steps = nil
		}
		e, err := engine.New(mem.New(), []engine.Work{w}, engine.Options{Labels: []string{"gpu"}})
		if err != nil {
			t.Fatal(err)
		}
		x := explain.New(e)
		x.UseWorkers(among(c.workers))
		j, err := e.Submit(t.Context(), engine.Order{Kind: "test.letter", Requires: []string{"tape", "gpu"}})
		if err != nil {
			t.Fatal(err)
		}
		why, err := x.Why(t.Context(), j.ID, time.Time{})
		if err != nil || blocks(why, explain.BlockNoWorker) == (c.sentence == "") {
			t.Fatalf("got %+v, %v", why.Blockers, err)
		}
		if b := why.Blockers[0]; c.sentence != "" &&
			(b.Sentence != c.sentence || b.Remedies[0].Command != c.command) {
			t.Errorf("got %q, %q; want %q, %q", b.Sentence, b.Remedies[0].Command, c.sentence, c.command)
		}
	}
}

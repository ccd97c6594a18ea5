package bulk

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

func TestBulkActsOnAllMatchesAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 7}, 2, 1)
		w := open(t, store, Options{Page: 3}, false)
		defer w.stop()
		j, got := w.run(retry(7))
		if want := (Result{Matches: 7, Done: 7}); j.State != Completed || j.Message != "7 of 7 done" ||
			cmp.Diff(want, got) != "" {
			t.Errorf("got %s %q %+v", j.State, j.Message, got)
		}
		for i, id := range ids {
			p, acts := w.get(id), 0
			if i < 7 {
				acts = 1
			}
			if n := w.acts(id, j.ID); n != acts || (p.State == "Working") != (i < 7) || p.Retries != acts {
				t.Errorf("parcel %d is %s with %d retries after %d acts", i, p.State, p.Retries, n)
			}
		}
		history, err := store.History(t.Context(), ids[3], 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if last := history[len(history)-1]; last.Actor != "ann" || last.By != lc.Operator ||
			last.Note != "glue is back"+mark(j.ID) {
			t.Errorf("got %+v", last)
		}
		own, err := store.History(t.Context(), j.ID, 0, 1)
		if err != nil || own[0].By != lc.Operator || own[0].Actor != "ann" ||
			own[0].Note != "retry 7 jobs: glue is back" {
			t.Errorf("got %+v, %v", own, err)
		}
		if faults := w.verify(); len(faults) > 0 {
			t.Error(faults)
		}
	})
}

// TestBulkIsAudited: the creation of the bulk and each act stand in the audit list, with the address of the sender.
func TestBulkIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 2}, 0, 0)
		w := open(t, store, Options{}, false)
		defer w.stop()
		j, _ := w.run(retry(2))
		list, err := store.Audit(t.Context(), 0, 100)
		if err != nil || len(list) != 3 {
			t.Fatalf("got %+v, %v", list, err)
		}
		for i, want := range []job.Audit{
			{Event: job.Create, Job: j.ID, Kind: Kind, To: Pending, Note: "retry 2 jobs: glue is back"},
			{Event: "retry", Job: ids[0], Kind: "test.parcel", From: "Broken", To: "Working",
				Note: "glue is back" + mark(j.ID), Seen: 4},
			{Event: "retry", Job: ids[1], Kind: "test.parcel", From: "Broken", To: "Working",
				Note: "glue is back" + mark(j.ID), Seen: 4},
		} {
			got := list[i]
			want.Address = sender
			want.Seq, want.At, want.By, want.Actor, want.Prev, want.Hash = got.Seq, got.At, lc.Operator, "ann",
				got.Prev, got.Hash
			if want.Seen != 0 {
				want.Seen = got.Seen
				if got.Seen == 0 {
					t.Errorf("entry %d names no version that was seen", i)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("entry %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

func TestAnotherNumberMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 3}, 0, 0)
		w := open(t, store, Options{}, false)
		defer w.stop()
		j, got := w.run(retry(2))
		if j.State != Failed || j.Cause != CauseCount ||
			j.Message != "3 jobs match and 2 were expected: nothing was done" || got.Done != 0 {
			t.Errorf("got %s %s %q %+v", j.State, j.Cause, j.Message, got)
		}
		for _, id := range ids {
			if p := w.get(id); p.State != "Broken" || p.Retries > 0 {
				t.Errorf("%s is %s", id, p.State)
			}
		}
		if j, _ := w.run(retry(3)); j.State != Completed { // the control
			t.Errorf("got %s", j.State)
		}
	})
}

func TestStartWithoutTheNumberNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := shelf(t, map[string]int{"glue": 3}, 1, 0)
		w := open(t, store, Options{}, false)
		defer w.stop()
		r := retry(0)
		r.Expect = nil
		if _, err := w.Start(t.Context(), r, ""); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "3 jobs match") {
			t.Errorf("got %v", err)
		}
		if page, err := store.List(t.Context(), job.Query{Kinds: []job.Kind{Kind}}); err != nil || len(page.Jobs) > 0 {
			t.Errorf("got %d bulks, %v", len(page.Jobs), err)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 3}, 2, 1)
		w := open(t, store, Options{Page: 2}, false)
		defer w.stop()
		all := Request{Kinds: []job.Kind{"test.parcel"}, Event: "retry", Note: "n", Actor: "ann", Expect: ptr(6)}
		j, got := w.run(all)
		want := Result{Matches: 6, Done: 3, Refused: 3, Refusals: []Refusal{
			{Reason: "a Done job cannot be retried (can: delete)", Jobs: 2,
				Sample: ids[3:5], Lifecycle: true},
			{Reason: "a Waiting job cannot be retried (can: hold)", Jobs: 1,
				Sample: ids[5:], Lifecycle: true},
		}}
		if diff := cmp.Diff(want, got); diff != "" ||
			j.State != Completed || !strings.HasPrefix(j.Message,
			"3 of 6 done, 3 refused; 2: a Done job cannot be retried") {
			t.Errorf("got %s %q (-want +got):\n%s", j.State, j.Message, diff)
		}
		waiting := Request{Kinds: []job.Kind{"test.parcel"}, States: []lc.State{"Done"}, Event: "delete", Note: "n",
			Actor: "ann", Expect: ptr(2)}
		j, got = w.run(waiting)
		if j.State != Failed || j.Cause != CauseRefused || got.Refused != 2 || len(got.Refusals) != 1 ||
			got.Refusals[0].Reason != "... cannot be restored: confirm it" {
			t.Errorf("got %s %s %+v", j.State, j.Cause, got)
		}
		waiting.Confirm = true
		if j, got = w.run(waiting); j.State != Completed || got.Done != 2 {
			t.Errorf("confirmed: got %s %+v", j.State, got)
		}
	})
}

// TestUsefulRefusals: what a rule refused has its reason before what a lifecycle refused, and what is counted together
// comes last.
func TestUsefulRefusals(t *testing.T) {
	r := Result{Matches: 9, Refused: 9, Refusals: []Refusal{{Reason: otherReason, Jobs: 9},
		{Reason: "a Done job cannot be retried (can: delete)", Jobs: 5, Lifecycle: true}, {Reason: "rare", Jobs: 1},
		{Reason: "its payload is gone", Jobs: 3}}}
	if got, want := sentence(&r), "0 of 9 done, 9 refused; 3: its payload is gone; 1: rare; "+
		"5: a Done job cannot be retried (can: delete); and 1 more reason"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	var r Result
	for i := range 300 {
		reason := "always"
		if i%2 > 0 {
			reason = strings.Repeat("x", i)
		}
		refuse(&r, "par_x", job.Errorf(job.Refused, "retry", "par_x", "%s", reason))
	}
	jobs, examples := 0, 0
	for _, one := range r.Refusals {
		jobs += one.Jobs
		examples += len(one.Sample)
	}
	if len(r.Refusals) != maxReasons || jobs != 300 || examples != maxExamples ||
		r.Refusals[maxReasons-1].Reason != otherReason {
		t.Errorf("got %d reasons for %d jobs with %d examples", len(r.Refusals), jobs, examples)
	}
	text := sentence(&Result{Matches: 300, Refused: 300, Refusals: r.Refusals})
	if !strings.HasSuffix(text, "; and 17 more reasons") {
		t.Errorf("got %q", text)
	}
}

// TestJobsThatChangeMeanwhile: a job that still matches is acted on as it is now, one that does not is left alone,
// and one that changes repeatedly is abandoned.
func TestJobsThatChangeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 5}, 0, 0)
		w := open(t, store, Options{}, false)
		defer w.stop()
		touch := func(id job.ID) {
			text := "touched"
			j := w.get(id)
			r, err := store.Commit(t.Context(),
				job.Change{Job: id, Version: j.Version, At: time.Now(), Set: job.Fields{Message: &text}})
			if err != nil || r[0].Err != nil {
				t.Error(err, r)
			}
		}
		w.allow = func(j *job.Job, a *operator.Act) error {
			if a.Event != "retry" {
				return nil
			}
			switch j.ID {
			case ids[0]:
				touch(ids[1])
				if _, err := w.e.Do(t.Context(),
					operator.Act{Job: ids[2], Event: "delete",
						By: lc.Operator, Actor: "ann", Confirm: true}); err != nil {
					t.Error(err)
				}
			case ids[3]:
				touch(ids[3])
			}
			return nil
		}
		j, got := w.run(retry(5))
		if want := (Result{Matches: 5, Done: 3, Changed: 2}); cmp.Diff(want, got) != "" ||
			j.Message != "3 of 5 done, 2 changed meanwhile" {
			t.Errorf("got %q %+v", j.Message, got)
		}
		for i, want := range []lc.State{"Working", "Working", "Gone", "Broken", "Working"} {
			if p := w.get(ids[i]); p.State != want {
				t.Errorf("parcel %d is %s, want %s", i, p.State, want)
			}
		}
	})
}

// TestTouchedAfterTheBeginning: what changed before its page was read counts as changed.
func TestTouchedAfterTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 4}, 0, 0)
		w := open(t, store, Options{Page: 1}, false)
		defer w.stop()
		w.allow = func(j *job.Job, a *operator.Act) error {
			if j.ID == ids[0] && a.Event == "retry" {
				time.Sleep(time.Millisecond)
				_, err := w.e.Do(t.Context(), operator.Act{Job: ids[3], Event: "retry", By: lc.Operator, Actor: "bob"})
				return err
			}
			return nil
		}
		_, got := w.run(retry(4))
		if want := (Result{Matches: 4, Done: 3, Changed: 1}); cmp.Diff(want, got) != "" {
			t.Errorf("got %+v", got)
		}
		if p := w.get(ids[3]); p.Retries != 1 {
			t.Errorf("it was retried %d times", p.Retries)
		}
	})
}

func TestCancelStopsBetweenJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 6}, 0, 0)
		w := open(t, store, Options{Page: 2}, false)
		defer w.stop()
		there, goOn := make(chan struct{}), make(chan struct{})
		w.allow = func(j *job.Job, a *operator.Act) error {
			if j.ID == ids[3] && a.Event == "retry" {
				close(there)
				<-goOn
			}
			return nil
		}
		j, err := w.Start(t.Context(), retry(6), "")
		if err != nil {
			t.Fatal(err)
		}
		<-there
		if p, ok := w.e.Progress(j.ID); !ok || p.Done != 3 || p.Total != 6 || p.Unit != "jobs" {
			t.Errorf("progress %+v", p)
		}
		if _, err := w.e.Do(t.Context(),
			operator.Act{Job: j.ID, Event: Cancel, By: lc.Operator, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		j, _ = w.end(j.ID)
		synctest.Wait()
		done := 0
		for _, id := range ids {
			done += w.acts(id, j.ID)
		}
		got, err := w.Result(t.Context(), j.ID)
		if err != nil || j.State != Cancelled || j.Outcome != lc.Cancelled || got.Done != done || done < 3 || done > 4 {
			t.Errorf("got %s %+v, %d acts, %v", j.State, got, done, err)
		}
		for _, id := range ids[4:] {
			if p := w.get(id); p.State != "Broken" {
				t.Errorf("%s came after the cancellation and is %s", id, p.State)
			}
		}
	})
}

// TestBulkWorksUnderHolds: a hold on what it acts on is no hold on the bulk; the control is a hold on bulks.
func TestBulkWorksUnderHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := shelf(t, map[string]int{"glue": 2}, 0, 2)
		w := open(t, store, Options{}, false)
		defer w.stop()
		for _, s := range []job.Scope{{Group: "maps"}, {Owner: "ann"}, {Kind: "test.parcel"}, {Tag: "queue=ingest"},
			{State: "Broken"}} {
			if _, err := w.e.Operator().Hold(t.Context(), s, "op", "flood", time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if j, got := w.run(retry(2)); j.State != Completed || got.Done != 2 {
			t.Errorf("got %s %+v", j.State, got)
		}
		if _, err := w.e.Operator().Hold(t.Context(), job.Scope{Kind: Kind}, "op", "no bulks today",
			time.Time{}); err != nil {
			t.Fatal(err)
		}
		r := retry(2)
		r.States, r.Event = []lc.State{"Waiting"}, "hold"
		j, err := w.Start(t.Context(), r, "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if j = w.get(j.ID); j.State != Pending {
			t.Errorf("got %s under a hold on bulks", j.State)
		}
	})
}

func TestBulksAndTombstonesNeverMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := shelf(t, map[string]int{"glue": 2}, 3, 0)
		w := open(t, store, Options{}, false)
		defer w.stop()
		w.run(retry(2))
		time.Sleep(time.Second)
		all := Request{Before: time.Now().Add(time.Hour), Event: "delete", Note: "n", Actor: "ann", Expect: ptr(5),
			Confirm: true}
		if _, got := w.run(all); got.Done != 3 || got.Refused != 2 { // those that work cannot be deleted
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Second)
		if p, err := w.Preview(t.Context(), all); err != nil || p.Count != 2 {
			t.Errorf("got %+v, %v", p, err)
		}
	})
}

func TestBulkPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, nil, 1, 2)
		w := open(t, store, Options{}, false)
		defer w.stop()
		r := Request{Group: "maps", Event: lc.Reprioritize, Priority: ptr(3), Note: "exhibition", Actor: "ann",
			Expect: ptr(3)}
		j, got := w.run(r)
		if j.State != Completed || got.Done != 2 || got.Refused != 1 {
			t.Errorf("got %s %+v", j.State, got)
		}
		for _, id := range ids[1:] {
			if p := w.get(id); p.Priority != 3 || w.acts(id, j.ID) != 1 {
				t.Errorf("%s has priority %d", id, p.Priority)
			}
		}
	})
}

// wordless is a store that finds no jobs by words.
type wordless struct{ job.Store }

func (w wordless) Properties() job.Properties {
	p := w.Store.Properties()
	p.Words = false
	return p
}

// TestBulkByWords: a bulk acts on the jobs with its words, of which pages may have none. A store that has no index of
// words refuses it. The control is a bulk that has no words.
func TestBulkByWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := shelf(t, nil, 0, 2)
		w := open(t, store, Options{Page: 2}, false)
		var want []job.ID
		for _, words := range []string{"Maps of Crete", "Maps of Malta", "Plans of Crete", "maps, CRETÉ!"} {
			j, err := w.e.Submit(t.Context(), engine.Order{Kind: "test.parcel", Words: []string{words}})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(words, "Malta") && !strings.Contains(words, "Plans") {
				want = append(want, j.ID)
			}
			time.Sleep(time.Millisecond)
		}
		r := Request{Words: "maps Cre", Event: lc.Reprioritize, Priority: ptr(7), Note: "exhibition", Actor: "ann",
			Expect: ptr(2)}
		if p, err := w.Preview(t.Context(), r); err != nil || p.Count != 2 {
			t.Errorf("%+v, %v", p, err)
		}
		j, got := w.run(r)
		if got.Done != 2 || w.acts(want[0], j.ID) != 1 || w.acts(want[1], j.ID) != 1 {
			t.Errorf("%+v", got)
		}
		w.stop()
		w = open(t, wordless{store}, Options{}, false)
		defer w.stop()
		if _, err := w.Preview(t.Context(), r); job.KindOf(err) != job.Refused ||
			!strings.Contains(err.Error(), "no index of words") {
			t.Errorf("without words: %v", err)
		}
		r.Words, r.Kinds = "", []job.Kind{"test.parcel"}
		if p, err := w.Preview(t.Context(), r); err != nil || p.Count != 6 {
			t.Errorf("control: %+v, %v", p, err)
		}
	})
}

func TestInvalidRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := shelf(t, nil, 0, 0)
		w := open(t, store, Options{}, false)
		defer w.stop()
		for name, c := range map[string]struct {
			change func(*Request)
			want   string
		}{
			"no filter":        {func(r *Request) { r.Kinds, r.States = nil, nil }, "a filter is required"},
			"no event":         {func(r *Request) { r.Event = "" }, "event is missing"},
			"not a person's":   {func(r *Request) { r.Event = "finish" }, "no operator can"},
			"unknown kind":     {func(r *Request) { r.Kinds = []job.Kind{"x"} }, "unknown kind"},
			"bulks":            {func(r *Request) { r.Kinds = []job.Kind{Kind} }, "unknown kind"},
			"unknown state":    {func(r *Request) { r.States = []lc.State{"Brokn"} }, "state"},
			"unknown outcome":  {func(r *Request) { r.Outcomes = []lc.Outcome{"good"} }, "outcome"},
			"empty cause":      {func(r *Request) { r.Causes = []string{""} }, "cause"},
			"no note":          {func(r *Request) { r.Note = "" }, "note"},
			"long note":        {func(r *Request) { r.Note = strings.Repeat("x", 3000) }, "note"},
			"nothing expected": {func(r *Request) { r.Expect = ptr(0) }, "expect"},
			"value elsewhere":  {func(r *Request) { r.Priority = ptr(1) }, "priority"},
			"no value":         {func(r *Request) { r.Event = lc.Reprioritize }, "requires a value"},
			"value too large":  {func(r *Request) { r.Event, r.Priority = lc.Reprioritize, ptr(100) }, "0..99"},
			"long group":       {func(r *Request) { r.Group = strings.Repeat("x", 5000) }, "group"},
			"no word":          {func(r *Request) { r.Words = " -- " }, "no word"},
			"many words":       {func(r *Request) { r.Words = strings.Repeat("maps ", 17) }, "at most 16 words"},
			"long words":       {func(r *Request) { r.Words = strings.Repeat("x", 5000) }, "words"},
			"many causes":      {func(r *Request) { r.Causes = make([]string, 101) }, "more than"},
		} {
			r := retry(1)
			c.change(&r)
			if _, err := w.Start(t.Context(), r, ""); job.KindOf(err) != job.Invalid ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if _, err := w.Start(t.Context(), retry(1), ""); err != nil { // the control
			t.Error(err)
		}
	})
}

func TestPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := shelf(t, map[string]int{"glue": 3}, 2, 1)
		w := open(t, store, Options{}, false)
		defer w.stop()
		w.allow = func(j *job.Job, _ *operator.Act) error {
			if j.ID == ids[1] {
				return job.Errorf(job.Refused, "retry", j.ID, "its sender is away")
			}
			return nil
		}
		got, err := w.Preview(t.Context(), Request{Group: "maps", Event: "retry"})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Sample) != 6 || got.Sample[0].Refused != "" || got.Sample[1].Refused != "its sender is away" ||
			!strings.Contains(got.Sample[3].Refused, "cannot be retried") {
			t.Errorf("got %+v", got.Sample)
		}
		got.Sample = nil
		want := Preview{
			Event: "retry", Count: 6, Bytes: 60, Legal: 3, Refused: 1,
			States: []StateCount{
				{Kind: "test.parcel", State: "Broken", Jobs: 3, Bytes: 30, Legal: 3,
					Can: []lc.Event{"retry", "delete"}},
				{Kind: "test.parcel", State: "Done", Jobs: 2, Bytes: 20, Can: []lc.Event{"delete"}},
				{Kind: "test.parcel", State: "Waiting", Jobs: 1, Bytes: 10, Can: []lc.Event{"hold"}},
			},
			Groups: []Count{{Name: "maps", Jobs: 6, Bytes: 60}},
			Causes: []Count{{Jobs: 3, Bytes: 30}, {Name: "glue", Jobs: 3, Bytes: 30}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		page, err := store.List(t.Context(), job.Query{Kinds: []job.Kind{Kind}})
		if err != nil || len(page.Jobs) > 0 || w.get(ids[0]).Retries > 0 {
			t.Errorf("a preview did something: %d bulks, %v", len(page.Jobs), err)
		}
	})
}

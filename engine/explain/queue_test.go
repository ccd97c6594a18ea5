package explain_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"

	lc "github.com/stagepost/stagepost/lifecycle"
)

// TestQueueThen: the position of a job in its queue at a past moment is the same while the jobs wait and when they have
// ended. What the data does not have is stated.
func TestQueueThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(map[lc.State]engine.Step{"Sorting": takes(time.Minute)}))
		defer w.stop()
		began := time.Now()
		post := func(priority int) job.ID {
			return w.post(engine.Order{Due: began.Add(time.Hour), Priority: new(priority)}).ID
		}
		first, urgent, last := post(50), post(10), post(50)
		time.Sleep(10 * time.Minute)
		post(1) // later than the moment that is asked for
		at := began.Add(5 * time.Minute)
		check := func(when string) {
			t.Helper()
			for id, want := range map[job.ID]string{first: "1 job was before it", last: "2 jobs were before it",
				urgent: "it was the first in the queue"} {
				x, err := w.Why(t.Context(), id, at)
				if err != nil || x.Queue == nil || x.Queue.More || !strings.HasPrefix(x.Queue.Sentence, want) ||
					!strings.Contains(x.Queue.Sentence, "an estimate") {
					t.Errorf("%s, of %s: got %+v, %v, want %q", when, id, x.Queue, err, want)
				}
			}
		}
		check("waiting")
		for _, id := range []job.ID{first, urgent, last} {
			w.end(id)
		}
		check("ended")
		if x, err := w.Why(t.Context(), last, time.Now()); err != nil || x.Queue != nil {
			t.Errorf("in its end: got %+v, %v", x.Queue, err)
		}
	})
}

// TestQueueThenUnknown: a priority that was changed later, a record that was removed, and more jobs than are read.
func TestQueueThenUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, mem.New(), engine.Options{}, letters(nil))
		defer w.stop()
		began := time.Now()
		due := began.Add(time.Hour)
		first, gap := w.post(engine.Order{Due: due}), engine.Order{Due: due}
		gap.Number = first.Number + 3
		moved, last := w.post(engine.Order{Due: due}), w.post(gap)
		at := began.Add(time.Minute)
		time.Sleep(2 * time.Minute)
		if _, err := w.Operator().SetPriority(t.Context(), moved.ID, 0, 7, "ann", "urgent"); err != nil {
			t.Fatal(err)
		}
		of := func(id job.ID) string {
			t.Helper()
			x, err := w.Why(t.Context(), id, at)
			if err != nil || x.Queue == nil {
				t.Fatalf("got %+v, %v", x, err)
			}
			return x.Queue.Sentence
		}
		if got := of(moved.ID); !strings.Contains(got, "is not known: its priority was changed later") {
			t.Errorf("got %q", got)
		}
		if got := of(last.ID); !strings.Contains(got, "at least 2 jobs were before it") {
			t.Errorf("a number is missing: got %q", got)
		}
		for range 2000 {
			w.post(engine.Order{Due: due})
		}
		if got := of(last.ID); !strings.Contains(got, "is not known: 2000 or more jobs") {
			t.Errorf("got %q", got)
		}
	})
}

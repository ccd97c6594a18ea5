package storetest

import (
	"math"
	"time"

	"github.com/stagepost/stagepost/job"
)

var boundsTests = []test{
	{"a job that is not there has no tasks and messages", boundsNoJob},
	{"no results, or fewer, are none", boundsNone},
	{"positions far beyond the last", boundsFar},
}

func boundsNoJob(w *harness) {
	same(w, "tasks", len(w.tasks("tst_nobody")), 0)
	_, err := w.st.History(w.Context(), "tst_nobody", 0, 0)
	w.refused(err, job.NotFound)
	same(w, "messages", len(w.messages("tst_nobody")), 0)
}

func boundsNone(w *harness) {
	j := w.step()
	w.sends(j, "m", w.now())
	for _, n := range []int{0, -1, math.MinInt32} {
		named := did(w, "named", func() ([]job.Job, error) { return w.st.Named(w.Context(), "tst_", "", n) })
		same(w, "jobs by name", len(named), 0)
		same(w, "claimed jobs", len(w.claim("w1", n)), 0)
		same(w, "taken messages", len(w.take(n)), 0)
	}
	same(w, "taken messages", len(w.take(1)), 1)
	same(w, "claimed jobs", len(w.claim("w1", 1)), 1)
	w.sound()
}

func boundsFar(w *harness) {
	j := w.step()
	did(w, "note", func() (bool, error) {
		return true, w.st.Note(w.Context(), job.Audit{At: w.now(), Event: "test", Actor: "alice"})
	})
	const far = math.MaxInt64 / 2
	for _, n := range []int{1, -1} {
		entries := did(w, "audit", func() ([]job.Audit, error) { return w.st.Audit(w.Context(), far, n) })
		if n < 0 != (len(entries) == 1) {
			w.Errorf("audit of %d entries from %d: got %d", n, far, len(entries))
		}
	}
	later := did(w, "history", func() ([]job.Event, error) { return w.st.History(w.Context(), j.ID, far, 0) })
	same(w, "history", len(later), 0)
	found := did(w, "messages", func() ([]job.Message, error) {
		return w.st.Messages(w.Context(), job.MessageQuery{Job: j.ID, Limit: math.MaxInt32})
	})
	same(w, "messages", len(found), 0)
	overdue := func() ([]job.Job, error) {
		return w.st.Overdue(w.Context(), w.clock.Add(100*365*24*time.Hour), nil, math.MaxInt32)
	}
	same(w, "overdue", len(did(w, "overdue", overdue)), 0)
}

package ingest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (w *harness) hold(s job.Scope, until time.Time) {
	w.t.Helper()
	if _, err := w.e.Operator().Hold(w.t.Context(), s, "op", "flood", until); err != nil {
		w.t.Fatal(err)
	}
}

func (w *harness) release(s job.Scope) {
	w.t.Helper()
	if _, err := w.e.Operator().Release(w.t.Context(), s, "op", "the water is gone"); err != nil {
		w.t.Fatal(err)
	}
}

// holder waits until why names a hold as what keeps the job, and no worker has claimed it; it returns the hold's
// sentence.
func (w *harness) holder(id job.ID) string {
	w.t.Helper()
	w.until(id, func(j *job.Job) bool { return !j.Claimed() })
	x, err := explain.New(w.e).Why(w.t.Context(), id, never)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range x.Blockers {
		if b.Code == "hold" {
			return b.Sentence
		}
	}
	w.t.Fatalf("no hold keeps it: %+v", x.Blockers)
	return ""
}

func is(s lifecycle.State) func(*job.Job) bool { return func(j *job.Job) bool { return j.State == s } }

func TestHeldBatchIsNotReleasedIntoAHold(t *testing.T) {
	w := start(t)
	scope := job.Scope{Group: "maps"}
	w.hold(scope, never)
	b := w.submit(Submission{}, "text")
	w.until(b.ID, is(record.Held))
	if err := w.do(b.ID, record.Release); job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "flood") {
		t.Errorf("got %v", err)
	}
	x, err := explain.New(w.e).Why(t.Context(), b.ID, never)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range x.Moves {
		if m.Event == record.Release && !strings.Contains(m.Refused, "flood") {
			t.Errorf("why offers the release without its refusal: %+v", m)
		}
	}
	w.release(scope)
	if err := w.do(b.ID, record.Release); err != nil {
		t.Fatal(err)
	}
	if b = w.end(b.ID); b.State != record.Completed {
		t.Errorf("got %s", b.State)
	}
	w.verify(b.ID)
}

// TestHoldDuringABatch: of a collection's jobs, the one that downloads finishes that and waits in Processing, the
// others go from Pending to Held.
func TestHoldDuringABatch(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a", "b.txt": "b"})
	asked, answer := make(chan struct{}, 8), make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked <- struct{}{}
			<-answer
		}
		http.ServeContent(w, r, "", modified, strings.NewReader("a"))
	}
	s.answer("a.txt", slow)
	s.put("one.checkm", manifest("mrt-ingest-manifest", s.URL+"/a.txt |  |  |  |  | a.txt"))
	w := start(t)
	b := w.submit(Submission{Type: TypeBatchManifest, Filename: "batch.checkm"},
		manifest("mrt-batch-manifest", s.row("one.checkm", "l1", "One")))
	<-asked
	j := w.children(b.ID, 1)[0]
	scope := job.Scope{Group: "maps"}
	w.hold(scope, never)
	close(answer)
	w.until(j.ID, func(j *job.Job) bool { return j.State == record.Processing && !j.Claimed() })
	if got := w.holder(j.ID); got != "group=maps is on hold: flood" {
		t.Errorf("why gives %q", got)
	}
	later := w.submit(Submission{}, "text")
	w.until(later.ID, is(record.Held))
	w.release(scope)
	if b = w.end(b.ID); b.State != record.Completed {
		t.Errorf("the batch ended %s: %s", b.State, b.Message)
	}
}

// TestHoldOnAQueueAndOnSubmissions lets Pending ones wait where they are; they go on by themselves.
func TestHoldOnAQueueAndOnSubmissions(t *testing.T) {
	for name, scope := range map[string]job.Scope{
		"queue": {Tag: QueueTag}, "submissions": {Kind: record.BatchKind}, "everything": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.hold(scope, never)
			b := w.submit(Submission{}, "text")
			if got := w.holder(b.ID); !strings.Contains(got, "flood") {
				t.Errorf("why gives %q", got)
			}
			w.release(scope)
			if b = w.end(b.ID); b.State != record.Completed {
				t.Errorf("got %s", b.State)
			}
		})
	}
}

// TestHoldOnAStoragePlace stops what is to write there before Storing, and lets the rest go on.
func TestHoldOnAStoragePlace(t *testing.T) {
	maps, books := testProfile(), testProfile()
	maps.Storage = []string{"array1"}
	books.ID, books.Collection, books.Storage = "books", "books", []string{"array2"}
	w := start(t, []profile.Profile{maps, books}...)
	scope := job.Scope{Kind: record.JobKind, State: record.Storing, Tag: PlaceTag("array1")}
	w.hold(scope, never)
	waits := w.submit(Submission{}, "a map")
	if b := w.end(w.submit(Submission{Profile: "books"}, "a text").ID); b.State != record.Completed {
		t.Errorf("the other location: got %s", b.State)
	}
	j := w.children(waits.ID, 1)[0]
	w.until(j.ID, func(j *job.Job) bool { return j.State == record.Storing && !j.Claimed() })
	if got := w.holder(j.ID); got != "kind=ingest.job state=Storing place=array1 is on hold: flood" {
		t.Errorf("why gives %q", got)
	}
	w.release(scope)
	if b := w.end(waits.ID); b.State != record.Completed {
		t.Errorf("got %s", b.State)
	}
}

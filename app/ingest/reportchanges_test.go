package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// batchOf makes a batch of single files, of which those that the server lacks fail, and returns its first report.
func (w *harness) batchOf(s *site, names ...string) report.Batch {
	w.t.Helper()
	var rows []string
	for _, name := range names {
		rows = append(rows, s.row(name, "", name))
	}
	return w.ingest(Submission{}, manifest("mrt-single-file-batch-manifest", rows...))
}

func (w *harness) mailsOf(batch job.ID) int {
	w.t.Helper()
	messages, err := job.MessagesOf(w.t.Context(), w.store, batch)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(messages)
}

// TestRetryThatFailsInTheSameWayIsNoNews: it was reported to the depositor already.
func TestRetryThatFailsInTheSameWayIsNoNews(t *testing.T) {
	s := newSite(t, map[string]string{"a": "1"})
	w := start(t)
	r := w.batchOf(s, "a", "b", "c")
	before := w.mailsOf(r.Batch)
	w.retried(r.Jobs[1].Job)
	if again := w.updated(r.Batch); again.State != record.Failed || w.mailsOf(r.Batch) != before ||
		again.Jobs[1].Retries != 1 {
		t.Errorf("got %d mails, had %d: %s", w.mailsOf(r.Batch), before, again.Text())
	}
	s.put("b", "2")
	w.retried(r.Jobs[1].Job)
	live := w.reported(r.Batch) // before the update: what would be reported
	if live.Changes == nil || live.Changes.Since != 0 ||
		!slices.Equal(live.Changes.Succeeded, []job.ID{r.Jobs[1].Job}) {
		t.Errorf("got %+v", live.Changes)
	}
	second := w.updated(r.Batch)
	if w.mailsOf(r.Batch) != before+1 || second.Generation != 2 || second.Changes == nil || second.Changes.Since != 0 ||
		len(second.Changes.Failed) != 1 {
		t.Errorf("got %d mails, %+v", w.mailsOf(r.Batch), second.Changes)
	}
	s.put("c", "3")
	w.retried(r.Jobs[2].Job)
	third := w.updated(r.Batch)
	if third.State != record.Completed || third.Changes.Since != 2 || third.Summary != "Everything is stored." ||
		third.Next != "There is nothing for you to do." {
		t.Errorf("got %s", third.Text())
	}
	if diff := cmp.Diff(third, w.reported(r.Batch)); diff != "" {
		t.Errorf("it is different later: %s", diff)
	}
}

// TestLastReportThatIsGone is named, and everything is reported; so is a report that is not the one which was sent.
func TestLastReportThatIsGone(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"changed": func(path string) error { return os.WriteFile(path, []byte(`{"jobs":[]}`), 0o600) },
		"damaged": func(path string) error { return os.WriteFile(path, []byte(`{"jo`), 0o600) },
		"control": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{"a": "1"})
			w := start(t)
			r := w.batchOf(s, "a", "b")
			w.awaitMails(2)
			if err := spoil(filepath.Join(w.dir, workdir.WorkName, string(r.Batch),
				reportFile(0, "json"))); err != nil {
				t.Fatal(err)
			}
			s.put("b", "2")
			w.retried(r.Jobs[1].Job)
			second := w.updated(r.Batch)
			if second.Changes == nil || second.Changes.Missing != (name != "control") ||
				strings.Contains(second.Text(), "report before this one is gone") != (name != "control") {
				t.Errorf("got %s", second.Text())
			}
			if mails := w.awaitMails(3); len(mails) != 3 {
				t.Errorf("got %d mails", len(mails))
			}
		})
	}
}

// TestDeletionSaysWhatIsLost: the refusal names what will not be reported to the depositor and what cannot be had back;
// confirmed, it is done.
func TestDeletionSaysWhatIsLost(t *testing.T) {
	s := newSite(t, map[string]string{"a": "1"})
	w := start(t)
	r := w.batchOf(s, "a", "b", "c", "d")
	w.awaitMails(2)
	w.settle(r.Batch)
	ask := func(id job.ID, confirm bool) error {
		_, err := w.e.Do(t.Context(),
			operator.Act{Job: id, Event: record.Delete, By: lifecycle.Operator, Actor: "op", Confirm: confirm})
		return err
	}
	refused := func(id job.ID, wants ...string) {
		t.Helper()
		err := ask(id, false)
		if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "confirm to delete it all the same") {
			t.Errorf("got %v", err)
			return
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		}
	}
	refused(r.Batch, "3 failed jobs and their files go; nothing of them can be retried")
	if err := ask(r.Batch, false); strings.Contains(err.Error(), "since the last report") {
		t.Errorf("nothing changed since: %v", err)
	}
	s.put("b", "2")
	w.retried(r.Jobs[1].Job)
	refused(r.Jobs[1].Job, "it succeeded since the last report of its batch "+string(r.Batch)+", which will not be "+
		"reported to the depositor")
	refused(r.Batch, "1 job succeeded since the last report, which will not be reported to the depositor",
		"2 failed jobs")
	if err := ask(r.Jobs[2].Job, false); err != nil {
		t.Errorf("control: its failure was reported: %v", err)
	}
	refused(r.Batch, "1 job was deleted since the last report",
		"1 failed job and its files go; nothing of it can be retried")
	w.updated(r.Batch)
	w.awaitMails(3)
	w.settle(r.Batch)
	refused(r.Batch, "1 failed job and its files go")
	if err := ask(r.Batch, true); err != nil {
		t.Errorf("confirmed: %v", err)
	}
	if gone := w.reported(r.Batch); gone.State != record.Deleted || !strings.Contains(gone.Summary, "withdrawn") {
		t.Errorf("got %s", gone.Text())
	}
	whole := w.one(Submission{}, "text")
	batch, err := w.store.Get(t.Context(), whole.Job)
	if err != nil {
		t.Fatal(err)
	}
	w.awaitMails(5)
	w.settle(batch.Parent)
	if err := ask(batch.Parent, false); err != nil {
		t.Errorf("control: all is stored and reported: %v", err)
	}
}

// settle waits until no mail of a batch waits any more.
func (w *harness) settle(batch job.ID) {
	w.t.Helper()
	m := &crashHarness{t: w.t, store: w.store}
	if !m.settled(w.t.Context(), batch, 1) {
		w.t.Fatal("the mails were not settled")
	}
}

func TestDeletionOfABatchThatWasNeverLookedAt(t *testing.T) {
	w := start(t)
	if _, err := w.e.Operator().Hold(t.Context(), job.Scope{Group: "maps"}, "op", "flood", never); err != nil {
		t.Fatal(err)
	}
	b := w.submit(Submission{}, "text")
	w.until(b.ID, func(j *job.Job) bool { return j.State == record.Held })
	err := w.do(b.ID, record.Delete)
	if job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), "its payload was never read and is deleted with it") {
		t.Errorf("got %v", err)
	}
	if r := w.reported(b.ID); !strings.Contains(r.Summary, "on hold") ||
		!strings.Contains(r.Next, "nothing for you to do") {
		t.Errorf("got %q, %q", r.Summary, r.Next)
	}
}

// TestPlainWordsPromiseNoRefusedRetry: where a retry is refused, depositors are asked for a new submission.
func TestPlainWordsPromiseNoRefusedRetry(t *testing.T) {
	for cause := range needsNew {
		r := report.Batch{BatchReport: api.BatchReport{Jobs: []report.Job{{State: record.Failed,
			Outcome: lifecycle.Failed, Cause: cause}}}}
		r.Explain("")
		if j := r.Jobs[0]; j.Remedy != report.RemedyNew || !strings.Contains(j.Next, "new submission") {
			t.Errorf("%s: got %q", cause, j.Next)
		}
	}
}

// TestObjectWithoutAName is called in reports what its file is called in its batch's directory.
func TestObjectWithoutAName(t *testing.T) {
	r := report.Batch{BatchReport: api.BatchReport{Jobs: []report.Job{{State: record.Completed,
		Outcome: lifecycle.OK}}}}
	if text := r.Text(); !strings.Contains(text, "\n"+string(record.Completed)+" "+workdir.PayloadName+"\n") {
		t.Errorf("got %s", text)
	}
}

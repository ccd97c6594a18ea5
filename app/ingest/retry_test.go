package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func jobID(s string) job.ID { return job.ID(s) }

func TestRetryAfterAPartialDownload(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha", "big": strings.Repeat("0123456789", 100_000)})
	text := s.manifest("a.txt", "big")
	big := s.files["big"]
	s.answer("big", func(w http.ResponseWriter, r *http.Request) { // cuts off after a third, always
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(big)))
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(big[:len(big)/3]))
		}
	})
	w := start(t)
	r := w.ingest(Submission{}, text)
	j := r.Jobs[0]
	if r.State != record.Failed || j.FailedIn != record.Downloading || j.Cause != CauseNetwork {
		t.Fatalf("got %s", r.Text())
	}
	w.nothingStored()
	s.mu.Lock()
	before := s.gets["a.txt"]
	s.mu.Unlock()
	var ranged atomic.Int64
	s.answer("big", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			ranged.Add(1)
		}
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "", modified, strings.NewReader(big))
	})
	if err := w.do(j.Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if got := w.end(j.Job); got.State != record.Completed || got.Retries != 1 {
		t.Fatalf("got %s: %s", got.State, got.Message)
	}
	s.mu.Lock()
	after := s.gets["a.txt"]
	s.mu.Unlock()
	if after != before {
		t.Errorf("a.txt was complete and was fetched again")
	}
	if ranged.Load() == 0 {
		t.Error("big was fetched from its beginning")
	}
	w.valid()
}

func TestRetryAfterTheDepositorMendedTheFile(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "alpha"})
	s.put("o.checkm", s.manifest("a.txt"))
	s.put("a.txt", "alphb")
	w := start(t)
	batch := w.submit(Submission{Notification: "ann@example.org"},
		manifest("mrt-batch-manifest", s.row("o.checkm", "l1", "T")))
	b := w.end(batch.ID)
	j := w.reported(b.ID).Jobs[0]
	if b.State != record.Failed || b.Cause != CauseJobs || j.Cause != CauseBadDigest {
		t.Fatalf("got %s (%s): %+v", b.State, b.Cause, j)
	}
	w.nothingStored()
	s.put("a.txt", "alpha")
	if err := w.do(j.Job, record.Retry); err != nil {
		t.Fatal(err)
	}
	if got := w.end(j.Job); got.State != record.Completed {
		t.Fatalf("got %s: %s", got.State, got.Message)
	}
	if err := w.do(b.ID, record.Update); err != nil {
		t.Fatal(err)
	}
	if b = w.end(b.ID); b.State != record.Completed {
		t.Fatalf("got %s: %s", b.State, b.Message)
	}
	r := w.reported(b.ID)
	if r.Generation != 1 || r.Completed != 1 || r.Status != "COMPLETED" {
		t.Errorf("got %s", r.Text())
	}
	mails := w.awaitMails(3)
	text := strings.Join(mails, "\n=====\n")
	for _, want := range []string{"Submission Queued", "Ingest: FAIL -- Submission Processed",
		"Ingest: OK -- Submission Processed", string(b.ID) + ".report.1@localhost"} {
		if !strings.Contains(text, want) {
			t.Errorf("no mail has %q in %s", want, text)
		}
	}
}

func TestUpdateWithoutNewsSendsNoMail(t *testing.T) {
	w := start(t)
	r := w.ingest(Submission{Type: TypeObjectManifest}, "no manifest")
	w.awaitMails(2)
	for range 2 {
		if err := w.do(r.Batch, record.Update); err != nil {
			t.Fatal(err)
		}
		if b := w.end(r.Batch); b.State != record.Failed {
			t.Errorf("got %s", b.State)
		}
	}
	messages, err := job.MessagesOf(t.Context(), w.store, r.Batch)
	if err != nil || len(messages) != 2 {
		t.Errorf("got %d messages, %v", len(messages), err)
	}
}

func TestRetryThatCannotHelpIsRefused(t *testing.T) {
	w := start(t)
	r := w.ingest(Submission{Type: TypeObjectManifest}, "no manifest")
	err := w.do(r.Jobs[0].Job, record.Retry)
	if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "new submission") {
		t.Errorf("got %v", err)
	}
	r = w.ingest(Submission{DigestType: "md5", DigestValue: md5Hex("other")}, "text")
	if err := w.do(r.Jobs[0].Job, record.Retry); job.KindOf(err) != job.Refused {
		t.Errorf("got %v", err)
	}
}

func TestDeletionNeedsConfirmationBeforeTheReport(t *testing.T) {
	s := newSite(t, map[string]string{"a": "1"})
	block := make(chan struct{})
	s.answer("slow", func(w http.ResponseWriter, r *http.Request) {
		<-block
		w.WriteHeader(http.StatusNotFound)
	})
	w := start(t)
	b := w.submit(Submission{}, manifest("mrt-single-file-batch-manifest", s.row("none", "", ""),
		s.row("slow", "", "")))
	jobs := w.children(b.ID, 2)
	failed := w.end(jobs[0].ID)
	act := operator.Act{Job: failed.ID, Event: record.Delete, By: lifecycle.Operator, Actor: "op"}
	if _, err := w.e.Do(t.Context(), act); job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "confirm") {
		t.Errorf("got %v", err)
	}
	act.Confirm = true
	if _, err := w.e.Do(t.Context(), act); err != nil {
		t.Error(err)
	}
	close(block)
	if r := w.reported(w.end(b.ID).ID); r.Deleted != 1 || r.Failed != 1 {
		t.Errorf("got %s", r.Text())
	}
	if _, err := w.e.Do(t.Context(),
		operator.Act{Job: b.ID, Event: record.Delete, By: lifecycle.Operator, Actor: "op", Confirm: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := w.workDirs(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, j := range w.children(b.ID, 2) {
		if !j.Gone {
			t.Errorf("%s is %s", j.ID, j.State)
		}
	}
}

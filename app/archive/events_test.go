package archive

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/job"
)

// accepting is a network in which each receiver accepts.
type accepting struct{}

func (accepting) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// notified changes options to those with a webhook that gets the events.
func notified(t *testing.T, events ...string) func(*Options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.Transport = accepting{}
		o.Webhooks = func() map[string]*notify.Webhook {
			return map[string]*notify.Webhook{"lms": {URL: "http://lms.example", SecretFile: file, Events: events}}
		}
	}
}

// notices lists the events of a job that are in the outbox: the type, and the task or the state.
func (h *harness) notices(id job.ID) (all []string) {
	h.t.Helper()
	messages, err := job.MessagesOf(h.t.Context(), h.store, id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range messages {
		var p struct {
			Type string
			Body struct{ Data struct{ Task, State string } }
		}
		if m.Topic != notify.Topic {
			continue
		}
		if err := json.Unmarshal(m.Body, &p); err != nil {
			h.t.Fatal(err)
		}
		if p.Body.Data.Task != "" {
			p.Body.Data.State = p.Body.Data.Task
		}
		all = append(all, p.Type+" "+p.Body.Data.State)
	}
	return all
}

var everyEvent = []string{
	notify.JobCreated, notify.JobUpdated, notify.JobCompleted, notify.JobFailed, notify.JobAborted, notify.JobDeleted,
	notify.TaskCreated, notify.TaskUpdated, notify.TaskCompleted, notify.TaskFailed, notify.TaskAborted,
}

// TestEvents: each change of a job and of a task is reported once, by the event of its state.
func TestEvents(t *testing.T) {
	src := newFake(1, 1)
	bubble(t, src, notified(t, everyEvent...), func(h *harness) {
		id := h.submit(Request{}).ID
		h.end(id)
		got := h.notices(id)
		for _, want := range []string{
			"archive_job_created Queued", "archive_job_updated ActivityArchiving", "archive_job_updated Cleanup",
			"archive_job_completed Completed",
		} {
			if n := count(got, want); n != 1 {
				t.Errorf("%d of %s in %v", n, want, got)
			}
		}
		tasks, err := h.store.Tasks(t.Context(), id)
		if err != nil || len(tasks) == 0 {
			t.Fatal(err)
		}
		for _, one := range tasks {
			if n := count(got, "task_created "+one.Name) + count(got, "task_completed "+one.Name); n < 1 || n > 2 {
				t.Errorf("%d of %s in %v", n, one.Name, got)
			}
		}
		src.mu.Lock()
		src.failures["1/item-0"] = &source.Error{Op: "fetch", Err: errors.New("gone")}
		src.mu.Unlock()
		id = h.submit(Request{}).ID
		h.end(id)
		got = h.notices(id)
		if count(got, "archive_job_failed Failure") != 1 || count(got, "archive_job_completed Completed") != 0 ||
			!strings.Contains(strings.Join(got, " "), "task_failed") {
			t.Errorf("failed: %v", got)
		}
	})
}

// TestEventsOfJobsOnly: without a list of events a webhook gets those of jobs.
func TestEventsOfJobsOnly(t *testing.T) {
	bubble(t, newFake(1, 1), notified(t), func(h *harness) {
		id := h.submit(Request{}).ID
		h.end(id)
		got := h.notices(id)
		if len(got) < 3 || strings.Contains(strings.Join(got, " "), "task_") {
			t.Errorf("got %v", got)
		}
	})
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

package notify

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestDeliver: a notification has the key of the message as its id, and a valid signature. One that the receiver does
// not accept is repeated; after 410, and without the webhook, it is not.
func TestDeliver(t *testing.T) {
	status, got := http.StatusNoContent, ""
	key, err := webhook.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, err := webhook.Verify(r.Header, body, time.Now(), key)
		if err = errors.Join(err, webhooktest.Check(r.Header, body)); err != nil {
			t.Error(err)
		}
		var e webhook.Event
		if err := json.Unmarshal(body, &e); err != nil {
			t.Error(err)
		}
		got = strings.Join([]string{id, e.Source, e.Type, e.Subject}, " ")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	hooks := map[string]*Webhook{"lms": {URL: server.URL, SecretFile: file}, "off": {Events: []string{TaskFailed}}}
	n := New(Options{Webhooks: func() map[string]*Webhook { return hooks }, Now: time.Now,
		Installation: "q7h2"})
	all := n.OfJob([]string{JobCompleted}, 12, time.Unix(1, 0), Job{Job: "arc_1", Course: "5"})
	if len(all) != 1 || all[0].Key != "arc_1/12/archive_job_completed/lms" {
		t.Fatalf("messages: %+v", all)
	}
	m := all[0]
	want := m.Key + " stagepost://q7h2/archive io.github.stagepost.archive.archive_job_completed arc_1"
	if err := n.Deliver(t.Context(), m); err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	status = http.StatusServiceUnavailable
	var busy *webhook.Error
	if err := n.Deliver(t.Context(), m); !errors.As(err, &busy) || !cause.Temporary(err) {
		t.Errorf("busy: %v", err)
	}
	status = http.StatusGone
	if err := n.Deliver(t.Context(), m); err == nil || cause.Temporary(err) {
		t.Errorf("gone: %v", err)
	}
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Deliver(t.Context(), m); err == nil || !cause.Temporary(err) {
		t.Errorf("no secret: %v", err)
	}
	delete(hooks, "lms")
	if err := n.Deliver(t.Context(), m); err == nil || !strings.Contains(err.Error(), "any more") {
		t.Errorf("removed: %v", err)
	}
}

// TestEveryEvent: each event that a webhook may select is an event of CloudEvents.
func TestEveryEvent(t *testing.T) {
	hook := &Webhook{Events: events}
	n := New(Options{Webhooks: func() map[string]*Webhook { return map[string]*Webhook{"lms": hook} }})
	jobs, tasks := slices.Clone(events), slices.Clone(events)
	jobs = slices.DeleteFunc(jobs, func(name string) bool { return strings.HasPrefix(name, "task_") })
	tasks = slices.DeleteFunc(tasks, func(name string) bool { return !strings.HasPrefix(name, "task_") })
	all := n.OfJob(jobs, 12, time.Unix(1, 0), Job{Job: "arc_1", Course: "Über <5>"})
	for _, name := range tasks {
		all = append(all, n.OfTask(name, time.Unix(1, 0), Task{Job: "arc_1", Task: "store/near/a.zip"})...)
	}
	if len(all) != len(events) {
		t.Errorf("%d messages of %d events", len(all), len(events))
	}
	for i := range all {
		var p posted
		if err := json.Unmarshal(all[i].Body, &p); err != nil {
			t.Fatal(err)
		}
		h := http.Header{"Content-Type": {webhook.MediaType}, webhook.HeaderID: {all[i].Key}}
		if err := webhooktest.Check(h, p.Body); err != nil {
			t.Errorf("%s: %v", p.Body, err)
		}
	}
}

// TestTaskKeys: the key of a task's event has no full stop, and differs by task, attempt and state.
func TestTaskKeys(t *testing.T) {
	n := New(Options{Webhooks: func() map[string]*Webhook {
		return map[string]*Webhook{"lms": {Events: []string{TaskUpdated}}}
	}})
	seen := map[string]bool{}
	for _, one := range []Task{
		{Task: "store/near/a.zip", Attempts: 1, State: "Running"},
		{Task: "store/far/a.zip", Attempts: 1, State: "Running"},
		{Task: "store/near/a.zip", Attempts: 2, State: "Running"},
		{Task: "store/near/a.zip", Attempts: 1, State: "Awaiting"},
	} {
		one.Job = job.ID("arc_1")
		for range 2 {
			seen[n.OfTask(TaskUpdated, time.Unix(1, 0), one)[0].Key] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("keys: %v", seen)
	}
	for key := range seen {
		if strings.Contains(key, ".") {
			t.Errorf("%s has a full stop", key)
		}
	}
	if all := n.OfTask(TaskFailed, time.Unix(1, 0), Task{}); len(all) != 0 {
		t.Errorf("an event that is not selected: %v", all)
	}
}

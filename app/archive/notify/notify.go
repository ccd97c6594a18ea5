// Package notify reports changes of archive jobs and of their tasks to other systems.
//
//	transition or task -> message in the outbox of its commit -> signed request (Standard Webhooks 1.0)
//
// The body is an event of CloudEvents 1.0 whose data is a [Job] or a [Task].
//
// A notification is repeated until the receiver accepts it. All attempts have the same id and body. Their order is not
// promised.
package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Topic is that of the messages in the outbox.
const Topic = "archive.webhook"

// The events. A job that leaves its first state is created; a job or task that is cancelled is aborted.
const (
	JobCreated    = "archive_job_created"
	JobUpdated    = "archive_job_updated" // another state that is not one of the following
	JobCompleted  = "archive_job_completed"
	JobFailed     = "archive_job_failed" // its deadline passed, too
	JobAborted    = "archive_job_aborted"
	JobDeleted    = "archive_job_deleted"
	TaskCreated   = "task_created"
	TaskUpdated   = "task_updated"
	TaskCompleted = "task_completed"
	TaskFailed    = "task_failed"
	TaskAborted   = "task_aborted"
)

var events = []string{
	JobCreated, JobUpdated, JobCompleted, JobFailed, JobAborted, JobDeleted,
	TaskCreated, TaskUpdated, TaskCompleted, TaskFailed, TaskAborted,
}

// Webhook is a receiver of notifications. It is part of the configuration.
type Webhook struct {
	URL        string   `json:"url" need:"true" doc:"Address to which notifications are posted, http or https."`
	SecretFile string   `json:"secret_file" need:"true" doc:"File with the secrets that sign, one on a line: whsec_ and the base64 of 24 to 64 bytes. To exchange one, list both until the receiver has the new one. Read for each notification."`
	Events     []string `json:"events,omitempty" doc:"Events that are sent: archive_job_created, archive_job_updated, archive_job_completed, archive_job_failed, archive_job_aborted, archive_job_deleted, task_created, task_updated, task_completed, task_failed, task_aborted. Defaults to those of jobs."`
}

// Selects reports whether the receiver gets an event.
func (w *Webhook) Selects(event string) bool {
	if len(w.Events) == 0 {
		return strings.HasPrefix(event, "archive_job_")
	}
	return slices.Contains(w.Events, event)
}

// CheckURL gives what is wrong with the address.
func (w *Webhook) CheckURL() error {
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("it is no address such as https://example.org/events") // without it: it may have a secret
	}
	return nil
}

// CheckEvent gives what is wrong with an event.
func CheckEvent(event string) error {
	if slices.Contains(events, event) {
		return nil
	}
	return fmt.Errorf("there is no event %.100q (known: %s)", event, strings.Join(events, ", "))
}

// Options of [New]. Only Now is required.
type Options struct {
	Webhooks  func() map[string]*Webhook // by name, as the configuration has them now; nil: there are none
	Transport http.RoundTripper          // defaults to one that checks no addresses: only the configuration names them
	Now       func() time.Time           // for signatures: by the clock of the machine
	// id of the installation, for the source of the events. Defaults to none
	Installation string
}

// Notifier makes and delivers notifications.
type Notifier struct {
	o      Options
	sender *webhook.Sender
	origin webhook.Origin
}

// New makes a notifier.
func New(o Options) *Notifier {
	if o.Webhooks == nil {
		o.Webhooks = func() map[string]*Webhook { return nil }
	}
	return &Notifier{
		o: o, sender: webhook.NewSender(webhook.Options{Transport: o.Transport, Timeout: timeout}),
		origin: webhook.Origin{Installation: o.Installation, Application: "archive"},
	}
}

// timeout bounds an attempt.
const timeout = 10 * time.Second

// Job is the data of an event of a job. It names no person: the receiver reads more through the API.
type Job struct {
	Job     job.ID            `json:"job"`
	Source  string            `json:"source"`
	Course  string            `json:"course"`
	Before  lifecycle.State   `json:"before"` // the state before
	State   lifecycle.State   `json:"state"`
	Outcome lifecycle.Outcome `json:"outcome,omitempty"`
	Event   lifecycle.Event   `json:"event"` // of the lifecycle
	Cause   string            `json:"cause,omitempty"`
	Message string            `json:"message,omitempty"`
}

// Task is the data of an event of a task.
type Task struct {
	Job      job.ID          `json:"job"`
	Task     string          `json:"task"`
	State    lifecycle.State `json:"state"`
	Attempts int             `json:"attempts"`
	Message  string          `json:"message,omitempty"`
}

// posted is a message in the outbox. Address and secrets stay in the configuration.
type posted struct {
	Hook string          `json:"hook"`
	Type string          `json:"type"` // as the configuration names it
	Body json.RawMessage `json:"body"`
}

// OfJob gives the messages of events of a job. Their keys follow from the number of the history entry that the
// transition makes: a transition that is tried again after a crash is reported once.
func (n *Notifier) OfJob(types []string, number int64, at time.Time, data Job) (all []job.Message) {
	for _, typ := range types {
		all = append(all, n.messages(typ, data.Job, fmt.Sprint(number), at, data)...)
	}
	return all
}

// OfTask gives the messages of an event of a task. Their keys follow from the name, the attempt and the state.
func (n *Notifier) OfTask(typ string, at time.Time, data Task) []job.Message {
	name := sha256.Sum256([]byte(data.Task)) // names have full stops, which part what is signed
	part := fmt.Sprintf("task-%s/%d/%s", hex.EncodeToString(name[:8]), data.Attempts, data.State)
	return n.messages(typ, data.Job, part, at, data)
}

func (n *Notifier) messages(typ string, id job.ID, part string, at time.Time, data any) (all []job.Message) {
	hooks := n.o.Webhooks()
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		if !hooks[name].Selects(typ) {
			continue
		}
		key := fmt.Sprintf("%s/%s/%s/%s", id, part, typ, name)
		all = append(all, job.Message{
			Key: key, Job: id, Topic: Topic, Created: at, Due: at,
			Body: encode(posted{name, typ, n.event(key, typ, id, at, data)}),
		})
	}
	return all
}

// event gives the body of a notification. Its data always has a form as JSON.
func (n *Notifier) event(id, typ string, about job.ID, at time.Time, data any) []byte {
	body, err := n.origin.Event(id, typ, string(about), at, data)
	if err != nil {
		panic(err)
	}
	return body
}

// encode gives the JSON of a value that always has one.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// Deliver sends a notification once. The key of the message is its id. A webhook that is not in the configuration any
// more, and one that answers 410, gets no further attempt.
func (n *Notifier) Deliver(ctx context.Context, m job.Message) error {
	var p posted
	if err := json.Unmarshal(m.Body, &p); err != nil {
		return engine.Fail("notification", err)
	}
	w := n.o.Webhooks()[p.Hook]
	if w == nil {
		return engine.Fail("notification", fmt.Errorf("there is no webhook %.100q any more", p.Hook))
	}
	pause := webhook.Pause(m.Attempts)
	keys, err := Secrets(w.SecretFile)
	if err != nil {
		return engine.RetryAfter(pause, fmt.Errorf("webhook %s: %w", p.Hook, err))
	}
	err = n.sender.Send(ctx, w.URL, m.Key, n.o.Now(), p.Body, keys...)
	var e *webhook.Error
	switch {
	case errors.As(err, &e) && e.Gone():
		return engine.Fail("notification", fmt.Errorf("%w: remove the webhook %s", err, p.Hook))
	case errors.As(err, &e):
		return engine.RetryAfter(max(pause, e.RetryAfter), err)
	}
	return err
}

// Secrets reads the secrets of a file, one on each line.
func Secrets(file string) (all []webhook.Secret, err error) {
	text, err := secretfile.ReadMounted(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		one, err := webhook.ParseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no secret", file)
	}
	return all, nil
}

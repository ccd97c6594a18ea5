package compute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// callbackTopic is the outbox's topic for callbacks.
const callbackTopic = "compute-callback"

// Callbacks defines where the ends of a service's jobs may be sent, for orders that ask for it ([Order.Callback]). The
// operator names the hosts: an order alone leads no caller into the network of the server.
type Callbacks struct {
	Hosts []string // example.org for its ports 80 and 443, example.org:8443 for that one
	// special networks (private, loopback) in which these hosts may lie. Defaults to none
	Networks []netip.Prefix
	// that sign, at least one. They are asked for at each try: so they can be exchanged
	Secrets func() ([]webhook.Secret, error)
}

// Check gives the mistakes in it.
func (c *Callbacks) Check() error {
	if c == nil {
		return nil
	}
	var wrong []error
	if len(c.Hosts) == 0 {
		wrong = append(wrong, errors.New("callbacks need hosts: to which they may go"))
	}
	if c.Secrets == nil {
		wrong = append(wrong, errors.New("callbacks need a secret that signs them"))
	}
	for _, host := range c.Hosts {
		u, err := url.Parse("http://" + host)
		if err == nil && (u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Hostname() == "") {
			err = errors.New("it is more than that")
		}
		if err == nil {
			err = caller(nil, fetch.Policy{}).Check(u.String())
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("callbacks: %q is no host such as example.org or example.org:8443: %w",
				host, err))
		}
	}
	return errors.Join(wrong...)
}

// caller returns the client for the hosts, through the guard that checks every address at the moment of the dial. The
// caller closes it.
func caller(c *Callbacks, policy fetch.Policy) *fetch.Client {
	if c != nil {
		policy.Allow = append(slices.Clone(c.Networks), policy.Allow...)
	}
	return fetch.New(policy)
}

// mostCallback is how long the URL of a callback may be, in bytes.
const mostCallback = 2048

// CheckCallback reports why the end of a job of the service must not be sent to a URL, or nothing. The text quotes no
// more of the URL than its host.
func (s *Service) CheckCallback(target string) error {
	switch {
	case target == "":
		return nil
	case s.Callbacks == nil:
		return fmt.Errorf("callback: the service %s sends none; an operator can allow it hosts to which they go "+
			"(callbacks in the services file)", s.Name)
	case len(target) > mostCallback:
		return fmt.Errorf("callback: a URL of %d bytes is too long: %d is the most", len(target), mostCallback)
	}
	u, err := url.Parse(target)
	if err != nil {
		return errors.New("callback: this is no URL")
	}
	if err := caller(nil, fetch.Policy{}).Check(target); err != nil {
		return fmt.Errorf("callback: %w", errors.Unwrap(err)) // without the URL, whose path may be a secret
	}
	if u.User != nil || u.Fragment != "" {
		return errors.New("callback: the URL must hold no user, no password and no fragment")
	}
	if !slices.ContainsFunc(s.Callbacks.Hosts, func(host string) bool { return leads(u, host) }) {
		return fmt.Errorf("callback: the service %s sends them to %s only, not to %s", s.Name,
			strings.Join(s.Callbacks.Hosts, ", "), u.Host)
	}
	return nil
}

// leads reports whether a URL leads to a host that was named with or without a port.
func leads(u *url.URL, named string) bool {
	host, err := url.Parse("http://" + named)
	if err != nil || nameOf(host.Hostname()) != nameOf(u.Hostname()) {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if host.Port() == "" {
		return port == "80" || port == "443"
	}
	return port == host.Port()
}

func nameOf(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// openCallers makes the clients of the services that have callbacks, and checks whether their secrets can be had.
func (a *App) openCallers() error {
	var wrong []error
	for name, s := range a.services {
		if s.Callbacks == nil {
			continue
		}
		if _, err := s.Callbacks.Secrets(); err != nil {
			wrong = append(wrong, fmt.Errorf("service %q: callbacks: %w", name, err))
		}
		a.callers[name] = caller(s.Callbacks, a.options.Fetch)
	}
	return errors.Join(wrong...)
}

// News is the data of the event of a callback: what it reports of a job that has ended. The event is completed, failed,
// invalid or killed.
type News struct {
	ID       job.ID            `json:"id"`
	Number   int64             `json:"number"`
	Service  string            `json:"service"`
	Owner    string            `json:"owner"`
	Name     string            `json:"name,omitempty"`
	State    string            `json:"state"`
	Cause    string            `json:"cause,omitempty"`
	Message  string            `json:"message,omitempty"`
	ExitCode *int              `json:"exit_code,omitempty"` // missing: run.sh did not exit by itself, or did not run
	Signal   string            `json:"signal,omitempty"`
	Created  time.Time         `json:"created_at"`
	Started  time.Time         `json:"started_at,omitzero"`
	Finished time.Time         `json:"finished_at,omitzero"` // run.sh
	Ended    time.Time         `json:"ended_at"`             // the job: its results are here
	Labels   map[string]string `json:"labels,omitempty"`
}

// callbackKey names the callback of a job: the id of its event and the key of its message.
func callbackKey(id job.ID) string { return string(id) + "/callback" }

// news makes the body of the callback of a job that has ended.
func (a *App) news(j *job.Job, spec *Spec) ([]byte, error) {
	n := News{
		ID: j.ID, Number: j.Number, Service: spec.Service, Owner: j.Owner, Name: spec.Name, State: string(j.State),
		Cause: j.Cause, Message: j.Message, Labels: spec.Labels,
		Created: j.Created.UTC(), Ended: j.Entered.UTC(),
	}
	d, err := DataOf(j)
	if err != nil {
		return nil, err
	}
	started, finished := d.Times()
	if !started.IsZero() {
		n.Started = started.UTC()
	}
	if !finished.IsZero() {
		n.Finished = finished.UTC()
	}
	if d.Notice != nil && d.Notice.Ending != nil {
		e := d.Notice.Ending
		if n.Signal = e.Signal; e.Exit >= 0 {
			n.ExitCode = &e.Exit
		}
	}
	from := webhook.Origin{Installation: a.options.Installation, Application: "compute"}
	return from.Event(callbackKey(j.ID), strings.ToLower(string(j.State)), string(j.ID), j.Entered, n)
}

// called is a callback in the outbox. The address stays in the job's spec, and the secrets in their file: what waits is
// signed with the secrets of the time when it is tried.
type called struct {
	Host string          `json:"host"` // for lists
	Body json.RawMessage `json:"body"` // what is sent, byte for byte at every try
}

// announceAll gives the messages that a transition brings with it.
func (a *App) announceAll(j *job.Job, c *job.Change) []job.Message {
	return append(a.announce(j, c), a.announceEnd(j, c)...)
}

// announceEnd gives the callback of a job that comes to its end, for the outbox of the commit: no receiver is notified
// of an end that did not happen, and each end is announced.
func (a *App) announceEnd(j *job.Job, c *job.Change) []job.Message {
	if !c.Ended || j.Ended {
		return nil
	}
	spec, err := SpecOf(j)
	if err != nil || spec.Callback == "" {
		return nil
	}
	after, _, err := job.Apply(*j, c)
	if err != nil {
		return nil // the commit will be refused for the same reason
	}
	body, err := a.news(&after, &spec)
	if err != nil {
		a.log.Error("compute: a callback cannot be written", "job", j.ID, "error", err)
		return nil
	}
	message := called{Body: body}
	if u, err := url.Parse(spec.Callback); err == nil {
		message.Host = u.Host
	}
	text, err := json.Marshal(message)
	if err != nil {
		a.log.Error("compute: a callback cannot be written", "job", j.ID, "error", err)
		return nil
	}
	return []job.Message{{Key: callbackKey(j.ID), Job: j.ID, Topic: callbackTopic, Body: text,
		Created: c.At, Due: c.At}}
}

// Causes for which a callback is abandoned at once.
const (
	causeCallbackGone    = "callback-gone"    // the receiver answered 410: it accepts no more
	causeCallbackRefused = "callback-refused" // the service may not send there any more
)

// callbackTimeout bounds a try.
const callbackTimeout = 10 * time.Second

// deliverCallback sends a job's end to a receiver once. Every try has the same id and the same body.
func (a *App) deliverCallback(ctx context.Context, m job.Message) error {
	var message called
	if err := json.Unmarshal(m.Body, &message); err != nil {
		return engine.Fail("unreadable", err)
	}
	j, err := a.engine.Store().Get(ctx, m.Job)
	if err != nil {
		return err
	}
	spec, err := SpecOf(&j)
	if err != nil {
		return engine.Fail("unreadable", err)
	}
	pause := webhook.Pause(m.Attempts)
	service := a.services[spec.Service]
	if service == nil {
		return engine.RetryAfter(pause, fmt.Errorf("there is no service %s any more", spec.Service))
	}
	if err := service.CheckCallback(spec.Callback); err != nil {
		return engine.Fail(causeCallbackRefused, err)
	}
	secrets, err := service.Callbacks.Secrets()
	if err != nil {
		return engine.RetryAfter(pause, err)
	}
	sender := webhook.NewSender(webhook.Options{Transport: a.callers[spec.Service].Transport(),
		Timeout: callbackTimeout})
	err = sender.Send(ctx, spec.Callback, m.Key, a.engine.Clock().Wall(), message.Body, secrets...)
	var e *webhook.Error
	switch {
	case errors.As(err, &e) && e.Gone():
		return engine.Fail(causeCallbackGone, fmt.Errorf("%w: the receiver accepts no more", err))
	case errors.As(err, &e):
		return engine.RetryAfter(max(pause, e.RetryAfter), err)
	}
	return err
}

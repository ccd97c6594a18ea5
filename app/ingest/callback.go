package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// callbackTopic is the outbox's topic for the callbacks of profiles.
const callbackTopic = "callback"

// callbackTimeout bounds one delivery. It is below what the engine allows for one.
const callbackTimeout = 30 * time.Second

// News is the data of the event of a callback in the form of Stagepost. The event is callback.completed,
// callback.failed or callback.deleted.
type News struct {
	Job       job.ID   `json:"job"`
	Batch     job.ID   `json:"batch"`
	State     string   `json:"state"` // Completed, Failed, or Deleted for a job that was withdrawn while it was held
	Cause     string   `json:"cause,omitempty"`
	Message   string   `json:"message,omitempty"`
	ARK       string   `json:"ark"`
	Version   int      `json:"version"` // 0: none was stored
	LocalIDs  []string `json:"local_ids"`
	Title     string   `json:"title"`
	Files     int      `json:"files"`
	Bytes     int64    `json:"bytes"`
	Submitter string   `json:"submitter"`
	Profile   string   `json:"profile"`
}

// merrittNews is the body of a callback in Merritt's form.
type merrittNews struct {
	State merrittState `json:"job:jobState"`
}

// merrittState has the names of Merritt's job state. What is not known is left out.
type merrittState struct {
	Space     string `json:"xmlns:job"`
	Status    string `json:"job:jobStatus"` // COMPLETED or FAILED
	Message   string `json:"job:jobStatusMessage,omitempty"`
	Job       job.ID `json:"job:jobID"`
	Batch     job.ID `json:"job:batchID"`
	ARK       string `json:"job:primaryID,omitempty"`
	LocalID   string `json:"job:localID,omitempty"` // several are joined by semicolons
	Version   int    `json:"job:versionID,omitempty"`
	Package   string `json:"job:packageName,omitempty"`
	Title     string `json:"job:objectTitle,omitempty"`
	Creator   string `json:"job:objectCreator,omitempty"`
	Date      string `json:"job:objectDate,omitempty"`
	Submitter string `json:"job:userAgent,omitempty"`
	Submitted string `json:"job:submissionDate"` // RFC 3339
	Completed string `json:"job:completionDate"` // of the end, whatever it is
	Resolved  string `json:"job:persistentURL,omitempty"`
}

// end is the end of a job that a callback reports.
type end struct {
	job  *job.Job // the record after it
	spec *record.JobSpec
	data *record.JobData
	at   time.Time
}

// object gives the identifiers and the description of the job's object: as they were found out, and before that as
// they were submitted.
func (e *end) object() (record.Identity, int) {
	if who, version := e.data.Object(); who != nil {
		return *who, version
	}
	s := e.spec
	return record.Identity{ARK: s.PrimaryID, LocalIDs: s.LocalIDs, Title: s.Title, Creator: s.Creator, Date: s.Date}, 0
}

func (e *end) news() News {
	who, version := e.object()
	return News{
		Job: e.job.ID, Batch: e.job.Parent,
		State: string(e.job.State), Cause: e.job.Cause, Message: e.job.Message,
		ARK: who.ARK, Version: version, LocalIDs: who.LocalIDs, Title: who.Title,
		Files: e.data.Files, Bytes: e.data.Size, Submitter: e.spec.Submitter, Profile: e.spec.Profile,
	}
}

// merrittSpace is the namespace of Merritt's job state.
const merrittSpace = "http://uc3.cdlib.org/ontology/mrt/ingest/job"

func (e *end) merritt(resolver string) merrittNews {
	who, version := e.object()
	if resolver != "" && who.ARK != "" {
		resolver += who.ARK
	} else {
		resolver = ""
	}
	status := "FAILED"
	if e.job.State == record.Completed {
		status = "COMPLETED"
	}
	return merrittNews{merrittState{
		Space: merrittSpace, Resolved: resolver,
		Status: status, Message: e.job.Message, Job: e.job.ID, Batch: e.job.Parent,
		ARK: who.ARK, LocalID: strings.Join(who.LocalIDs, ";"), Version: version, Package: e.spec.Filename,
		Title: who.Title, Creator: who.Creator, Date: who.Date, Submitter: e.spec.Submitter,
		Submitted: e.job.Created.UTC().Format(time.RFC3339), Completed: e.at.UTC().Format(time.RFC3339),
	}}
}

// called is a callback in the outbox. The address and the secret stay in the profile: a delivery takes them as they
// are then.
type called struct {
	Profile string          `json:"profile"`
	Host    string          `json:"host"` // when it was written, for lists
	Form    profile.Form    `json:"form"` // of the body, and so of the address
	Body    json.RawMessage `json:"body"` // what is sent, byte for byte at every attempt
}

func (a *App) newCalled(p *profile.Profile, e *end) (called, error) {
	var body []byte
	var err error
	if p.Callback.Form == profile.FormMerritt {
		body, err = json.Marshal(e.merritt(p.Callback.Resolver))
	} else {
		name := "callback." + strings.ToLower(string(e.job.State))
		body, err = a.origin().Event(callbackKey(e.job, e.job.State), name, string(e.job.ID), e.at, e.news())
	}
	return called{Profile: p.ID, Host: hostOf(p.Callback.URL), Form: p.Callback.Form, Body: body}, err
}

// callbackKey names the callback of the end that a job comes to after so many retries: one message, whatever crashes.
func callbackKey(j *job.Job, state lifecycle.State) string {
	return fmt.Sprintf("%s/callback/%d/%s", j.ID, j.Retries, strings.ToLower(string(state)))
}

// announceEnd gives the callback of a job that comes to its end, for the outbox of the commit; nil if there is none.
// The failure of a required callback is not reported by another one: its message is abandoned and can be replayed.
func (a *App) announceEnd(p *profile.Profile, before *job.Job, c *job.Change, after *job.Job) (*job.Message, error) {
	givenUp := before.State == record.Notify && after.Cause == CauseCallback
	if p.Callback == nil || after.Kind != record.JobKind || !after.Ended || before.Ended || givenUp {
		return nil, nil
	}
	e := end{job: after, spec: &record.JobSpec{}, data: &record.JobData{}, at: c.At}
	if err := json.Unmarshal(after.Spec, e.spec); err != nil {
		return nil, err
	}
	if len(after.Data) > 0 {
		if err := json.Unmarshal(after.Data, e.data); err != nil {
			return nil, err
		}
	}
	call, err := a.newCalled(p, &e)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(call)
	return &job.Message{
		Key: callbackKey(after, after.State), Job: after.ID, Topic: callbackTopic, Body: text, Created: c.At, Due: c.At,
	}, err
}

// deliverCallback calls the receiver once. Every attempt has the same id and the same body.
func (a *App) deliverCallback(ctx context.Context, m job.Message) error {
	var call called
	if err := json.Unmarshal(m.Body, &call); err != nil {
		return engine.Fail(cause.Error, fmt.Errorf("callback %s: %w", m.Key, err))
	}
	pause := webhook.Pause(m.Attempts)
	p, ok := a.options.Profiles.Get(call.Profile)
	if !ok {
		return engine.RetryAfter(pause, fmt.Errorf("there is no profile %s", call.Profile))
	}
	if p.Callback == nil {
		return engine.Fail(CauseHookRemoved, fmt.Errorf("profile %s has no callback any more", call.Profile))
	}
	address, err := p.Callback.Address()
	if err != nil {
		return engine.RetryAfter(pause, fmt.Errorf("the callback of profile %s: %w", p.ID, err))
	}
	keys, err := p.Callback.Keys()
	if err != nil {
		return engine.RetryAfter(pause, fmt.Errorf("the callback of profile %s: %w", p.ID, err))
	}
	target, err := call.target(address, m.Job)
	if err != nil { // its text may hold a secret
		return engine.RetryAfter(pause, fmt.Errorf("the URL of the callback of profile %s cannot be used", p.ID))
	}
	o := webhook.Options{Transport: keyed{a.client(p).Transport()}, Timeout: callbackTimeout}
	if call.Form == profile.FormMerritt {
		o.MediaType = "application/json"
	}
	s := webhook.NewSender(o)
	err = s.Send(ctx, target, m.Key, a.engine.Clock().Wall(), call.Body, keys...)
	var e *webhook.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Gone():
		return engine.Fail(CauseHookGone, fmt.Errorf("%w: take the callback out of profile %s", err, p.ID))
	case errors.As(err, &e):
		return engine.RetryAfter(max(pause, e.RetryAfter), err)
	}
	return err
}

// target gives the address of a call: that of the profile, in Merritt's form with /mc/ and the id of the job behind its
// path.
func (c *called) target(text string, id job.ID) (string, error) {
	if c.Form != profile.FormMerritt {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	return u.JoinPath("mc", string(id)).String(), nil
}

// keyed sends the id of a notification as its Idempotency-Key too, which receivers of callbacks may know.
type keyed struct{ http.RoundTripper }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // a RoundTripper must not change the request
	r.Header.Set("Idempotency-Key", r.Header.Get(webhook.HeaderID))
	return k.RoundTripper.RoundTrip(r)
}

// notify is the step of Notify. The commit that completes the job writes the callback into the outbox
// ([App.announceEnd]). Where the profile requires the callback, the job waits here for its delivery. Then the work
// directory goes.
func (t *task) notify(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if p.Callback != nil && p.Callback.Required {
		if err := t.awaitCallback(ctx, p); err != nil {
			return err
		}
	}
	t.conclude()
	t.app.reserved.spend(t.Job().ID, 0)
	return t.app.tree.Discard(t.Job().Parent, t.Job().ID)
}

// awaitCallback writes the required callback into the outbox, with the commit that lets the job wait, and returns nil
// once it was delivered.
func (t *task) awaitCallback(ctx context.Context, p *profile.Profile) error {
	j, now := t.Job(), t.Now()
	key := callbackKey(&j, record.Completed)
	sent, err := t.app.message(ctx, j.ID, key)
	if err != nil {
		return err
	}
	host, since, until := hostOf(p.Callback.URL), now, now.Add(t.app.pause())
	sentence := fmt.Sprintf("the callback to %s was not delivered yet", host)
	switch {
	case sent == nil:
		call, err := t.callback(&j, p)
		if err != nil {
			return err
		}
		if err := t.Send(callbackTopic, key, call); err != nil {
			return err
		}
	case sent.Settled == job.Delivered:
		return nil
	case sent.Settled == job.Abandoned:
		return fail(CauseCallback, "the callback was not delivered: %s", sent.Error)
	default:
		if since = sent.Created; sent.Attempts == 0 {
			sentence = fmt.Sprintf("the callback to %s was not sent yet: it waits for others to it", host)
		} else if sent.Error != "" {
			sentence += ": " + sent.Error
		}
		if sent.Due.Sub(now) > maxDelivery {
			until = sent.Due.Add(t.app.pause())
		}
	}
	return engine.Wait(job.Blocker{
		Code: CauseCallback, Sentence: sentence, Since: since, Until: until, Holder: host,
	})
}

// callback makes the required callback of a job that completes once it was delivered.
func (t *task) callback(j *job.Job, p *profile.Profile) (called, error) {
	after := *j
	after.State, after.Cause, after.Message = record.Completed, "", remark(&t.data)
	return t.app.newCalled(p, &end{job: &after, spec: &t.spec, data: &t.data, at: t.Now()})
}

// maxDelivery is how long an attempt at a delivery may take. A message that is due later than that is between two
// attempts: before the next one nothing becomes of it.
const maxDelivery = 2 * time.Minute

// message gives a job's message in the outbox by its key, or nil.
func (a *App) message(ctx context.Context, id job.ID, key string) (*job.Message, error) {
	all, err := job.MessagesOf(ctx, a.engine.Store(), id)
	if err != nil && job.KindOf(err) != job.NotFound {
		return nil, err
	}
	for i := range all {
		if all[i].Key == key {
			return &all[i], nil
		}
	}
	return nil, nil
}

// hostOf gives the host of a URL, which may be shown where the rest may be secret.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

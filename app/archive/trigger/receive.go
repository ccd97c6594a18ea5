package trigger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
)

// Receiver accepts events of another system, each of which starts one archive job. It is part of the configuration.
type Receiver struct {
	Source        string   `json:"source" need:"true" doc:"Source of the courses, by its name in sources."`
	Courses       []string `json:"courses,omitempty" doc:"Courses by their ids that may be archived. Defaults to all that the source has."`
	Categories    []string `json:"categories,omitempty" doc:"Categories by their ids: courses in them, and in the categories below them, may be archived. Defaults to all."`
	Preset        string   `json:"preset,omitempty" doc:"Preset of the jobs. Defaults to default."`
	Owner         string   `json:"owner,omitempty" doc:"Owner of the jobs. Defaults to event/ and the name."`
	SecretFile    string   `json:"secret_file" need:"true" doc:"File with the secrets that the sender signs with, one on a line: whsec_ and the base64 of 24 to 64 bytes. To exchange one, list both until the sender has the new one. Read for each event."`
	MostPerMinute int      `json:"most_per_minute,omitempty" min:"1" doc:"Events that are accepted in a minute, repeated ones included; the sender is to send others again later. Defaults to 60."`

	MostDelay string `json:"most_delay,omitempty" doc:"The longest time that an event may delay its job, such as to the end of an exam. Defaults to 90d."`
}

const mostDelay = 90 * 24 * time.Hour

// Check gives what is wrong with a receiver. It does not check that names and files exist.
func (r *Receiver) Check() (all []Mistake) {
	if d, err := quantity.ParseDuration(cmp.Or(r.MostDelay, "90d")); err != nil {
		all = append(all, Mistake{"most_delay", err})
	} else if d < 0 || d > 10*366*24*time.Hour {
		all = append(all, Mistake{"most_delay", errors.New("it must not be over 10 years")})
	}
	return all
}

// delay is the longest delay of a job. The receiver has passed Check.
func (r *Receiver) delay() time.Duration {
	d, err := quantity.ParseDuration(r.MostDelay)
	if r.MostDelay == "" || err != nil {
		return mostDelay
	}
	return d
}

// Event is the body of a request to a receiver.
type Event = api.ArchiveEvent

// MaxEvent is the most bytes of a body.
const MaxEvent = 64 << 10

// Bounds of an event.
const (
	maxType = 100
	maxID   = 200 // of the request: it becomes part of a key
)

// ErrSignature refuses a request whose sender is not known.
var ErrSignature = errors.New("no valid signature of a known sender")

// Receive accepts a request to a receiver: a notification that is signed as Standard Webhooks 1.0 states (see package
// edge/webhook). The job has a key that follows from the id of the notification, so that a repeated notification gives
// the job of the first one. Errors: [ErrSignature] without a valid signature of these minutes, and for an unknown
// receiver; Invalid for a body that is too large or malformed; Refused for a course that the receiver may not archive;
// Conflict for an id that was used with another body; [*LaterError] for one event too many, and while the source cannot
// be read.
func (a *App) Receive(ctx context.Context, name string, h http.Header, body io.Reader) (job.Job, error) {
	text, err := io.ReadAll(io.LimitReader(body, MaxEvent+1))
	if err != nil {
		return job.Job{}, job.Errorf(job.Invalid, "event", "", "the body cannot be read: %w", err)
	}
	if len(text) > MaxEvent {
		return job.Job{}, job.Errorf(job.Invalid, "event", "", "the body is larger than %d bytes", MaxEvent)
	}
	r, id, err := a.verify(name, h, text)
	if err != nil {
		return job.Job{}, err
	}
	if err := a.limit(name, r); err != nil {
		return job.Job{}, err
	}
	e, err := r.parse(text, a.now())
	if err != nil {
		return job.Job{}, err
	}
	q := archive.Request{
		Source: r.Source, Course: e.Course, Activities: e.Activities, Preset: r.Preset, Trigger: archive.TriggerEvent,
		Note: fmt.Sprintf("event %s of %s, notification %s", e.Type, name, id),
	}
	o := archive.Ordered{
		Owner: cmp.Or(r.Owner, "event/"+name), Actor: "event/" + name, Key: "event/" + name + "/" + id,
		By: lifecycle.Owner, Due: e.After,
	}
	known, err := a.engine.Store().List(ctx, job.Query{
		Kinds: []job.Kind{archive.Kind}, Owner: o.Owner, Key: o.Key, Limit: 1,
	})
	if err != nil {
		return job.Job{}, err
	}
	if len(known.Jobs) == 0 { // what was permitted once is not asked again: the source may be down
		if err := a.permitted(ctx, name, r, e.Course); err != nil {
			return job.Job{}, err
		}
	}
	return a.options.Jobs.Submit(ctx, q, o)
}

// verify checks the signature, and gives the receiver and the id of the notification. All refusals have one text, so
// that names cannot be guessed; the log has the reason.
func (a *App) verify(name string, h http.Header, body []byte) (*Receiver, string, error) {
	r, ok := a.options.Receivers()[name]
	err := errors.New("there is no such receiver")
	var id string
	if ok {
		var keys []webhook.Secret
		if keys, err = notify.Secrets(r.SecretFile); err == nil {
			id, err = webhook.Verify(h, body, a.engine.Clock().Wall(), keys...)
		}
	}
	if err == nil && (len(id) > maxID || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })) {
		err = fmt.Errorf("the id of the notification must have at most %d visible characters of ASCII", maxID)
	}
	if err != nil {
		a.options.Log.Warn("event refused", "receiver", name, "error", err)
		return r, "", job.Errorf(job.Refused, "event", "", "%w", ErrSignature)
	}
	return r, id, nil
}

// parse reads the body of a request.
func (r *Receiver) parse(text []byte, now time.Time) (e Event, err error) {
	bad := func(format string, args ...any) error { return job.Errorf(job.Invalid, "event", "", format, args...) }
	if !utf8.Valid(text) {
		return e, bad("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, bad("the body is not an event: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, bad("the body has more than one JSON value")
	}
	e.After = e.After.UTC()
	switch latest := now.Add(r.delay()); {
	case e.Type == "" || len(e.Type) > maxType:
		return e, bad("type must have 1 to %d bytes", maxType)
	case e.Course == "":
		return e, bad("course is missing")
	case e.After.After(latest):
		return e, bad("after is %s, and the receiver delays a job at most to %s", stamp(e.After), stamp(latest))
	}
	return e, nil
}

// permitted refuses a course that does not exist or that the receiver may not archive.
func (a *App) permitted(ctx context.Context, name string, r *Receiver, course string) error {
	src, err := a.options.Sources.Source(r.Source)
	if err != nil {
		return err
	}
	refused := func(reason any) error {
		return job.Errorf(job.Refused, "event", "", "course %.100q of %s is not archived: %v", course, r.Source, reason)
	}
	if len(r.Courses) > 0 && !slices.Contains(r.Courses, course) {
		return refused("the receiver does not allow it")
	}
	var all []source.Course
	if len(r.Categories) > 0 {
		all, err = source.CoursesIn(ctx, src, r.Categories)
	} else {
		all, err = src.Courses(ctx, []string{course})
	}
	var e *source.Error
	if err == nil {
		a.up(name)
	}
	switch {
	case errors.As(err, &e) && !e.Temporary():
		return refused(err)
	case err != nil:
		return a.down(name, r, err)
	case !slices.ContainsFunc(all, func(c source.Course) bool { return c.ID == course }):
		return refused("the receiver does not allow it")
	}
	return nil
}

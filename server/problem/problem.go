// Package problem answers requests that fail (RFC 9457). One table maps the kinds of errors to statuses.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// statusOf maps kinds of errors to statuses. Conflict, refused and stale share 409, "conflict with the current state of
// the target resource" (RFC 9110, section 15.5.10): the request is well formed, so it is not 422. The member kind
// distinguishes them.
var statusOf = map[job.ErrorKind]int{
	job.Invalid:     http.StatusBadRequest,
	job.NotFound:    http.StatusNotFound,
	job.Conflict:    http.StatusConflict,
	job.Refused:     http.StatusConflict,
	job.Stale:       http.StatusConflict,
	job.Gone:        http.StatusGone,
	job.Unavailable: http.StatusServiceUnavailable,
	job.Internal:    http.StatusInternalServerError,
}

// titleOf is a sentence for each kind.
var titleOf = map[job.ErrorKind]string{
	job.Invalid:     "The request is invalid.",
	job.NotFound:    "It does not exist.",
	job.Conflict:    "It has changed: read it again and decide again.",
	job.Refused:     "It is not allowed now.",
	job.Stale:       "The claim is over: stop working on it.",
	job.Gone:        "It has been deleted.",
	job.Unavailable: "It is not possible at the moment; try again.",
	job.Internal:    "The server failed; its log has the details.",
}

// protocol is an error that HTTP has a status of its own for, such as 413.
type protocol struct {
	err    *job.Error
	status int
}

func (p protocol) Error() string { return p.err.Error() }

func (p protocol) Unwrap() error { return p.err }

// Refuse returns an error with a status of its own, such as 413.
func Refuse(status int, kind job.ErrorKind, format string, args ...any) error {
	return protocol{job.Errorf(kind, "request", "", format, args...), status}
}

// From returns the error that a problem of this server describes.
func From(p *api.Problem) error {
	return protocol{&job.Error{Op: "request", Kind: p.Kind, ID: p.Job, Err: errors.New(p.Error())}, p.Status}
}

// Of describes an error to the caller. The text of an internal error stays in the log.
func Of(err error) *api.Problem {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = &job.Error{Op: "request", Kind: job.Unavailable, Err: err}
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = Refuse(http.StatusRequestEntityTooLarge, job.Invalid, "the body is larger than %d bytes", tooLarge.Limit)
	}
	full := job.IsFull(err)
	if full && job.KindOf(err) == job.Internal { // from the operating system
		err = &job.Error{Op: "request", Kind: job.Unavailable, Err: err}
	}
	p := &api.Problem{Kind: job.KindOf(err)}
	p.Status, p.Title, p.Type = statusOf[p.Kind], titleOf[p.Kind], "urn:stagepost:problem:"+string(p.Kind)
	if full {
		p.Status, p.Title = http.StatusInsufficientStorage, "The server's storage is full."
	}
	var proto protocol
	if errors.As(err, &proto) {
		p.Status = proto.status
	}
	var e *job.Error
	if errors.As(err, &e) {
		p.Op, p.Job = e.Op, e.ID
		if e.Err != nil {
			p.Detail = e.Err.Error()
		}
	}
	if p.Kind == job.Internal {
		p.Detail = "the server's log has the details"
	}
	var illegal *lifecycle.Illegal
	var with refusal
	if errors.As(err, &with) {
		illegal = &with.illegal
	}
	if illegal != nil || errors.As(err, &illegal) {
		p.Event, p.State, p.Rule = illegal.Event, illegal.Position.State, illegal.Why
		p.By, p.Can = illegal.By.String(), illegal.Can
	}
	return p
}

// refusal is a refusal by a rule of an application, with the events that are legal instead.
type refusal struct {
	error
	illegal lifecycle.Illegal
}

func (r refusal) Unwrap() error { return r.error }

// With adds to a refusal the legal events of the lifecycle.
func With(err error, illegal lifecycle.Illegal) error { return refusal{err, illegal} }

// Absent is the answer of a route whose part the server does not have. The sentence states what the server does not do,
// and by what changes that, such as "setting flow.http" or "module flow".
func Absent(op, sentence, by string) error {
	return job.Errorf(job.NotFound, op, "", "%s (%s)", sentence, by)
}

// Status returns the HTTP status and the sentence of a kind of error, for the documentation.
func Status(k job.ErrorKind) (status int, title string) { return statusOf[k], titleOf[k] }

// Other is a status that HTTP has for some errors of a kind.
type Other struct {
	Kind    job.ErrorKind
	Status  int
	Meaning string
}

// Others are the statuses besides those of the kinds, for the documentation.
var Others = []Other{
	{job.Refused, http.StatusUnauthorized, "Sign-in, or a valid token, is needed."},
	{job.Refused, http.StatusForbidden, "The role or the token does not allow it."},
	{job.Invalid, http.StatusMethodNotAllowed, "The path has other methods: the header Allow lists them."},
	{job.Conflict, http.StatusPreconditionFailed, "If-Match, or another precondition, does not hold."},
	{job.Invalid, http.StatusRequestEntityTooLarge, "The body, or a part of it, is too large."},
	{job.Invalid, http.StatusUnsupportedMediaType, "The media type of the body is another one."},
	{job.Invalid, http.StatusRequestedRangeNotSatisfiable, "The file has none of the bytes of Range."},
	{job.Refused, http.StatusMisdirectedRequest, "The server does not have the name in Host."},
	{job.Unavailable, http.StatusTooManyRequests, "There are too many requests: try again after Retry-After."},
	{job.Unavailable, http.StatusInsufficientStorage, "The server's storage is full."},
}

// Write answers with a problem.
func Write(w http.ResponseWriter, p *api.Problem) {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain fields
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Disposition")
	Retry(h, p.Status)
	w.WriteHeader(p.Status)
	fmt.Fprintf(w, "%s\n", text)
}

// Retry sets Retry-After for statuses after which a client should try again.
func Retry(h http.Header, status int) {
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if h.Get("Retry-After") == "" { // else the route has set it
			h.Set("Retry-After", "1")
		}
	case http.StatusInsufficientStorage:
		h.Set("Retry-After", "60")
	}
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// statusOf maps kinds of error to status. Conflict, refused and stale share 409, "conflict with the current state of the target resource"
// (RFC 9110, section 15.5.10): the request is well formed, which is why it is not 422, and the member kind tells them apart.
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
	job.Invalid:     "The request makes no sense.",
	job.NotFound:    "There is no such thing.",
	job.Conflict:    "It changed meanwhile: read again and decide anew.",
	job.Refused:     "It may not be done now.",
	job.Stale:       "The claim is over: stop working on it.",
	job.Gone:        "It was there and has been deleted.",
	job.Unavailable: "It cannot be done at the moment; try again.",
	job.Internal:    "Something is wrong with the server or its data.",
}

// protocol is an error that HTTP has a status of its own for, such as 413.
type protocol struct {
	err    *job.Error
	status int
}

func (p protocol) Error() string { return p.err.Error() }

func (p protocol) Unwrap() error { return p.err }

// Refuse makes an error about the protocol; only the guards and decoders before the handlers use it.
func Refuse(status int, kind job.ErrorKind, format string, args ...any) error {
	return protocol{job.Errorf(kind, "request", "", format, args...), status}
}

// ProblemOf says what an error is to the caller. The text of an internal error stays in the log.
func ProblemOf(err error) *api.Problem {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = &job.Error{Op: "request", Kind: job.Unavailable, Err: err}
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = Refuse(http.StatusRequestEntityTooLarge, job.Invalid, "the body is larger than %d bytes", tooLarge.Limit)
	}
	full := job.IsFull(err)
	if full && job.KindOf(err) == job.Internal { // as the operating system said it
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
	var with situated
	if errors.As(err, &with) {
		illegal = &with.illegal
	}
	if illegal != nil || errors.As(err, &illegal) {
		p.Event, p.State, p.Rule, p.By, p.Can = illegal.Event, illegal.Position.State, illegal.Why, illegal.By.String(), illegal.Can
	}
	return p
}

// fail answers with a problem.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if s.Storage != nil {
		err = s.Storage.Full(err)
	}
	p := ProblemOf(err)
	if p.Kind == job.Conflict && r.Header.Get("If-Match") != "" {
		p.Status = http.StatusPreconditionFailed
	}
	if p.Kind == job.Internal {
		s.Log.Error("request", "method", r.Method, "path", s.loggedPath(r), "error", err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		s.Log.Error("problem", "error", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Disposition")
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	case http.StatusInsufficientStorage:
		h.Set("Retry-After", "60")
	}
	w.WriteHeader(p.Status)
	fmt.Fprintf(w, "%s\n", text)
}

// loggedPath is the path of a request without the secret half of a token that stands in it.
func (s *Server) loggedPath(r *http.Request) string {
	const shown = 26 // the bytes of a token that name it
	for i := range s.all {
		before, _, found := strings.Cut(s.all[i].Pattern, "{token}")
		if token, ok := strings.CutPrefix(r.URL.Path, before); found && ok && len(token) > shown {
			return before + token[:shown] + "***"
		}
	}
	return r.URL.Path
}

// Reply answers with JSON.
func Reply[T any](w http.ResponseWriter, v T) error { return ReplyAs(w, http.StatusOK, v) }

func ReplyAs[T any](w http.ResponseWriter, status int, v T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return job.Errorf(job.Internal, "encode", "", "%w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who does not read on has gone
	return nil
}

// Status gives the HTTP status and the sentence of a kind of error, for the documentation.
func Status(k job.ErrorKind) (status int, title string) { return statusOf[k], titleOf[k] }

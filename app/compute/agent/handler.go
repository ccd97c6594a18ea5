package agent

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/httpguard"
	"github.com/stagepost/stagepost/job"
)

// Headers of the agent's API.
const (
	secretHeader   = "Stagepost-Secret"   // of the ticket
	instanceHeader = "Stagepost-Instance" // of the handle
)

// Paces of the agent's API.
const (
	beatEvery   = 5 * time.Second  // between signs of life in a stream of events
	patience    = 60 * time.Second // with a peer that neither reads nor writes
	longestWait = 60 * time.Second // of a check that waits for a change
)

// HandlerOptions of the agent's API. The zero value admits all who reach it.
type HandlerOptions struct {
	Token string // that callers bring ("Authorization: Bearer ...")
	// answers requests that are not for the agent's own API. Its access rules are its own. nil: they are not found
	Other http.Handler
}

// Handler serves the agent's own API under /v1/, and beside it the API of a module that takes payloads from servers of
// another kind.
func (a *App) Handler(o HandlerOptions) http.Handler {
	h := &api{app: a, allowed: Bearer(o.Token)}
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"PUT /v1/payloads/{job}/{attempt}":         h.put,
		"GET /v1/payloads/{job}/{attempt}":         h.look,
		"DELETE /v1/payloads/{job}/{attempt}":      h.forget,
		"POST /v1/payloads/{job}/{attempt}/kill":   h.kill,
		"GET /v1/payloads/{job}/{attempt}/results": h.results,
		"GET /v1/payloads/{job}/{attempt}/partial": h.partial,
		"GET /v1/payloads/{job}/{attempt}/log":     h.log,
		"GET /v1/room":                             h.room,
		"GET /v1/events":                           h.events,
		"POST /v1/drain":                           h.drain,
		"POST /v1/resume":                          h.resume,
	} {
		mux.Handle(pattern, h.guard(handle))
	}
	refuse := func(w http.ResponseWriter, code int, message string) { answer(w, code, &problem{Error: message}) }
	own := httpguard.Guard(mux, httpguard.Options{Token: o.Token != "", Refuse: refuse})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Other != nil && !strings.HasPrefix(r.URL.Path, "/v1/") {
			o.Other.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// api answers servers.
type api struct {
	app     *App
	allowed func(*http.Request) error
}

// problem is the body of every answer that is none.
type problem struct {
	Error   string `json:"error"`
	Refused bool   `json:"refused,omitempty"` // the agent will not run the parcel
	Here    bool   `json:"here,omitempty"`    // another one may
	Full    bool   `json:"full,omitempty"`    // for lack of space: it may later
}

var errUnauthorized = errors.New("the agent requires its token")

// Bearer gives the check whether a request brings a token, which takes a time that does not depend on it. Without a
// token all requests are allowed.
func Bearer(token string) func(*http.Request) error {
	if token == "" {
		return func(*http.Request) error { return nil }
	}
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) error {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		if !ok || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			return errUnauthorized
		}
		return nil
	}
}

// guard lets in who brings the token, and answers errors.
func (h *api) guard(handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h.allowed(r)
		if err == nil {
			err = handle(w, r)
		}
		if err != nil {
			h.refuse(w, r, err)
		}
	})
}

// refuse answers an error.
func (h *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *compute.Refusal
	status, body := http.StatusInternalServerError, problem{Error: err.Error()}
	switch kind := job.KindOf(err); {
	case errors.Is(err, errUnauthorized):
		w.Header().Set("WWW-Authenticate", "Bearer")
		status = http.StatusUnauthorized
	case errors.As(err, &refusal):
		status, body = http.StatusUnprocessableEntity, problem{refusal.Reason, true, refusal.Here, refusal.Full}
	case errors.Is(err, compute.ErrNoPayload), kind == job.NotFound:
		status = http.StatusNotFound
	case kind == job.Invalid:
		status = http.StatusBadRequest
	case kind == job.Refused, kind == job.Conflict:
		status = http.StatusConflict
	case kind == job.Unavailable:
		status = http.StatusServiceUnavailable
	}
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		h.app.log.Error("agent: a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	answer(w, status, &body)
}

// answer writes a JSON answer.
func answer[T any](w http.ResponseWriter, status int, v *T) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// handleOf reads of which payload a request is.
func handleOf(r *http.Request) (h compute.Handle, err error) {
	n, err := strconv.ParseInt(r.PathValue("attempt"), 10, 64)
	if err != nil {
		return h, job.Errorf(job.Invalid, "agent", "", "the attempt is not a number")
	}
	h.Ticket = compute.Ticket{Job: job.ID(r.PathValue("job")), Attempt: n, Secret: r.Header.Get(secretHeader)}
	h.Instance = r.Header.Get(instanceHeader)
	return h, checkTicket(h.Ticket)
}

func (h *api) look(w http.ResponseWriter, r *http.Request) error {
	handle, err := handleOf(r)
	if err != nil {
		return err
	}
	wait := time.Duration(0)
	if text := r.URL.Query().Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 {
			return job.Errorf(job.Invalid, "agent", "", "wait is a duration such as 30s")
		}
		wait = min(wait, longestWait)
	}
	rest(w, wait+patience)
	n, err := h.app.await(r.Context(), handle, compute.Standing(r.URL.Query().Get("standing")), wait)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, &n)
	return nil
}

func (h *api) kill(w http.ResponseWriter, r *http.Request) error {
	return h.act(w, r, h.app.Kill)
}

func (h *api) forget(w http.ResponseWriter, r *http.Request) error {
	return h.act(w, r, h.app.Forget)
}

// act does something to a payload that has no answer but its success.
func (h *api) act(w http.ResponseWriter, r *http.Request, do func(context.Context, compute.Handle) error) error {
	handle, err := handleOf(r)
	if err != nil {
		return err
	}
	if err := do(r.Context(), handle); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *api) room(w http.ResponseWriter, r *http.Request) error {
	room, err := h.app.Capacity(r.Context())
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, &room)
	return nil
}

func (h *api) drain(w http.ResponseWriter, r *http.Request) error {
	h.app.Drain()
	return h.room(w, r)
}

func (h *api) resume(w http.ResponseWriter, r *http.Request) error {
	h.app.Resume()
	return h.room(w, r)
}

// rest gives an answer so much time from now on.
func rest(w http.ResponseWriter, d time.Duration) {
	// a writer without deadlines has no limit either
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// unbound gives an answer all the time there is: each piece that is written sets a limit of its own.
func unbound(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}

// Server makes the server for a [App.Handler], with limits against slow peers (check S6) that do not bound how long a
// transfer takes as a whole.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

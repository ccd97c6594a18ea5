package wire

import (
	"crypto/subtle"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// AgentOptions of the agent's API. The zero value serves servers of the original and ours.
type AgentOptions struct {
	Compat   Compat
	Limits   Limits
	Features []string
	// Who refuses requests with 401. nil: every caller is the server, as in the original.
	Who func(*http.Request) error
	// Log gets the errors that servers do not. Defaults to none.
	Log *slog.Logger
}

type agent struct {
	b AgentBackend
	o AgentOptions
}

// Agent serves the API for servers over b. What it reports is safe behind an original server, which copies words
// blindly: only [Status.Report] leaves it, and the ZIP of a Completed payload with status 200 (206 only if a range was
// asked for).
func Agent(b AgentBackend, o AgentOptions) http.Handler {
	o.Limits = o.Limits.or(0, 10_000)
	if o.Features == nil {
		o.Features = []string{"exit-code", "range", "etag", "idempotency-key", "payload-token"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &agent{b: b, o: o}
	return o.Compat.bare(router{
		{method: http.MethodGet, pattern: "/", plain: pong},
		{method: http.MethodGet, pattern: "/health", plain: health(b.Health, o.Compat, o.Features)},
		{method: http.MethodGet, pattern: "/load", plain: a.allowed(a.load)},
		{method: http.MethodPost, pattern: "/submit", plain: a.allowed(a.submit)},
		{method: http.MethodGet, pattern: "/retrieve/{id}", byID: a.known(a.retrieve)},
		{method: http.MethodGet, pattern: "/retrieve_partial/{id}", byID: a.known(a.partial)},
		{method: http.MethodPost, pattern: "/kill/{id}", byID: a.known(a.kill)},
	})
}

func (a *agent) allowed(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.o.Who != nil {
			if err := a.o.Who(r); err != nil {
				a.o.Log.Info("wire: a server was refused", "path", r.URL.Path, "error", err)
				w.Header().Set("WWW-Authenticate", "Bearer")
				answer(w, http.StatusUnauthorized, jsonMedia, noPayload)
				return
			}
		}
		then(w, r)
	}
}

type payload func(w http.ResponseWriter, r *http.Request, p Payload)

// known answers 404 for a payload that there is not, or that was submitted under another token.
func (a *agent) known(then payload) func(http.ResponseWriter, *http.Request, uint32) {
	return func(w http.ResponseWriter, r *http.Request, id uint32) {
		a.allowed(func(w http.ResponseWriter, r *http.Request) {
			p, err := a.b.Payload(r.Context(), id)
			if err == nil && p.Token != "" &&
				subtle.ConstantTimeCompare([]byte(p.Token), []byte(r.Header.Get(TokenHeader))) == 0 {
				err = ErrNotFound
			}
			switch {
			case errors.Is(err, ErrNotFound):
				answer(w, http.StatusNotFound, jsonMedia, noPayload)
			case err != nil:
				a.fault("payload", id, err)
				answer(w, http.StatusInternalServerError, jsonMedia, noPayload)
			default:
				then(w, r, p)
			}
		})(w, r)
	}
}

func (a *agent) fault(op string, id uint32, err error) {
	a.o.Log.Error("wire: a server's request failed", "op", op, "payload", id, "error", err)
}

// received are the files of a submission. Its fields mean nothing.
type received struct {
	Submission
	files int
}

func (rc *received) file(name string, r io.Reader) error {
	rc.files++
	return rc.File(name, r)
}

func (*received) field(string, string) {}

func (a *agent) submit(w http.ResponseWriter, r *http.Request) {
	boundary, err := boundaryOf(r)
	if err != nil {
		answer(w, http.StatusBadRequest, textMedia, []byte("Invalid `boundary` for `multipart/form-data` request"))
		return
	}
	key, token := r.Header.Get("Idempotency-Key"), r.Header.Get(TokenHeader)
	if !validKey(key) || !validKey(token) {
		answer(w, http.StatusBadRequest, jsonMedia, noPayload)
		return
	}
	p, err := a.take(w, r, boundary, key, token)
	switch {
	case err == nil:
		p.Status = p.Status.Report()
		answer(w, http.StatusOK, jsonMedia, p.Encode(a.o.Compat != Strict))
	case isStore(err):
		a.refuse(w, "submit", err)
	default:
		answer(w, http.StatusBadRequest, jsonMedia, noPayload)
	}
}

// take gives the payload, or a *storeError where it is the agent's fault.
func (a *agent) take(w http.ResponseWriter, r *http.Request, boundary, key, token string) (Payload, error) {
	s, err := a.b.Begin(r.Context())
	if err != nil {
		return Payload{}, &storeError{err}
	}
	defer s.Discard()
	if g, can := s.(Guarded); can && token != "" {
		g.Guard(token)
	}
	if k, can := s.(Keyed); can && key != "" {
		if err := k.Key(key); err != nil {
			return Payload{}, &storeError{err}
		}
	}
	rc := &received{Submission: s}
	if err := receive(w, r, boundary, a.o.Limits, rc); err != nil {
		return Payload{}, err
	}
	if rc.files == 0 {
		return Payload{}, errForm
	}
	p, err := s.Commit(r.Context())
	if err != nil {
		return Payload{}, &storeError{err}
	}
	return p, nil
}

func isStore(err error) bool {
	_, ok := errors.AsType[*storeError](err)
	return ok
}

func (a *agent) refuse(w http.ResponseWriter, op string, err error) {
	code := http.StatusInternalServerError
	if c, sentence, ok := refusal(err); ok {
		a.o.Log.Info("wire: a submission was refused", "reason", sentence)
		code = c
	} else {
		a.fault(op, 0, err)
	}
	answer(w, code, jsonMedia, noPayload)
}

func (a *agent) retrieve(w http.ResponseWriter, r *http.Request, p Payload) {
	if p.Status != Completed {
		p.Status = p.Status.Report()
		answer(w, http.StatusOK, jsonMedia, p.Encode(a.o.Compat != Strict))
		return
	}
	res, err := a.b.Result(r.Context(), p.ID)
	if err != nil {
		if now, again := a.b.Payload(r.Context(), p.ID); again == nil && now.Status == Cleaned {
			answer(w, http.StatusOK, jsonMedia, now.Encode(a.o.Compat != Strict))
			return
		}
		a.fault("retrieve", p.ID, err)
		answer(w, http.StatusInternalServerError, jsonMedia, noPayload)
		return
	}
	defer res.File.Close()
	serveZIP(w, r, res, a.o.Compat)
}

func (a *agent) partial(w http.ResponseWriter, r *http.Request, p Payload) {
	err := streamZIP(w, r, func(begin func() io.Writer) error { return a.b.Partial(r.Context(), p.ID, begin) })
	switch {
	case err == nil:
	case errors.Is(err, ErrNotFound):
		answer(w, http.StatusNotFound, jsonMedia, noPayload)
	default:
		a.fault("retrieve_partial", p.ID, err)
		answer(w, http.StatusInternalServerError, jsonMedia, noPayload)
	}
}

func (a *agent) kill(w http.ResponseWriter, r *http.Request, p Payload) {
	switch err := a.b.Kill(r.Context(), p.ID); {
	case err == nil:
		answerEmpty(w, http.StatusOK)
	case errors.Is(err, ErrNotFound):
		answer(w, http.StatusNotFound, jsonMedia, noPayload)
	default:
		a.fault("kill", p.ID, err)
		answerEmpty(w, http.StatusInternalServerError)
	}
}

func (a *agent) load(w http.ResponseWriter, r *http.Request) {
	use, err := a.b.Load(r.Context())
	if err != nil {
		a.fault("load", 0, err)
		answerEmpty(w, http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, jsonMedia, []byte(formatLoad(use)))
}

// formatLoad writes a float as the original does: the shortest form of 32 bits, always with a point.
func formatLoad(use float64) string {
	if math.IsNaN(use) {
		use = 0
	}
	text := strconv.FormatFloat(max(0, min(use, 100)), 'f', -1, 32)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

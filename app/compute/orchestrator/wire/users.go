package wire

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// Compat reports how close to the original answers are.
type Compat string

// Full gives what the original gives and more, in keys and headers that its clients ignore. Strict gives exactly its
// bodies, and no headers that it does not send.
const (
	Full   Compat = ""
	Strict Compat = "strict"
)

// Options of the users' API. The zero value serves all users with the limits of the original.
type Options struct {
	Compat Compat
	// NoExtra leaves out the extra keys of /download, as Strict does.
	NoExtra bool
	Limits  Limits
	// NeedScript refuses uploads without a file run.sh (STRICT_UPLOAD) instead of taking a job that is Invalid at once.
	NeedScript bool
	// Features stand in /health beside the program's name. Default to what this package brings.
	Features []string
	// Who gives whom a request's token belongs to, or an error for 401. With it an upload belongs to that owner, for
	// whom user_id may be missing, and another user's job is as one that does not exist. nil: no authentication, as
	// in the original.
	Who func(*http.Request) (Caller, error)
	// Refused gets the requests without a valid token, and those for jobs of other users. Defaults to none.
	Refused func(*http.Request, error)
	// Log gets the errors that users do not. Defaults to none.
	Log *slog.Logger
}

type users struct {
	b    Backend
	o    Options
	page []byte
}

// Users serves the API for users over b: uploads, downloads, partial downloads, termination, health and its own
// description. It answers every path; unknown ones with an empty 404.
func Users(b Backend, o Options) http.Handler {
	o.Limits = o.Limits.or(MaxUpload, 1000)
	if o.Features == nil {
		o.Features = []string{"reason", "range", "etag", "idempotency-key"}
	}
	if o.Refused == nil {
		o.Refused = func(*http.Request, error) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	u := &users{b: b, o: o, page: describe(description)}
	return o.Compat.bare(router{
		{method: http.MethodGet, pattern: "/", plain: pong},
		{method: http.MethodGet, pattern: "/health", plain: health(b.Health, o.Compat, o.Features)},
		{method: http.MethodPost, pattern: "/upload", plain: u.upload},
		{method: http.MethodGet, pattern: "/download/{id}", byID: u.known(u.download)},
		{method: http.MethodGet, pattern: "/download_partial/{id}", byID: u.known(u.partial)},
		{method: http.MethodPost, pattern: "/terminate/{id}", byID: u.known(u.terminate)},
		{method: http.MethodGet, pattern: "/swagger", plain: seeSwagger},
		{method: http.MethodGet, pattern: "/swagger/", plain: u.swagger},
		{method: http.MethodGet, pattern: "/api-docs/openapi.json", plain: openAPI},
	})
}

// identify puts the request's sender into its context, or answers 401.
func (u *users) identify(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	if u.o.Who == nil {
		return r, true
	}
	who, err := u.o.Who(r)
	if err != nil || who == (Caller{}) {
		u.o.Refused(r, err)
		w.Header().Set("WWW-Authenticate", "Bearer")
		answerStatus(w, http.StatusUnauthorized, 0, Unknown, "Missing or invalid token")
		return nil, false
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, who)), true
}

// errForeign is why a job that exists is answered as one that does not.
var errForeign = errors.New("the job belongs to another user")

// job is a handler for a job that exists and that the caller may see.
type job func(w http.ResponseWriter, r *http.Request, id uint32, v View)

func (u *users) known(then job) func(http.ResponseWriter, *http.Request, uint32) {
	return func(w http.ResponseWriter, r *http.Request, id uint32) {
		r, ok := u.identify(w, r)
		if !ok {
			return
		}
		v, err := u.b.Job(r.Context(), id)
		if c, known := CallerOf(r.Context()); err == nil && known && !c.All && c.Owner != v.Owner {
			err = ErrNotFound
			u.o.Refused(r, errForeign)
		}
		switch {
		case errors.Is(err, ErrNotFound):
			notFound(w, id)
		case err != nil:
			u.fault("job", id, err)
			answerStatus(w, http.StatusInternalServerError, 0, Unknown, "Internal server error")
		default:
			then(w, r, id, v)
		}
	}
}

func (u *users) fault(op string, id uint32, err error) {
	u.o.Log.Error("wire: a request failed", "op", op, "job", id, "error", err)
}

func (u *users) plain() bool { return u.o.Compat == Strict || u.o.NoExtra }

package server

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/ratelimit"
	"github.com/stagepost/stagepost/server/token"
)

// Bounds of the log of refused requests: so many lines at once, and then one in a while. With them a day has at most
// some 9,000 lines.
const (
	refusedOfOne      = 10 // of one sender
	refusedOfOneEvery = time.Minute
	refusedOfAll      = 100
	refusedOfAllEvery = 10 * time.Second
	mostLoggedPath    = 200 // characters
)

// refusals limit how many refused requests are logged.
type refusals struct {
	one, all   *ratelimit.Limit
	suppressed atomic.Int64 // since the last line
}

func newRefusals(now func() time.Time) *refusals {
	return &refusals{one: ratelimit.New(refusedOfOneEvery, refusedOfOne, now),
		all: ratelimit.New(refusedOfAllEvery, refusedOfAll, now)}
}

// allow reports whether a line about a sender may be logged, and how many were not since the last one.
func (l *refusals) allow(sender string) (suppressed int64, ok bool) {
	if _, ok = l.one.Allow(sender); ok {
		_, ok = l.all.Allow("")
	}
	if !ok {
		l.suppressed.Add(1)
		return 0, false
	}
	return l.suppressed.Swap(0), true
}

// foreign is the answer that something does not exist, where it exists and the sender may not know of it.
type foreign struct{ error }

func (f foreign) Unwrap() error { return f.error }

// Foreign marks the answer that something does not exist, where it exists and the sender may not know of it: the
// answer stays the same, and the log has the request.
func Foreign(err error) error { return foreign{err} }

// reported is a refusal that is in the log.
type reported struct{ error }

func (r reported) Unwrap() error { return r.error }

// denied reports whether an error refuses a request because of who sent it, with which credential, or how often.
func denied(err error) bool {
	if _, logged := errors.AsType[reported](err); logged || err == nil || errors.Is(err, identity.ErrNone) {
		return false
	}
	if _, hidden := errors.AsType[foreign](err); hidden || errors.Is(err, identity.ErrInURL) {
		return true
	}
	switch problem.Of(err).Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return false
}

// Refused logs that a request was refused because of its sender: a wrong credential, or what the sender may not do. A
// request without a credential is not logged. Handlers that authenticate by themselves call it. The number of lines is
// bounded.
func (s *Server) Refused(r *http.Request, err error) {
	if err == nil || errors.Is(err, identity.ErrNone) {
		return
	}
	from, path := s.From(r), []rune(s.loggedPath(r))
	if len(path) > mostLoggedPath {
		path = path[:mostLoggedPath]
	}
	if token.InURL(r.URL) {
		path = []rune(job.Withheld)
	}
	who, known := Who(r.Context())
	sender := who.Name
	if !known {
		sender = s.Party(r)
	}
	suppressed, ok := s.refusals.allow(sender)
	if !ok {
		return
	}
	all := []any{"method", r.Method, "path", string(path), "from", from, "error", err}
	if known {
		all = append(all, "actor", who.Name, "role", who.Role, "way", who.Way)
	}
	if suppressed > 0 {
		all = append(all, "suppressed", suppressed)
	}
	s.Log.Warn("refused", all...)
}
